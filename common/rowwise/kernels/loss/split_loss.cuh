// From the stage cross_entropy: the loss of few rows, each shared by many blocks, as forward/split_row.cuh
// splits it.
#pragma once

#include "common/rowwise/kernels/forward/split_row.cuh"
#include "common/rowwise/kernels/loss/turn.cuh"

namespace rowwise {

/// First kernel: the state of each part of each row. states: rows x gridDim.x.
template <class Op, class T>
__global__ void __launch_bounds__(split_block_size)
    states_of_parts(const T* x, typename Op::State* states, Shape shape, std::int64_t part_cols) {
  __shared__ typename Op::State storage[32];
  const PartOfRow part(part_cols, shape.cols);
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    const T* const part_x = x + row * shape.cols + part.first_col;
    const auto own = reduce_elements<Op, 4>(part_x, static_cast<int>(part.cols));
    const typename Op::State state = block_merge<Op>(own.state(), storage);
    if (threadIdx.x == 0) states[row * gridDim.x + blockIdx.x] = state;
  }
}

/// Second kernel: one warp per row.
template <class Op, class T>
__global__ void __launch_bounds__(32)
    loss_of_parts(const T* x, const std::int64_t* labels, const typename Op::State* states, float* loss,
                  Shape shape, int parts) {
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t label = labels[row];
    const Element<T> x_label(x + row * shape.cols, label, shape.cols);
    typename Op::State state{};
    for (int i = static_cast<int>(threadIdx.x); i < parts; i += 32) {
      state = Op::merge(state, states[row * parts + i]);
    }
    state = warp_merge<Op>(state);
    if (threadIdx.x == 0) loss[row] = loss_of_row<Op>(state, x_label.value(), label, shape.cols);
  }
}

/// The workspace holds the states of the parts between the two kernels.
struct SplitLoss : MakesLoss {
  static Split split(Shape shape) { return split_over_gpu(shape); }
  static Need needs(const Matrix& matrix) {
    const std::int64_t states = matrix.rows * split(matrix.shape()).parts;
    return {.workspace_bytes = static_cast<std::size_t>(states) * sizeof(PairAndBelow)};
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Shape shape = tensors.shape;
    if (shape.rows == 0) return;
    auto* const states = static_cast<typename Op::State*>(tensors.workspace);
    const auto [parts, part_cols] = split(shape);
    const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(min(shape.rows, max_grid_rows)));
    states_of_parts<Op><<<grid, split_block_size, 0, stream>>>(tensors.x, states, shape, part_cols);
    CUDA_CHECK(cudaGetLastError());
    loss_of_parts<Op><<<grid_for(shape.rows), 32, 0, stream>>>(tensors.x, tensors.labels, states,
                                                               tensors.loss, shape, static_cast<int>(parts));
    CUDA_CHECK(cudaGetLastError());
  }
};

}  // namespace rowwise
