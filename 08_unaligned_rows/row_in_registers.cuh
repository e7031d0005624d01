// (registers) tuning state
#pragma once

#include "08_unaligned_rows/cut.cuh"
#include "common/harness/cuda_check.h"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/shape.h"

/// What the threads of a row know of it together: a block of threads, or, where blocks have several rows, a
/// warp each.
template <class Op>
__device__ typename Op::State merge_row(typename Op::State own, typename Op::State (&storage)[32]) {
  return blockDim.x == 32 ? warp_merge<Op>(own) : block_merge<Op>(own, storage);
}

// ---- Head and tail: packs where they are aligned, one single element more for some threads.

/// blockDim.y rows of a block at a time. Each warp has packs_per_thread * 32 packs that lie side by side, so
/// that a thread's packs are one address and constant offsets.
template <class Op, int N, int packs_per_thread, class T>
__global__ void __launch_bounds__(1024) head_and_tail_softmax(const T* x, T* y, Shape shape, int boundary) {
  __shared__ typename Op::State storage[32];
  const int thread = static_cast<int>(threadIdx.x);
  const int first_pack = thread / 32 * 32 * packs_per_thread + thread % 32;

  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    const T* row_x = x + row * shape.cols;
    T* row_y = y + row * shape.cols;
    const Cut<N> cut(row_x, static_cast<int>(shape.cols), boundary);
    const auto exists = [&](int i) { return first_pack + i * 32 < cut.num_packs; };
    const int col = cut.col_of_pack(first_pack);
    const bool has_single = thread < cut.num_singles();
    const int single_col = cut.col_of_single(thread);

    Pack<T, N> fetched[packs_per_thread] = {};
    Pack<T, 1> fetched_single = {};
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      if (exists(i)) fetched[i] = load_pack<N>(row_x + col + i * 32 * N);
    }
    if (has_single) fetched_single = load_pack<1>(row_x + single_col);

    // What does not exist is -inf: it adds exp(-inf) = 0 to the sum.
    float values[packs_per_thread][N];
    float single[1];
    typename Op::State own{};
    unpack(fetched_single, single);
    if (has_single) own.max = single[0];
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      unpack(fetched[i], values[i]);
#pragma unroll
      for (float& value : values[i]) {
        if (!exists(i)) value = MaxSum{}.max;
        own.max = fmaxf(own.max, value);
      }
    }
    const float shift = safe_shift(own.max);
    single[0] = Op::kept(single[0], shift);
    if (has_single) own.sum = Op::summand(single[0]);
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
#pragma unroll
      for (float& value : values[i]) {
        value = Op::kept(value, shift);
        own.sum += Op::summand(value);
      }
    }

    const float to_row = RowResult<Op>(merge_row<Op>(own, storage))(shift);
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
#pragma unroll
      for (float& value : values[i]) value = Op::finish_part(value, to_row);
      if (exists(i)) store_pack(row_y + col + i * 32 * N, values[i]);
    }
    single[0] = Op::finish_part(single[0], to_row);
    if (has_single) store_pack(row_y + single_col, single);
  }
}

// ---- Shifted: the row begins at the boundary before it; what the packs hold of the neighbours is masked.

