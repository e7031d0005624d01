// Stage 06: the maximum and the sum in one pass. When a larger maximum turns up, the sum so far is rescaled.
//
// Cost: 3 passes, 2 reads and 1 write, for rows of any width; 2 if the row fits in the registers of a block
// (fused). For the sum, rescaling for every element costs two exponentials per element; rescaling once per
// pack costs little more than one.
// Sources: the Triton article on softmax, which has both steps; Milakov and Gimelshein, "Online normalizer
// calculation for softmax".
#pragma once

#include "03_warp_reduce/warp_reduce.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/for_each_pack.cuh"
#include "common/kernel/load_store.cuh"

// ---- Online: any width.

/// How often a thread rescales its sum.
enum class Rescale { per_element, per_pack };

/// Adds N elements to the state of a row. The pair of a single element x is (x, 1): exp(x - x) = 1.
template <class Op, Rescale rescale, int N>
__device__ void add_to(typename Op::State& total, const float (&values)[N]) {
  if constexpr (rescale == Rescale::per_element) {
#pragma unroll
    for (const float value : values) total = Op::merge(total, {value, 1.0f});
  } else {
    Op::add(total, values);
  }
}

template <class Op, int pack_size, Rescale rescale, class Load, class Store>
__global__ void __launch_bounds__(1024) online_softmax(Load load, Store store, Shape shape) {
  __shared__ typename Op::State storage[32];
  const auto [rows, cols] = shape;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    // The first read: each thread collects the pair of its elements, and the block merges the pairs.
    typename Op::State total{};
    const auto update_total = [&](const float(&values)[pack_size], std::int64_t) {
      add_to<Op, rescale>(total, values);
    };
    for_each_pack<pack_size>(load, row, cols, update_total);
    total = block_merge<Op>(total, storage);

    // The second read: each element becomes its result.
    const auto write_result = [&, result = RowResult<Op>(total)](float(&values)[pack_size],
                                                                 std::int64_t col) {
#pragma unroll
      for (float& value : values) value = result(value);
      store.template store<pack_size>(values, row, col);
    };
    for_each_pack<pack_size>(load, row, cols, write_result);
  }
}

/// Softmax (or log-softmax) of each row, any width; rows = 0 does nothing. If packs do not cover the rows, it
/// reads single elements. Throws CudaError.
template <Rescale rescale>
struct OnlineSoftmax {
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_widest_packs(load, store, [&]<int pack_size>() {
      const unsigned block_size = block_size_for<pack_size>(shape.cols, 1024);
      online_softmax<Op, pack_size, rescale>
          <<<grid_for(shape.rows), block_size, 0, stream>>>(load, store, shape);
      CUDA_CHECK(cudaGetLastError());
    });
  }
};

// ---- Fused: the row stays in the registers of a block, and each element costs one exponential.

/// Replaces a thread's elements of a row by their results. Each thread computes its exponentials relative to
/// its own maximum, before the threads have exchanged anything; the maximum of all only changes a factor.
/// merge_row(own) takes the thread's pair and returns the pair of the whole row. It is a parameter, because stage
/// 07 merges over more than a block. Missing elements are -inf.
template <class Op, int count, class MergeRow>
__device__ void replace_by_results(float (&values)[count], MergeRow merge_row) {
  MaxSum own;
#pragma unroll
  for (const float value : values) own.max = fmaxf(own.max, value);
  const float shift = safe_shift(own.max);
#pragma unroll
  for (float& value : values) {
    value = Op::kept(value, shift);
    own.sum += Op::summand(value);
  }
  // The row's result for the number shift: the factor exp(shift - m) / d, or for log-softmax an offset. The
  // factor is at most 1, because shift is at most the row's maximum, also in a thread that saw only -inf.
  const float to_row = RowResult<Op>(merge_row(own))(shift);
#pragma unroll
  for (float& value : values) value = Op::finish_part(value, to_row);
}

