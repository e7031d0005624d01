// Single elements up to the first boundary and after the last pack, packs between; the row in registers.
#pragma once

#include "08_unaligned_rows/cut.cuh"
#include "08_unaligned_rows/finish_row.cuh"
#include "common/harness/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/shape.h"

/// How the packs of a row are dealt out to its threads. Each warp has warp_packs of them side by side, so
/// that the addresses of a thread's packs are one register and constant offsets.
template <int packs_per_thread>
__device__ int first_pack_of_thread() {
  const int thread = static_cast<int>(threadIdx.x);
  return thread / 32 * (32 * packs_per_thread) + thread % 32;
}

/// A block of blockDim.x threads a row; where that is one warp, blockDim.y rows a block, which never meet.
template <class Op>
__device__ typename Op::State merge_threads_of_row(typename Op::State own) {
  __shared__ typename Op::State storage[32];
  return blockDim.x == 32 ? warp_merge<Op>(own) : block_merge<Op>(own, storage);
}

/// x and y lie equally far past a pack, or N is 1. A row has at most blockDim.x single elements.
template <class Op, int N, int packs_per_thread, class T>
__global__ void __launch_bounds__(1024) head_and_tail_softmax(const T* x, T* y, Shape shape, int boundary) {
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    const T* row_x = x + row * shape.cols;
    T* row_y = y + row * shape.cols;
    const Cut<N> cut(row_x, static_cast<int>(shape.cols), boundary);
    const int first_pack = first_pack_of_thread<packs_per_thread>();
    const auto exists = [&](int i) { return first_pack + i * 32 < cut.num_packs; };
    const int col = cut.col_of_pack(first_pack);
    const int single = static_cast<int>(threadIdx.x);
    const bool has_single = single < cut.num_singles();
    const int col_of_single = cut.col_of_single(single);

    Pack<T, N> fetched[packs_per_thread] = {};
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      if (exists(i)) fetched[i] = pack_at<N>(row_x + col + i * 32 * N);
    }
    float values[packs_per_thread * N + 1];
    float& single_value = values[packs_per_thread * N];
    single_value = has_single ? static_cast<float>(row_x[col_of_single]) : no_element;
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      float pack[N];
      unpack(fetched[i], pack);
#pragma unroll
      for (int e = 0; e < N; ++e) values[i * N + e] = exists(i) ? pack[e] : no_element;
    }

    finish_row<Op>(values, merge_threads_of_row<Op>);

#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      float pack[N];
#pragma unroll
      for (int e = 0; e < N; ++e) pack[e] = values[i * N + e];
      if (exists(i)) pack_at<N>(row_y + col + i * 32 * N) = make_pack<T>(pack);
    }
    if (has_single) row_y[col_of_single] = static_cast<T>(single_value);
  }
}

template <int N, int elements_per_thread, int wanted_boundary>
struct HeadAndTail {
  static constexpr std::int64_t most_cols = 1000 * elements_per_thread;
  template <class Op, int N_, class T>
  static void launch_with(const T* x, T* y, Shape shape, cudaStream_t stream) {
    constexpr int packs = elements_per_thread / N_;
    const auto threads = static_cast<unsigned>(round_up(divide_up(divide_up(shape.cols, N_), packs), 32));
    const dim3 block(threads, threads == 32 ? 4 : 1);
    int boundary = N_ == 1 ? int{sizeof(T)} : wanted_boundary;
    while (boundary > 16 && boundary / sizeof(T) + N_ - 2 > threads) boundary /= 2;
    const unsigned grid = grid_for(divide_up(shape.rows, block.y));
    head_and_tail_softmax<Op, N_, packs><<<grid, block, 0, stream>>>(x, y, shape, boundary);
    CUDA_CHECK(cudaGetLastError());
  }
  template <class Op, class T>
  static void launch(const T* x, T* y, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    if (N == 1 || elements_past_pack(x) != elements_past_pack(y)) {
      launch_with<Op, 1>(x, y, shape, stream);
    } else if constexpr (N != 1) {
      launch_with<Op, elements_per_16_bytes<T>>(x, y, shape, stream);
    }
  }
};
