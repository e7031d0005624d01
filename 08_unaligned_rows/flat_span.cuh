// Several narrow rows as one span: it enters and leaves shared memory as aligned packs, whatever the width.
#pragma once

#include "03_warp_reduce/first_tile.cuh"
#include "08_unaligned_rows/cut.cuh"
#include "08_unaligned_rows/finish_row.cuh"
#include "common/harness/current_device.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/l2_policy.cuh"
#include "common/kernel/shape.h"

/// Copies `count` elements to their place_in shared memory, by thread `thread` of `threads`, which waits for
/// what it has copied itself. No registers are needed, so many packs can be on their way.
template <class T>
__device__ void copy_in(T* shared, const T* global, int count, int thread, int threads, L2Policy reads) {
  const Cut<elements_per_16_bytes<T>> cut(global, count);
  for (int pack = thread; pack < cut.num_packs; pack += threads) {
    copy_async(shared + cut.col_of_pack(pack), global + cut.col_of_pack(pack), reads);
  }
  __pipeline_commit();
  if (thread < cut.num_singles()) shared[cut.col_of_single(thread)] = global[cut.col_of_single(thread)];
  __pipeline_wait_prior(0);
}
template <class T>
__device__ void copy_out(T* global, const T* shared, int count, int thread, int threads) {
  constexpr int N = elements_per_16_bytes<T>;
  const Cut<N> cut(global, count);
  for (int pack = thread; pack < cut.num_packs; pack += threads) {
    store_pack(global + cut.col_of_pack(pack), load_pack<N>(shared + cut.col_of_pack(pack)));
  }
  if (thread < cut.num_singles()) global[cut.col_of_single(thread)] = shared[cut.col_of_single(thread)];
}

/// The first `count` of the values, or all. A check for each element would cost as much as the element: it is
/// made only where the part is narrower than its registers.
template <int most, class T>
__device__ void read_part(const T* part, int count, float (&values)[most]) {
  if (count >= most) {
#pragma unroll
    for (int i = 0; i < most; ++i) values[i] = static_cast<float>(part[i]);
  } else {
#pragma unroll
    for (int i = 0; i < most; ++i) values[i] = i < count ? static_cast<float>(part[i]) : no_element;
  }
}
template <int most, class T>
__device__ void write_part(T* part, int count, const float (&values)[most]) {
  if (count >= most) {
#pragma unroll
    for (int i = 0; i < most; ++i) part[i] = static_cast<T>(values[i]);
  } else {
#pragma unroll
    for (int i = 0; i < most; ++i) {
      if (i < count) part[i] = static_cast<T>(values[i]);
    }
  }
}

constexpr int flat_span_most_threads = 512;

/// Thread (r, p) has part p of the block's row r. The lanes of a warp have 32 rows and the same columns: at
/// an odd width these lie in 32 banks.
template <class Op, int most_cols_of_part, class T>
__global__ void __launch_bounds__(flat_span_most_threads)
    flat_span_softmax(const T* x, T* y, Shape shape, int span_bytes, L2Policy reads) {
  extern __shared__ __align__(line_bytes) unsigned char buffer[];  // the span; then the states of the parts
  auto* states = reinterpret_cast<typename Op::State*>(buffer + span_bytes);
  const int cols = static_cast<int>(shape.cols);
  const int rows_of_block = static_cast<int>(blockDim.x);
  const int parts = static_cast<int>(blockDim.y);
  const int threads = rows_of_block * parts;
  const int row = static_cast<int>(threadIdx.x);
  const int thread = static_cast<int>(threadIdx.y) * rows_of_block + row;
  const int first_col = static_cast<int>(threadIdx.y) * most_cols_of_part;

  for (std::int64_t first_row = blockIdx.x * std::int64_t{rows_of_block}; first_row < shape.rows;
       first_row += gridDim.x * std::int64_t{rows_of_block}) {
    const int rows = static_cast<int>(min(std::int64_t{rows_of_block}, shape.rows - first_row));
    const T* span_x = x + first_row * cols;
    T* span_y = y + first_row * cols;
    copy_in(place_in(buffer, span_x), span_x, rows * cols, thread, threads, reads);
    __syncthreads();

    const int place = row * cols + first_col;
    const int count = row < rows ? cols - first_col : 0;
    float values[most_cols_of_part];
    read_part(place_in(buffer, span_x) + place, count, values);
    finish_row<Op>(values, [&](typename Op::State own) {
      if (parts > 1) states[thread] = own;
      __syncthreads();  // and all have read their elements: y may lie otherwise than x
      if (parts == 1) return own;
      typename Op::State total{};
      for (int part = 0; part < parts; ++part) {
        total = Op::merge(total, states[part * rows_of_block + row]);
      }
      return total;
    });

    write_part(place_in(buffer, span_y) + place, count, values);
    __syncthreads();
    copy_out(span_y, place_in(buffer, span_y), rows * cols, thread, threads);
    __syncthreads();  // the next span is copied over this one
  }
}

/// How many columns a thread may have.
struct SpanTile {
  int most_cols;
  int most_parts = 1;
  constexpr std::int64_t cols() const { return most_cols * most_parts; }
  constexpr bool fits(std::int64_t row_cols) const { return row_cols <= cols(); }
};
constexpr SpanTile widest_span_tile{.most_cols = 33, .most_parts = flat_span_most_threads / 32};

/// Rows of a block: a multiple of 32, as many as make 16 KiB of them, or 256 threads. A block whose copies
/// are on their way does nothing else, so an SM needs several.
inline int rows_of_span(std::int64_t row_bytes, int parts) {
  const std::int64_t warps = min((16 << 10) / row_bytes, std::int64_t{256 / parts}) / 32;
  return static_cast<int>(32 * max(warps, std::int64_t{1}));
}

/// Softmax (or log-softmax) of each row, cols <= widest_span_tile.cols(); rows = 0 does nothing.
struct FlatSpan {
  template <class Op, class T>
  static void launch(const T* x, T* y, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_first_tile_that_fits<SpanTile{8}, SpanTile{16}, widest_span_tile>(shape.cols, [&]<SpanTile tile>() {
      const std::int64_t row_bytes = shape.cols * std::int64_t{sizeof(T)};
      const int parts = static_cast<int>(divide_up(shape.cols, tile.most_cols));
      const int rows = rows_of_span(row_bytes, parts);
      const int span_bytes = static_cast<int>(bytes_with_place(rows * row_bytes));
      const int shared_bytes = span_bytes + rows * parts * int{sizeof(typename Op::State)};
      const auto kernel = flat_span_softmax<Op, tile.most_cols, T>;
      CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
      const dim3 block(rows, parts);
      kernel<<<grid_for(divide_up(shape.rows, rows)), block, shared_bytes, stream>>>(
          x, y, shape, span_bytes, policy_of_reads<T>(2, shape));
      CUDA_CHECK(cudaGetLastError());
    });
  }
};
