// (span) tuning state
#pragma once

#include <cuda_pipeline.h>

#include "08_unaligned_rows/cut.cuh"
#include "common/harness/cuda_check.h"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/shape.h"

enum class Lanes { over_rows, over_columns };

/// The first element of a span in shared memory: as far past 16 bytes as it is in global memory.
template <class T>
__device__ T* place_of(const T* global, unsigned char* shared) {
  return reinterpret_cast<T*>(shared) + elements_past_16_bytes(global);
}

template <class Op, Lanes lanes, int most, class T>
__global__ void __launch_bounds__(1024)
    flat_span_softmax(const T* x, T* y, Shape shape, int rows_of_block, int span_bytes) {
  constexpr int N = elements_per_16_bytes<T>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto* pairs = reinterpret_cast<typename Op::State*>(shared_bytes + span_bytes);
  const int cols = static_cast<int>(shape.cols);
  const int thread = static_cast<int>(threadIdx.x);
  const int step = static_cast<int>(blockDim.x);
  const int parts = lanes == Lanes::over_columns ? 32 : step / rows_of_block;
  const int row = lanes == Lanes::over_rows ? thread % rows_of_block : thread / parts;
  const int part = lanes == Lanes::over_rows ? thread / rows_of_block : thread % parts;

  for (std::int64_t first_row = blockIdx.x * std::int64_t{rows_of_block}; first_row < shape.rows;
       first_row += gridDim.x * std::int64_t{rows_of_block}) {
    const int rows = static_cast<int>(min(std::int64_t{rows_of_block}, shape.rows - first_row));
    const T* span_x = x + first_row * cols;
    T* span_y = y + first_row * cols;

    T* span = place_of(span_x, shared_bytes);
    const Cut<N> in(span_x, rows * cols);
    for (int pack = thread; pack < in.num_packs; pack += step) {
      __pipeline_memcpy_async(span + in.col_of_pack(pack), span_x + in.col_of_pack(pack), 16);
    }
    __pipeline_commit();
    if (thread < in.num_singles()) span[in.col_of_single(thread)] = span_x[in.col_of_single(thread)];
    __pipeline_wait_prior(0);
    __syncthreads();

    const int first = row * cols + part;
    const int end = row < rows ? cols : 0;
    const auto exists = [&](int i) { return part + i * parts < end; };
    float values[most];
    typename Op::State own{};
#pragma unroll
    for (int i = 0; i < most; ++i) {
      values[i] = exists(i) ? static_cast<float>(span[first + i * parts]) : MaxSum{}.max;
      own.max = fmaxf(own.max, values[i]);
    }
    const float shift = safe_shift(own.max);
#pragma unroll
    for (int i = 0; i < most; ++i) {
      values[i] = Op::kept(values[i], shift);
      own.sum += Op::summand(values[i]);
    }
    if (lanes == Lanes::over_rows && parts > 1) pairs[thread] = own;
    __syncthreads();  // and all have read: y may begin at another place
    typename Op::State total = own;
    if (lanes == Lanes::over_columns) {
      total = warp_merge<Op>(own);
    } else if (parts > 1) {
      total = {};
      for (int other = 0; other < parts; ++other)
        total = Op::merge(total, pairs[other * rows_of_block + row]);
    }

    const float to_row = RowResult<Op>(total)(shift);
    T* results = place_of(span_y, shared_bytes);
#pragma unroll
    for (int i = 0; i < most; ++i) {
      if (exists(i)) results[first + i * parts] = static_cast<T>(Op::finish_part(values[i], to_row));
    }
    __syncthreads();

    const Cut<N> out(span_y, rows * cols);
    for (int pack = thread; pack < out.num_packs; pack += step) {
      *reinterpret_cast<Pack<T, N>*>(span_y + out.col_of_pack(pack)) =
          load_pack<N>(results + out.col_of_pack(pack));
    }
    if (thread < out.num_singles()) span_y[out.col_of_single(thread)] = results[out.col_of_single(thread)];
    __syncthreads();
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
