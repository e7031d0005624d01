// The row begins at the pack's boundary before it: whole packs alone are read, and what they hold of the
// neighbouring rows is masked.
#pragma once

#include "common/rowwise/kernels/forward/head_and_tail.cuh"

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
__global__ void __launch_bounds__(1024) shifted_softmax(const T* x, T* y, Shape shape) {
  const int cols = static_cast<int>(shape.cols);
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    const T* row_x = x + row * shape.cols;
    T* row_y = y + row * shape.cols;
    const int first_col = first_pack_of_thread<packs_per_thread>() * N - elements_past<16>(row_x);
    const auto col = [&](int i) { return first_col + i * 32 * N; };
    const auto in_row = [&](int c) { return 0 <= c && c < cols; };
    const auto is_inside = [&](int i) { return 0 <= col(i) && col(i) + N <= cols; };
    const auto is_outside = [&](int i) { return col(i) + N <= 0 || cols <= col(i); };
    // Only packs of the first and the last row can reach out of the tensor.
    const auto in_tensor = [&](int i) {
      const std::int64_t element = row * shape.cols + col(i);
      return 0 <= element && element + N <= shape.rows * shape.cols;
    };

    Pack<T, N> fetched[packs_per_thread];
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      fetched[i] = no_elements<T, N>();
      if (is_outside(i)) continue;
      fetched[i] = in_tensor(i) ? load_pack<N>(row_x + col(i)) : load_singles<N>(row_x, col(i), cols);
    }
    float values[packs_per_thread * N];
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      unpack(fetched[i], part_of<N>(values, i));
      if (is_inside(i)) continue;
#pragma unroll
      for (int e = 0; e < N; ++e) {
        if (!in_row(col(i) + e)) values[i * N + e] = no_element;
      }
    }

    finish_row<Op>(values, merge_threads_of_row<Op>);

#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      if (is_inside(i)) {
        store_pack(row_y + col(i), make_pack<T>(part_of<N>(values, i)));
        continue;
      }
#pragma unroll
      for (int e = 0; e < N; ++e) {
        if (in_row(col(i) + e)) row_y[col(i) + e] = static_cast<T>(values[i * N + e]);
      }
    }
  }
}

/// As HeadAndTail.
struct Shifted {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return at_most_columns(most_cols_in_registers, matrix, Why::registers_of_block);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (elements_past<16>(tensors.x) != elements_past<16>(tensors.y))
      return Scalar::launch<Op>(tensors, stream);
    if (tensors.shape.rows == 0) return;
    constexpr int N = elements_per_16_bytes<T>;
    const std::int64_t most_packs =
        divide_up(tensors.shape.cols + N - 1, N);  // begins at a pack's last element
    with_packs_per_thread<N>(most_packs, [&]<int packs_per_thread>() {
      const dim3 block = block_of_rows(most_packs, packs_per_thread);
      const unsigned grid = grid_for(divide_up(tensors.shape.rows, block.y));
      shifted_softmax<Op, N, packs_per_thread>
          <<<grid, block, 0, stream>>>(tensors.x, tensors.y, tensors.shape);
      CUDA_CHECK(cudaGetLastError());
    });
  }
};