template <class Op, int N, int packs_per_thread, class T>
__global__ void __launch_bounds__(1024) shifted_softmax(const T* x, T* y, Shape shape, int boundary) {
  __shared__ typename Op::State storage[32];
  const int thread = static_cast<int>(threadIdx.x);
  const int first_pack = thread / 32 * 32 * packs_per_thread + thread % 32;
  const int cols = static_cast<int>(shape.cols);

  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    const T* row_x = x + row * shape.cols;
    T* row_y = y + row * shape.cols;
    const unsigned past = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(row_x)) % boundary;
    const int col = first_pack * N - static_cast<int>(past / sizeof(T));
    const auto in_row = [&](int c) { return 0 <= c && c < cols; };
    const auto is_inside = [&](int i) { return col + i * 32 * N >= 0 && col + i * 32 * N + N <= cols; };

    Pack<T, N> fetched[packs_per_thread] = {};
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      const int c = col + i * 32 * N;
      if (c <= -N || c >= cols) continue;
      const std::int64_t element = row * shape.cols + c;
      if (is_inside(i) || (element >= 0 && element + N <= shape.rows * shape.cols)) {
        fetched[i] = load_pack<N>(row_x + c);
      } else {
        T elements[N] = {};
#pragma unroll
        for (int e = 0; e < N; ++e) {
          if (in_row(c + e)) elements[e] = row_x[c + e];
        }
        float values[N];
#pragma unroll
        for (int e = 0; e < N; ++e) values[e] = static_cast<float>(elements[e]);
        fetched[i] = make_pack<T>(values);
      }
    }

    float values[packs_per_thread][N];
    typename Op::State own{};
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      unpack(fetched[i], values[i]);
      if (!is_inside(i)) {
#pragma unroll
        for (int e = 0; e < N; ++e) {
          if (!in_row(col + i * 32 * N + e)) values[i][e] = MaxSum{}.max;
        }
      }
#pragma unroll
      for (const float value : values[i]) own.max = fmaxf(own.max, value);
    }
    const float shift = safe_shift(own.max);
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
#pragma unroll
      for (float& value : values[i]) {
        value = Op::kept(value, shift);
        own.sum += Op::summand(value);
      }
    }

    const float to_row = RowResult<Op>(merge_row<Op>(own, storage))(shift);
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      const int c = col + i * 32 * N;
#pragma unroll
      for (float& value : values[i]) value = Op::finish_part(value, to_row);
      if (is_inside(i)) {
        store_pack(row_y + c, values[i]);
      } else {
#pragma unroll
        for (int e = 0; e < N; ++e) {
          if (in_row(c + e)) row_y[c + e] = static_cast<T>(values[i][e]);
        }
      }
    }
  }
}

// ---- Launchers.
enum class Ends { scalar, head_and_tail, shifted };

template <Ends ends, int elements_per_thread, int wanted_boundary>
struct RowInRegisters {
  static constexpr std::int64_t most_cols = 1000 * elements_per_thread;

  template <class Op, int N, class T>
  static void launch_with(const T* x, T* y, Shape shape, cudaStream_t stream) {
    constexpr int packs = elements_per_thread / N;
    const int before = ends == Ends::shifted && N > 1 ? wanted_boundary / int{sizeof(T)} : 0;
    const auto threads = static_cast<unsigned>(
        round_up(divide_up(divide_up(shape.cols + before, N) + (ends == Ends::shifted), packs), 32));
    const dim3 block(threads, threads == 32 ? 4 : 1);
    // The singles are at most boundary / sizeof(T) - 1 + N - 1: no more than threads.
    int boundary = N == 1 ? int{sizeof(T)} : wanted_boundary;
    if (ends == Ends::head_and_tail && N > 1) {
      while (boundary > 16 && boundary / sizeof(T) + N - 2 > threads) boundary /= 2;
    }
    const unsigned grid = grid_for(divide_up(shape.rows, block.y));
    if constexpr (ends == Ends::shifted && N > 1) {
      shifted_softmax<Op, N, packs><<<grid, block, 0, stream>>>(x, y, shape, boundary);
    } else {
      head_and_tail_softmax<Op, N, packs><<<grid, block, 0, stream>>>(x, y, shape, boundary);
    }
    CUDA_CHECK(cudaGetLastError());
  }

  template <class Op, class T>
  static void launch(const T* x, T* y, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    if (ends == Ends::scalar || elements_past_16_bytes(x) != elements_past_16_bytes(y)) {
      launch_with<Op, 1>(x, y, shape, stream);
    } else if constexpr (ends != Ends::scalar) {
      launch_with<Op, elements_per_16_bytes<T>>(x, y, shape, stream);
    }
  }
};
