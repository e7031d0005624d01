// From the stage backward: forward/flat_span.cuh with two rows, for narrow rows that packs of 16 bytes do not
// cover. Note N18 has the choice of the part's width.
#pragma once

#include "common/kernel/row_gradient.cuh"
#include "common/rowwise/kernels/forward/flat_span.cuh"

namespace rowwise {

/// Thread (r, p) has part p of the block's row r: at most part_packs packs of N elements. It reads them once
/// for the sum and again for dx, which takes the place of dy: both have the same offset from a pack of 16
/// bytes.
template <class Op, int N, class T>
__global__ void __launch_bounds__(flat_span_most_threads)
    span_backward(const T* y, const T* dy, T* dx, Shape shape, int part_packs, int span_bytes,
                  L2Policy reads) {
  extern __shared__ __align__(line_bytes) unsigned char buffer[];  // y, then dy, then the sums of the parts
  auto* sums = reinterpret_cast<typename Op::State*>(buffer + 2 * span_bytes);
  const int cols = static_cast<int>(shape.cols);
  const int rows_of_block = static_cast<int>(blockDim.x);
  const int parts = static_cast<int>(blockDim.y);
  const int threads = rows_of_block * parts;
  const int row = static_cast<int>(threadIdx.x);
  const int thread = static_cast<int>(threadIdx.y) * rows_of_block + row;
  const int first_pack = static_cast<int>(threadIdx.y) * part_packs;
  const int packs = min(part_packs, cols / N - first_pack);

  for (std::int64_t first_row = blockIdx.x * std::int64_t{rows_of_block}; first_row < shape.rows;
       first_row += gridDim.x * std::int64_t{rows_of_block}) {
    const int rows = static_cast<int>(min(std::int64_t{rows_of_block}, shape.rows - first_row));
    const std::int64_t first = first_row * cols;
    const Cut<elements_per_16_bytes<T>> cut_of_y(y + first, rows * cols);
    const Cut<elements_per_16_bytes<T>> cut_of_dy(dy + first, rows * cols);
    T* const span_of_y = place_in(buffer, y + first);
    T* const span_of_dy = place_in(buffer + span_bytes, dy + first);
    request_span(span_of_y, y + first, cut_of_y, thread, threads, reads);
    request_span(span_of_dy, dy + first, cut_of_dy, thread, threads, reads);
    __pipeline_commit();
    copy_singles(span_of_y, y + first, cut_of_y, thread);
    copy_singles(span_of_dy, dy + first, cut_of_dy, thread);
    __pipeline_wait_prior(0);
    __syncthreads();

    const T* const own_y = span_of_y + row * cols + first_pack * N;
    T* const own_dy = span_of_dy + row * cols + first_pack * N;
    const int num_packs = row < rows ? packs : 0;
    typename Op::State sum{};
#pragma unroll 4
    for (int i = 0; i < num_packs; ++i) {
      add_packs<Op>(sum, load_pack<N>(own_y + i * N), load_pack<N>(own_dy + i * N));
    }
    if (parts > 1) {
      sums[thread] = sum;
      __syncthreads();
      sum = {};
      for (int part = 0; part < parts; ++part) sum = Op::merge(sum, sums[part * rows_of_block + row]);
    }
#pragma unroll 4
    for (int i = 0; i < num_packs; ++i) {
      store_pack(own_dy + i * N,
                 finish_packs<Op>(sum, load_pack<N>(own_y + i * N), load_pack<N>(own_dy + i * N)));
    }
    __syncthreads();
    copy_out(dx + first, span_of_dy, rows * cols, thread, threads);
    __syncthreads();  // the next spans are copied over these
  }
}

/// In y, dy and dx, rows begin at packs of at most 8 bytes, or at elements; dy and dx have the same offset
/// from a pack of 16 bytes. rows = 0 does nothing. Throws CudaError.
struct SpanOfTwoRows {
  using Operations = BackwardOperations;
  // Note N18: with 34, few rows were slower.
  static constexpr int most_cols_of_part = 17;

  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (!matrix.in_odd_packs()) return {Why::odd_packs};
    if (!matrix.lie_alike) return {Why::other_places};
    const std::int64_t most_cols = min(std::int64_t{most_cols_of_part} * (flat_span_most_threads / 32),
                                       most_cols_of_span_in(gpu.shared_bytes, matrix.element_bytes, 2));
    return at_most_columns(most_cols, matrix, Why::threads_of_block_for_32);
  }

  template <class Op, int N, class T>
  static void launch_packs(const Tensors<T>& tensors, cudaStream_t stream) {
    const std::int64_t row_bytes = tensors.shape.cols * std::int64_t{sizeof(T)};
    const auto parts = static_cast<int>(divide_up(tensors.shape.cols, most_cols_of_part));
    const auto part_packs = static_cast<int>(divide_up(tensors.shape.cols / N, parts));
    const dim3 block(rows_of_span(2 * row_bytes, parts), static_cast<unsigned>(parts));  // 6 KiB of both
    const int span_bytes = static_cast<int>(bytes_with_place(block.x * row_bytes));
    const int shared_bytes =
        2 * span_bytes + static_cast<int>(block.x * block.y * sizeof(typename Op::State));
    const auto kernel = span_backward<Op, N, T>;
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    kernel<<<grid_for(divide_up(tensors.shape.rows, block.x)), block, shared_bytes, stream>>>(
        tensors.y, tensors.dy, tensors.dx, tensors.shape, part_packs, span_bytes,
        policy_of_reads<T>(3, tensors.shape));
    CUDA_CHECK(cudaGetLastError());
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    constexpr int widest = 8 / sizeof(T);
    if (all_fit_packs<widest>(tensors.y, tensors.dy, tensors.dx, tensors.shape.cols)) {
      return launch_packs<Op, widest>(tensors, stream);
    }
    if constexpr (widest == 4) {
      if (all_fit_packs<2>(tensors.y, tensors.dy, tensors.dx, tensors.shape.cols))
        return launch_packs<Op, 2>(tensors, stream);
    }
    launch_packs<Op, 1>(tensors, stream);
  }
};

}  // namespace rowwise
