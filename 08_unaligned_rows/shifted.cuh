// The row begins at the boundary before it: whole packs alone are read, and what they hold of the
// neighbouring rows is masked.
#pragma once

#include "08_unaligned_rows/head_and_tail.cuh"

/// Those of the N elements from row[col] on that belong to the row; the others are zero.
template <int N, class T>
__device__ Pack<T, N> load_singles(const T* row, int col, int cols) {
  Pack<T, N> pack{};
#pragma unroll
  for (int e = 0; e < N; ++e) {
    if (0 <= col + e && col + e < cols) reinterpret_cast<T*>(&pack)[e] = row[col + e];
  }
  return pack;
}

/// x and y lie equally far past a pack.
template <class Op, int N, int packs_per_thread, class T>
__global__ void __launch_bounds__(1024) shifted_softmax(const T* x, T* y, Shape shape, int boundary) {
  const int cols = static_cast<int>(shape.cols);
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    const T* row_x = x + row * shape.cols;
    T* row_y = y + row * shape.cols;
    const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row_x) % boundary / sizeof(T));
    const int first_col = first_pack_of_thread<packs_per_thread>() * N - past;
    const auto col = [&](int i) { return first_col + i * 32 * N; };
    const auto is_inside = [&](int i) { return 0 <= col(i) && col(i) + N <= cols; };
    const auto is_outside = [&](int i) { return col(i) + N <= 0 || cols <= col(i); };
    // Only packs of the first and the last row can reach out of the tensor.
    const auto in_tensor = [&](int i) {
      const std::int64_t element = row * shape.cols + col(i);
      return 0 <= element && element + N <= shape.rows * shape.cols;
    };

    Pack<T, N> fetched[packs_per_thread] = {};
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      if (is_outside(i)) continue;
      fetched[i] = in_tensor(i) ? pack_at<N>(row_x + col(i)) : load_singles<N>(row_x, col(i), cols);
    }
    float values[packs_per_thread * N];
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      float pack[N];
      unpack(fetched[i], pack);
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const bool is_neighbours = !is_inside(i) && (col(i) + e < 0 || cols <= col(i) + e);
        values[i * N + e] = is_neighbours ? no_element : pack[e];
      }
    }

    finish_row<Op>(values, merge_threads_of_row<Op>);

#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      float pack[N];
#pragma unroll
      for (int e = 0; e < N; ++e) pack[e] = values[i * N + e];
      if (is_inside(i)) {
        pack_at<N>(row_y + col(i)) = make_pack<T>(pack);
      } else {
#pragma unroll
        for (int e = 0; e < N; ++e) {
          if (0 <= col(i) + e && col(i) + e < cols) row_y[col(i) + e] = static_cast<T>(pack[e]);
        }
      }
    }
  }
}

template <int elements_per_thread, int boundary>
struct Shifted {
  static constexpr std::int64_t most_cols = 1000 * elements_per_thread;
  template <class Op, class T>
  static void launch(const T* x, T* y, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    if (elements_past_pack(x) != elements_past_pack(y)) {
      HeadAndTail<1, elements_per_thread, 16>::template launch<Op>(x, y, shape, stream);
      return;
    }
    constexpr int N = elements_per_16_bytes<T>;
    constexpr int packs = elements_per_thread / N;
    const std::int64_t most_packs = divide_up(shape.cols + boundary / int{sizeof(T)} - 1 + N - 1, N);
    const auto threads = static_cast<unsigned>(round_up(divide_up(most_packs, packs), 32));
    const dim3 block(threads, threads == 32 ? 4 : 1);
    const unsigned grid = grid_for(divide_up(shape.rows, block.y));
    shifted_softmax<Op, N, packs><<<grid, block, 0, stream>>>(x, y, shape, boundary);
    CUDA_CHECK(cudaGetLastError());
  }
};