/// The first column of pack i of this thread, if `threads` threads share a row. Neighbouring threads have
/// neighbouring packs.
template <int pack_size, int threads>
__device__ int col_of_pack(int i) {
  return (i * threads + static_cast<int>(threadIdx.x)) * pack_size;
}

/// Loads this thread's `count` elements of a row. All loads are issued before the first is used. Missing
/// elements are -inf. (values_of_pack<pack_size>(values, i) is the part of `values` that pack i fills.)
template <int pack_size, int threads, int count, class Load>
__device__ void load_row(const Load& load, std::int64_t row, int cols, float (&values)[count]) {
  Fetched<Load, pack_size> fetched[count / pack_size];
#pragma unroll
  for (int i = 0; i < count / pack_size; ++i) {
    const int col = col_of_pack<pack_size, threads>(i);
    fetched[i] = col < cols ? load.template fetch<pack_size>(row, col) : load.template missing<pack_size>();
  }
#pragma unroll
  for (int i = 0; i < count / pack_size; ++i) {
    load.template unpack<pack_size>(fetched[i], values_of_pack<pack_size>(values, i));
  }
}

/// Stores this thread's elements of a row; missing ones are skipped.
template <int pack_size, int threads, int count, class Store>
__device__ void store_row(const Store& store, std::int64_t row, int cols, float (&values)[count]) {
#pragma unroll
  for (int i = 0; i < count / pack_size; ++i) {
    const int col = col_of_pack<pack_size, threads>(i);
    if (col < cols) store.template store<pack_size>(values_of_pack<pack_size>(values, i), row, col);
  }
}

/// One block of `warps` warps per row; each thread has `elements` elements. The compiler knows the block
/// size, so that one register and constant offsets are enough to address the packs of a thread.
template <class Op, int pack_size, int elements, int warps, class Load, class Store>
__global__ void __launch_bounds__(32 * warps) fused_softmax(Load load, Store store, int cols) {
  __shared__ MaxSum storage[32];
  const std::int64_t row = blockIdx.x;
  float values[elements];
  load_row<pack_size, 32 * warps>(load, row, cols, values);
  replace_by_results<Op>(values, [&](MaxSum own) { return block_merge_once<Op, warps>(own, storage); });
  store_row<pack_size, 32 * warps>(store, row, cols, values);
}

constexpr std::int64_t most_fused_cols = 32 * 32 * 32;  // 32 warps of 32 lanes with 32 elements each

/// Calls launch.template operator()<elements, warps>() with the elements per thread and the warps per block
/// for a row of `cols` columns. Small blocks overlap better: while one waits at its barrier, others read. So
/// a thread has 16 elements, and 32 only if the row would need more than 512 threads otherwise.
template <class Launch>
void with_fused_block(std::int64_t cols, Launch launch) {
  if (cols <= 512 * 16) {
    with_power_of_two<16>(divide_up(cols, 32 * 16),
                          [&]<int warps>() { launch.template operator()<16, warps>(); });
  } else if (cols <= 512 * 32) {
    launch.template operator()<32, 16>();
  } else {
    launch.template operator()<32, 32>();
  }
}

/// Softmax (or log-softmax) of rows that fit in the registers of a block; rows = 0 does nothing. If packs do
/// not cover the rows, it reads single elements. Throws CudaError.
struct FusedSoftmax {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    if (const Refusal refusal = at_most_rows(max_grid_blocks, matrix, Why::grid)) return refusal;
    return at_most_columns(most_fused_cols, matrix, Why::registers_of_block);
  }
  template <class Op, int pack_size, class Load, class Store>
  static void launch_packs(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_fused_block(shape.cols, [&]<int elements, int warps>() {
      fused_softmax<Op, pack_size, elements, warps>
          <<<grid_for(shape.rows), 32 * warps, 0, stream>>>(load, store, static_cast<int>(shape.cols));
      CUDA_CHECK(cudaGetLastError());
    });
  }
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    with_widest_packs(load, store,
                      [&]<int pack_size>() { launch_packs<Op, pack_size>(load, store, shape, stream); });
  }
};
