// The loss and the gradient of a row that fits the registers of a block, or of a warp.
#pragma once

#include "12_fusion/turn.cuh"

/// The threads of a row are those of one_read_loss, and read it in one turn. Packs stay packed: what is kept of an element is
/// the element, and its exponential is taken twice. x and dx lie equally far past a pack.
template <class Op, int packs_per_thread, class T>
__global__ void __launch_bounds__(1024)
    in_registers_gradient(const T* x, const std::int64_t* labels, float* loss, T* dx, Shape shape,
                          unsigned boundary, L2Policy reads) {
  x = with_policy(x, reads);
  const int cols = static_cast<int>(shape.cols);
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    const T* row_x = x + row * shape.cols;
    const std::int64_t label = labels[row];  // used late, when it has come
    const Cut<elements_per_16_bytes<T>> cut(row_x, cols, boundary);
    Turn<T, packs_per_thread> turn;
    turn.fetch(row_x, cut, 0);
    typename Op::Own own;
    turn.template add_to<Op>(own, cut, 0);
    const Element<T> x_label(row_x, label, threadIdx.x == 0 ? cols : 0);  // the L2 still has it
    const typename Op::State state = merge_threads_of_row<Op>(own.state());
    if (threadIdx.x == 0) loss[row] = loss_of_row<Op>(state, x_label.value(), label, cols);
    turn.write(dx + row * shape.cols, cut, 0, RowGradient<Op>(state, label, cols));
  }
}

/// Rows of at most most_packs packs; rows = 0 does nothing. Throws CudaError.
struct InRegisters {
  static constexpr int packs_per_thread = 4;
  static constexpr std::int64_t most_packs = 1024 * packs_per_thread;

  /// As few threads as hold the row, with one warp four rows a block.
  static dim3 block(std::int64_t row_bytes) {
    if (row_bytes / 16 <= 32 * packs_per_thread) return {32, 4};
    return threads_of_turns(row_bytes, packs_per_thread, 1024);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& of, cudaStream_t stream) {
    if (of.shape.rows == 0) return;
    const dim3 threads = block(of.row_bytes());
    const unsigned boundary = threads.x == 32 ? 16 : line_bytes;  // as OneRead
    in_registers_gradient<Op, packs_per_thread>
        <<<grid_for(divide_up(of.shape.rows, threads.y)), threads, 0, stream>>>(
            of.x, of.labels, of.loss, of.dx, of.shape, boundary, policy_of_reads<T>(2, of.shape));
    CUDA_CHECK(cudaGetLastError());
  }
};
