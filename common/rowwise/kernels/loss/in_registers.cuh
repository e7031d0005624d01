// From the stage cross_entropy: the loss and the gradient of a row in the registers of a block or of a warp.
// Beyond the stage's kernel, rows are cut as in forward/head_and_tail.cuh. At bf16 32768 x 8192 this reached
// 99.9 % of the ceiling, and the stage's kernel 94.3 %; at bf16 49152 x 1025 this reached 97.9 %, and
// separate kernels 17.3 % (H200).
#pragma once

#include "common/rowwise/kernels/forward/head_and_tail.cuh"
#include "common/rowwise/kernels/loss/row_loss.cuh"

namespace rowwise {

/// Each exponential is computed once, relative to the maximum of the thread's own elements. x and dx have the
/// same offset from a pack.
template <class Op, int packs_per_thread, class T>
__global__ void __launch_bounds__(1024)
    in_registers_gradient(const T* x, const std::int64_t* labels, float* loss, T* dx, Shape shape,
                          unsigned boundary, L2Policy reads) {
  x = with_policy(x, reads);
  const int cols = static_cast<int>(shape.cols);
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    const T* const row_x = x + row * shape.cols;
    T* const row_dx = dx + row * shape.cols;
    const std::int64_t label = labels[row];  // used late, when it has arrived
    HeldRow<T, elements_per_16_bytes<T>, packs_per_thread> held(row_x, cols, boundary);
    BelowMax below;
    if (Op::smoothing > 0) {
      const float max = max_of(held.values);
      held.for_each_part([&](auto& part, int /*col*/) { below.add(max, part, AllExist{}); });
    }
    MaxSum own;
    const float shift = keep_exponentials<Softmax>(held.values, own);
    const Element<T> x_label(row_x, label, threadIdx.x == 0 ? cols : 0);  // the L1 or the L2 has it
    const typename Op::State state = merge_threads_of_row<Op>(Op::state(own, below));
    if (label == ignored_label) {
#pragma unroll
      for (float& value : held.values) value = 0;
    }
    const RowGradient<Op> gradient(state, label, cols, shift);
    held.for_each_part([&](auto& part, int col) {
      gradient.of_exponentials(part, col);
      store_pack(row_dx + col, make_pack<T>(part));
    });
    // This comes last: x[label] arrives while the gradient is computed.
    if (threadIdx.x == 0) loss[row] = loss_of_row<Op>(state, x_label.value(), label, cols);
  }
}

/// rows = 0 does nothing. Throws CudaError.
struct InRegisters : MakesLossAndGradient {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    if (!matrix.lie_alike) return {Why::other_places};
    return at_most_columns(most_cols_in_registers, matrix, Why::registers_of_block);
  }

  /// Calls launch.template operator()<packs_per_thread>(block) for rows of packs of N elements.
  template <int N, class Launch>
  static void with_block(std::int64_t cols, Launch launch) {
    with_packs_per_thread<N>(cols / N, [&]<int packs_per_thread>() {
      launch.template operator()<packs_per_thread>(block_of_rows(cols / N, packs_per_thread));
    });
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    with_block<elements_per_16_bytes<T>>(tensors.shape.cols, [&]<int packs_per_thread>(dim3 block) {
      in_registers_gradient<Op, packs_per_thread>
          <<<grid_for(divide_up(tensors.shape.rows, block.y)), block, 0, stream>>>(
              tensors.x, tensors.labels, tensors.loss, tensors.dx, tensors.shape, boundary_of_packs<T>(block),
              policy_of_reads<T>(2, tensors.shape));
      CUDA_CHECK(cudaGetLastError());
    });
  }
};

}  // namespace rowwise
