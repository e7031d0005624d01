// From the stage cross_entropy: forward/flat_span.cuh for the loss alone or with its gradient, for narrow
// rows that packs of 16 bytes do not cover. At bf16 262144 x 33, loss and gradient reached 92.4 % of the
// ceiling; narrow_rows reached 64.0 % (H200).
#pragma once

#include "common/rowwise/kernels/forward/flat_span.cuh"
#include "common/rowwise/kernels/loss/row_loss.cuh"

namespace rowwise {

/// Threads share the rows as in flat_span_softmax.
template <class Op, int N, int most_packs, class T>
__global__ void __launch_bounds__(flat_span_most_threads, flat_span_least_blocks(most_packs, N))
    span_loss(const T* x, const std::int64_t* labels, float* loss, T* dx, Shape shape, int span_bytes,
              L2Policy reads) {
  constexpr int most_cols = most_packs * N;
  extern __shared__ __align__(line_bytes) unsigned char buffer[];  // the span; then the states of the parts
  auto* states = reinterpret_cast<typename Op::State*>(buffer + span_bytes);
  const int cols = static_cast<int>(shape.cols);
  const int rows_of_block = static_cast<int>(blockDim.x);
  const int parts = static_cast<int>(blockDim.y);
  const int threads = rows_of_block * parts;
  const int row = static_cast<int>(threadIdx.x);
  const int thread = static_cast<int>(threadIdx.y) * rows_of_block + row;
  const int first_col = static_cast<int>(threadIdx.y) * most_cols;

  for (std::int64_t first_row = blockIdx.x * std::int64_t{rows_of_block}; first_row < shape.rows;
       first_row += gridDim.x * std::int64_t{rows_of_block}) {
    const int rows = static_cast<int>(min(std::int64_t{rows_of_block}, shape.rows - first_row));
    const bool has_row = row < rows;
    const T* const span_x = x + first_row * cols;
    const std::int64_t label = has_row ? labels[first_row + row] : ignored_label;
    copy_in(place_in(buffer, span_x), span_x, rows * cols, thread, threads, reads);
    __syncthreads();

    const T* const row_x = place_in(buffer, span_x) + row * cols;
    const int count = has_row ? cols - first_col : 0;
    // Nothing in an ignored row may reach dx, not even a NaN.
    const int exist = label == ignored_label ? 0 : count;
    float values[most_cols];
    read_part<N>(row_x + first_col, exist, values);
    const bool has_label = first_col <= label && label < min(first_col + most_cols, cols);
    const float x_label = has_label ? static_cast<float>(row_x[label]) : NAN;
    BelowMax below;
    if (Op::smoothing > 0) {
      below.add(max_of(values), values, [&](int i) { return i < exist; });
    }
    MaxSum own;
    const float shift = keep_exponentials<Softmax>(values, own);
    typename Op::State state = Op::state(own, below);
    if (parts > 1) states[thread] = state;
    // All threads have read their elements: dx may have another offset than x.
    if (parts > 1 || has_gradient<Op>) __syncthreads();
    if (parts > 1) {
      state = {};
      for (int part = 0; part < parts; ++part) {
        state = Op::merge(state, states[part * rows_of_block + row]);
      }
    }
    // The thread that has x[label] writes the loss or, if the label is not a column, the row's first thread.
    const bool is_column = 0 <= label && label < cols;
    if (is_column ? has_label : has_row && first_col == 0) {
      loss[first_row + row] = loss_of_row<Op>(state, x_label, label, cols);
    }
    if constexpr (has_gradient<Op>) {
      T* const span_dx = dx + first_row * cols;
      T* const row_dx = place_in(buffer, span_dx) + row * cols;
      const RowGradient<Op> gradient(state, label, cols, shift);
      gradient.beside_label(values);
      write_part<N>(row_dx + first_col, count, values);
      // One element is computed again: a comparison per element would cost as much as its exponential.
      if (has_label) row_dx[label] = static_cast<T>(gradient.at_label(__expf(x_label - shift)));
      __syncthreads();
      copy_out(span_dx, place_in(buffer, span_dx), rows * cols, thread, threads);
    }
    __syncthreads();  // the next span is copied over this one
  }
}

/// Rows that packs of 16 bytes do not cover; rows = 0 does nothing. Throws CudaError.
struct SpanOfRows {
  using Operations = LossesAndGradients;
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (!matrix.in_odd_packs()) return {Why::odd_packs};
    return at_most_columns(most_cols_of_span_in(gpu.shared_bytes, matrix.element_bytes), matrix,
                           Why::registers_of_block_for_32);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const T* const written = has_gradient<Op> ? tensors.dx : tensors.x;
    with_span_tile(tensors.x, written, tensors.shape.cols, [&]<int N, int packs>(dim3 block, int span_bytes) {
      const int shared_bytes = span_bytes + static_cast<int>(block.x * block.y * sizeof(typename Op::State));
      const auto kernel = span_loss<Op, N, packs, T>;
      CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
      kernel<<<grid_for(divide_up(tensors.shape.rows, block.x)), block, shared_bytes, stream>>>(
          tensors.x, tensors.labels, tensors.loss, tensors.dx, tensors.shape, span_bytes,
          has_gradient<Op> ? policy_of_reads<T>(2, tensors.shape) : L2Policy::as_usual);
      CUDA_CHECK(cudaGetLastError());
    });
  }
};

}  // namespace rowwise
