// From the stage unaligned_rows: several narrow rows as one span, which enters and leaves shared memory as
// aligned packs, whatever the width. At f32 262144 x 33 this reached 97.3 % of the copy's speed; the stage's
// kernels, with a block per row, reached 11.4 % (H200). Beyond one span of single elements, threads use
// packs of 8 and 4 bytes and smaller spans: up to 33 percentage points.
#pragma once

#include <array>
#include <climits>
#include <utility>

#include "common/kernel/current_device.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/l2_policy.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"
#include "common/rowwise/kernels/forward/cut.cuh"
#include "common/rowwise/kernels/forward/finish_row.cuh"

namespace rowwise {

/// Requests the packs of a span, to its place_in shared memory; called by thread `thread` of `threads`. The
/// copies need no registers: many can be in flight.
template <class T, int N>
__device__ void request_span(T* shared, const T* global, const Cut<N>& cut, int thread, int threads,
                             L2Policy reads) {
  for (int pack = thread; pack < cut.num_packs; pack += threads) {
    copy_async(shared + cut.col_of_pack(pack), global + cut.col_of_pack(pack), reads);
  }
}
template <class T, int N>
__device__ void copy_singles(T* to, const T* from, const Cut<N>& cut, int thread) {
  if (thread < cut.num_singles()) to[cut.col_of_single(thread)] = from[cut.col_of_single(thread)];
}

/// These copy `count` elements in or out; a thread waits for its own copies.
template <class T>
__device__ void copy_in(T* shared, const T* global, int count, int thread, int threads, L2Policy reads) {
  const Cut<elements_per_16_bytes<T>> cut(global, count);
  request_span(shared, global, cut, thread, threads, reads);
  __pipeline_commit();
  copy_singles(shared, global, cut, thread);
  __pipeline_wait_prior(0);
}
template <class T>
__device__ void copy_out(T* global, const T* shared, int count, int thread, int threads) {
  constexpr int N = elements_per_16_bytes<T>;
  const Cut<N> cut(global, count);
  for (int pack = thread; pack < cut.num_packs; pack += threads) {
    store_pack(global + cut.col_of_pack(pack), load_pack<N>(shared + cut.col_of_pack(pack)));
  }
  copy_singles(global, shared, cut, thread);
}

/// Reads the first `count` of the values, by packs of N; the others become -inf. Note N17: one loop
/// serves full and partial rows, because nvcc 13.0 makes more code from two.
template <int N, int most, class T>
__device__ void read_part(const T* part, int count, float (&values)[most]) {
  const bool all_exist = count >= most;
#pragma unroll
  for (int i = 0; i < most; i += N) {
    unpack(all_exist || i < count ? load_pack<N>(part + i) : missing_pack<T, N>(),
           values_of_pack<N>(values, i / N));
  }
}
template <int N, int most, class T>
__device__ void write_part(T* part, int count, float (&values)[most]) {
  const bool all_exist = count >= most;
#pragma unroll
  for (int i = 0; i < most; i += N) {
    if (all_exist || i < count) store_pack(part + i, make_pack<T>(values_of_pack<N>(values, i / N)));
  }
}

constexpr int flat_span_most_threads = 512;
/// The minimum of such blocks per SM, for __launch_bounds__. Note N16: without it (0), nvcc 13.0 gives each
/// thread of some instantiations with 43 columns per thread 113 registers.
constexpr int flat_span_least_blocks(int packs, int pack_size) {
  return packs * pack_size > 40 ? 2 : 0;
}

/// Thread (r, p) has part p of the block's row r, in packs of N elements. The lanes of a warp read the same
/// columns of 32 rows. If a row is an odd number of packs of 4 or 8 bytes, no two of these packs are in the
/// same bank.
template <class Op, int N, int most_packs, class T>
__global__ void __launch_bounds__(flat_span_most_threads, flat_span_least_blocks(most_packs, N))
    flat_span_softmax(const T* x, T* y, Shape shape, int span_bytes, L2Policy reads) {
  extern __shared__ __align__(line_bytes) unsigned char buffer[];  // the span; then the states of the parts
  auto* states = reinterpret_cast<typename Op::State*>(buffer + span_bytes);
  const int cols = static_cast<int>(shape.cols);
  const int rows_of_block = static_cast<int>(blockDim.x);
  const int parts = static_cast<int>(blockDim.y);
  const int threads = rows_of_block * parts;
  const int row = static_cast<int>(threadIdx.x);
  const int thread = static_cast<int>(threadIdx.y) * rows_of_block + row;
  const int first_col = static_cast<int>(threadIdx.y) * most_packs * N;

  for (std::int64_t first_row = blockIdx.x * std::int64_t{rows_of_block}; first_row < shape.rows;
       first_row += gridDim.x * std::int64_t{rows_of_block}) {
    const int rows = static_cast<int>(min(std::int64_t{rows_of_block}, shape.rows - first_row));
    const T* span_x = x + first_row * cols;
    T* span_y = y + first_row * cols;
    copy_in(place_in(buffer, span_x), span_x, rows * cols, thread, threads, reads);
    __syncthreads();

    const int place = row * cols + first_col;
    const int count = row < rows ? cols - first_col : 0;
    float values[most_packs * N];
    read_part<N>(place_in(buffer, span_x) + place, count, values);
    finish_row<Op>(values, [&](typename Op::State own) {
      if (parts > 1) states[thread] = own;
      __syncthreads();  // and all have read their elements: y may have another offset than x
      if (parts == 1) return own;
      typename Op::State total{};
      for (int part = 0; part < parts; ++part) {
        total = Op::merge(total, states[part * rows_of_block + row]);
      }
      return total;
    });

    write_part<N>(place_in(buffer, span_y) + place, count, values);
    __syncthreads();
    copy_out(span_y, place_in(buffer, span_y), rows * cols, thread, threads);
    __syncthreads();  // the next span is copied over this one
  }
}

/// The numbers of packs of N elements per thread that kernels exist for.
template <int N>
constexpr auto span_tiles = std::array{9, 17, 25, 33, 43};
template <>
constexpr inline auto span_tiles<2> = std::array{5, 9, 13, 17};
template <>
constexpr inline auto span_tiles<4> = std::array{5, 9};

/// How a row is shared: `parts` threads have up to `packs` packs each.
struct SpanParts {
  int packs;
  int parts;
};
/// Prefers few parts, because each thread of a row merges the states of all parts, and few missing columns.
/// Note N18: one more part was as slow as about 16 more columns.
template <int N>
SpanParts parts_of_row(std::int64_t cols) {
  SpanParts best{};
  int fewest = INT_MAX;
  for (const int packs : span_tiles<N>) {
    const int parts = static_cast<int>(divide_up(cols, packs * N));
    const int columns = parts * (packs * N + 16);
    if (32 * parts > flat_span_most_threads || columns >= fewest) continue;
    best = {packs, parts};
    fewest = columns;
  }
  return best;
}
/// The most columns for which parts_of_row finds a tile, whatever the packs.
constexpr std::int64_t most_cols_of_span = 34 * (flat_span_most_threads / 32);
/// The same for a block with `shared_bytes` of shared memory, which hold 32 rows of each of `matrices` and 12
/// bytes per thread.
inline std::int64_t most_cols_of_span_in(std::int64_t shared_bytes, std::int64_t element_bytes,
                                         int matrices = 1) {
  const std::int64_t of_each = (shared_bytes - 12 * flat_span_most_threads) / matrices - 2 * line_bytes;
  return min(most_cols_of_span, of_each / (32 * element_bytes));
}

/// Rows per block: a multiple of 32, for 6 KiB of rows or 256 threads. A block does nothing else while its
/// copies are in flight, so an SM needs many blocks.
inline unsigned rows_of_span(std::int64_t row_bytes, int parts) {
  const std::int64_t warps = min((6 << 10) / row_bytes, std::int64_t{256 / parts}) / 32;
  return static_cast<unsigned>(32 * max(warps, std::int64_t{1}));
}

/// Calls launch.template operator()<N, packs>(block, span_bytes) with the widest packs of up to 8 bytes that
/// cover the rows of x and y.
template <class T, class Launch>
void with_span_tile(const T* x, const T* y, std::int64_t cols, Launch launch) {
  const std::int64_t row_bytes = cols * std::int64_t{sizeof(T)};
  const auto with_packs = [&]<int N>() {
    if (!rows_fit_packs<N>(x, cols) || !rows_fit_packs<N>(y, cols)) return false;
    const auto [packs, parts] = parts_of_row<N>(cols);
    const dim3 block(rows_of_span(row_bytes, parts), static_cast<unsigned>(parts));
    const int span_bytes = static_cast<int>(bytes_with_place(block.x * row_bytes));
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      ((packs == span_tiles<N>[i] ? launch.template operator()<N, span_tiles<N>[i]>(block, span_bytes)
                                  : void()),
       ...);
    }
    (std::make_index_sequence<span_tiles<N>.size()>{});
    return true;
  };
  if constexpr (sizeof(T) == 2) {
    if (with_packs.template operator()<4>()) return;
  }
  if (!with_packs.template operator()<2>()) with_packs.template operator()<1>();
}

/// Softmax (or log-softmax) of each row, cols <= most_cols_of_span_in(); rows = 0 does nothing.
struct FlatSpan {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    return at_most_columns(most_cols_of_span_in(gpu.shared_bytes, matrix.element_bytes), matrix,
                           Why::registers_of_block_for_32);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    with_span_tile(
        tensors.x, tensors.y, tensors.shape.cols, [&]<int N, int packs>(dim3 block, int span_bytes) {
          const int shared_bytes =
              span_bytes + static_cast<int>(block.x * block.y * sizeof(typename Op::State));
          const auto kernel = flat_span_softmax<Op, N, packs, T>;
          CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
          kernel<<<grid_for(divide_up(tensors.shape.rows, block.x)), block, shared_bytes, stream>>>(
              tensors.x, tensors.y, tensors.shape, span_bytes, policy_of_reads<T>(2, tensors.shape));
          CUDA_CHECK(cudaGetLastError());
        });
  }
};

}  // namespace rowwise
