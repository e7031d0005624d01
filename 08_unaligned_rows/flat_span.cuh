// Several rows as one span: it enters and leaves shared memory as aligned packs, whatever its rows' width.
#pragma once

#include <cuda_pipeline.h>

#include "08_unaligned_rows/cut.cuh"
#include "08_unaligned_rows/finish_row.cuh"
#include "common/harness/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/shape.h"

/// Where an element of global memory lies in a buffer that begins at a pack: as far past a pack as there.
template <class T>
__device__ T* place_in(unsigned char* buffer, const T* global) {
  return reinterpret_cast<T*>(buffer) + elements_past_pack(global);
}

/// Copies of all threads of the block, which wait for their own.
template <class T>
__device__ void copy_in(T* shared, const T* global, int count) {
  const Cut<elements_per_16_bytes<T>> cut(global, count);
  const int thread = static_cast<int>(threadIdx.x);
  for (int pack = thread; pack < cut.num_packs; pack += static_cast<int>(blockDim.x)) {
    __pipeline_memcpy_async(shared + cut.col_of_pack(pack), global + cut.col_of_pack(pack), 16);
  }
  __pipeline_commit();
  const int col = cut.col_of_single(thread);
  if (thread < cut.num_singles()) shared[col] = global[col];
  __pipeline_wait_prior(0);
}
template <class T>
__device__ void copy_out(T* global, const T* shared, int count) {
  constexpr int N = elements_per_16_bytes<T>;
  const Cut<N> cut(global, count);
  const int thread = static_cast<int>(threadIdx.x);
  for (int pack = thread; pack < cut.num_packs; pack += static_cast<int>(blockDim.x)) {
    pack_at<N>(global + cut.col_of_pack(pack)) = pack_at<N>(shared + cut.col_of_pack(pack));
  }
  const int col = cut.col_of_single(thread);
  if (thread < cut.num_singles()) global[col] = shared[col];
}

enum class Lanes { over_rows, over_columns };

template <class Op, Lanes lanes, int most, class T>
__global__ void __launch_bounds__(1024)
    flat_span_softmax(const T* x, T* y, Shape shape, int rows_of_block, int span_bytes) {
  extern __shared__ __align__(16) unsigned char buffer[];  // the span, then the parts' states
  auto* states = reinterpret_cast<typename Op::State*>(buffer + span_bytes);
  const int cols = static_cast<int>(shape.cols);
  const int thread = static_cast<int>(threadIdx.x);
  const int parts = lanes == Lanes::over_columns ? 32 : static_cast<int>(blockDim.x) / rows_of_block;
  const int row = lanes == Lanes::over_rows ? thread % rows_of_block : thread / parts;
  const int part = lanes == Lanes::over_rows ? thread / rows_of_block : thread % parts;

  for (std::int64_t first_row = blockIdx.x * std::int64_t{rows_of_block}; first_row < shape.rows;
       first_row += gridDim.x * std::int64_t{rows_of_block}) {
    const int rows = static_cast<int>(min(std::int64_t{rows_of_block}, shape.rows - first_row));
    const T* span_x = x + first_row * cols;
    T* span_y = y + first_row * cols;
    T* span = place_in(buffer, span_x);
    copy_in(span, span_x, rows * cols);
    __syncthreads();

    const int end = row < rows ? cols : 0;
    const auto col = [&](int i) { return part + i * parts; };
    float values[most];
#pragma unroll
    for (int i = 0; i < most; ++i) {
      values[i] = col(i) < end ? static_cast<float>(span[row * cols + col(i)]) : no_element;
    }

    finish_row<Op>(values, [&](typename Op::State own) {
      if (lanes == Lanes::over_rows && parts > 1) states[thread] = own;
      __syncthreads();  // and all have read their elements: the results may lie elsewhere
      if (lanes == Lanes::over_columns) return warp_merge<Op>(own);
      if (parts == 1) return own;
      typename Op::State total{};
      for (int p = 0; p < parts; ++p) total = Op::merge(total, states[p * rows_of_block + row]);
      return total;
    });

    T* results = place_in(buffer, span_y);
#pragma unroll
    for (int i = 0; i < most; ++i) {
      if (col(i) < end) results[row * cols + col(i)] = static_cast<T>(values[i]);
    }
    __syncthreads();
    copy_out(span_y, results, rows * cols);
    __syncthreads();  // the next span is copied over this one
  }
}

/// A block of at most `most_threads` threads, about `span` bytes.
template <Lanes lanes, int most, int span, int most_threads>
struct FlatSpan {
  static int parts(std::int64_t cols) {
    return lanes == Lanes::over_columns ? 32 : static_cast<int>(divide_up(cols, most));
  }
  static std::string unsupported(const Shape& shape, std::int64_t element_bytes) {
    if (parts(shape.cols) * most < shape.cols) return "too wide for the lanes of a warp";
    if (rows_of_block(shape.cols, element_bytes) == 0) return "too wide for the block";
    return "";
  }
  static int rows_of_block(std::int64_t cols, std::int64_t element_bytes) {
    const int multiple = lanes == Lanes::over_columns ? 1 : 32;
    const std::int64_t row_bytes = cols * element_bytes;
    std::int64_t rows = round_up(divide_up(span, row_bytes), multiple);
    if (rows * row_bytes > 2 * span && rows > multiple) rows -= multiple;
    rows = min(rows, std::int64_t{most_threads} / parts(cols) / multiple * multiple);
    return static_cast<int>(rows * row_bytes > 100000 ? 0 : rows);
  }

  template <class Op, class T>
  static void launch(const T* x, T* y, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    const int rows = rows_of_block(shape.cols, sizeof(T));
    const int threads = rows * parts(shape.cols);
    const auto span_bytes = static_cast<int>(round_up(rows * shape.cols * std::int64_t{sizeof(T)}, 16) + 16);
    const int pair_bytes =
        lanes == Lanes::over_rows && parts(shape.cols) > 1 ? threads * int{sizeof(typename Op::State)} : 0;
    const auto kernel = flat_span_softmax<Op, lanes, most, T>;
    CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, span_bytes + pair_bytes));
    kernel<<<grid_for(divide_up(shape.rows, rows)), threads, span_bytes + pair_bytes, stream>>>(
        x, y, shape, rows, span_bytes);
    CUDA_CHECK(cudaGetLastError());
  }
};
