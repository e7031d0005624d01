// Stage 11: the gradient. A kernel reads two matrices, y and dy, and writes one, dx; all that it has to know
// of a row is one sum.
//
// Cost: 3 passes, 2 reads and 1 write. Both rows stay in registers: in those of a warp, as in stage 03, or in
// those of a block, as in stage 06. recomputed.cuh reads x instead of y. The formulas are in
// common/kernel/row_gradient.cuh.
// Sources: PyTorch's and OneFlow's softmax backward use these formulas; quack keeps both rows on chip as
// well.
#pragma once

#include "03_warp_reduce/warp_reduce.cuh"
#include "common/kernel/row_gradient.cuh"
#include "common/kernel/tensors.h"

/// A warp per row.
template <class Op, int N, int packs_per_lane, class T>
__global__ void __launch_bounds__(warp_block_size)
    warp_backward(const T* y, const T* dy, T* dx, Shape shape) {
  const std::int64_t row = (blockIdx.x * std::int64_t{warp_block_size} + threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= shape.rows) return;  // the whole warp
  const std::int64_t first = row * shape.cols;
  const auto col = [&](int pack) { return (pack * 32 + lane) * N; };

  // Missing elements are 0, and add nothing to the sum.
  Pack<T, N> y_packs[packs_per_lane] = {};
  Pack<T, N> dy_packs[packs_per_lane] = {};
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    if (col(pack) >= shape.cols) continue;
    y_packs[pack] = load_pack<N>(y + first + col(pack));
    dy_packs[pack] = load_pack<N>(dy + first + col(pack));
  }

  float sum = 0;
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) add_packs<Op>(sum, y_packs[pack], dy_packs[pack]);
  sum = warp_all_reduce<SumOp, 32>(sum);

#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    if (col(pack) >= shape.cols) continue;
    store_pack(dx + first + col(pack), finish_packs<Op>(sum, y_packs[pack], dy_packs[pack]));
  }
}

/// A block per row.
template <class Op, int N, int packs_per_thread, class T>
__global__ void __launch_bounds__(1024) block_backward(const T* y, const T* dy, T* dx, Shape shape) {
  __shared__ float storage[32];
  const auto col = [](int pack) { return static_cast<int>(pack * blockDim.x + threadIdx.x) * N; };
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t first = row * shape.cols;
    Pack<T, N> y_packs[packs_per_thread] = {};
    Pack<T, N> dy_packs[packs_per_thread] = {};
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (col(pack) >= shape.cols) continue;
      y_packs[pack] = load_pack<N>(y + first + col(pack));
      dy_packs[pack] = load_pack<N>(dy + first + col(pack));
    }

    float sum = 0;
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) add_packs<Op>(sum, y_packs[pack], dy_packs[pack]);
    sum = block_merge<Op>(sum, storage);

#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (col(pack) >= shape.cols) continue;
      store_pack(dx + first + col(pack), finish_packs<Op>(sum, y_packs[pack], dy_packs[pack]));
    }
  }
}

// ---- The launchers: the gradient of every row; rows = 0 does nothing. If packs of 16 bytes do not cover the
// rows of all three matrices, they read single elements. They throw CudaError.

/// Calls launch.template operator()<N>() with the elements of an access.
template <class T, class Launch>
void with_packs_of_three(const Tensors<T>& tensors, Launch launch) {
  constexpr int N = elements_per_16_bytes<T>;
  if (all_fit_packs<N>(tensors.y, tensors.dy, tensors.dx, tensors.shape.cols))
    return launch.template operator()<N>();
  launch.template operator()<1>();
}

struct WarpRegisters {
  using Operations = BackwardOperations;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return fits_warps(matrix, max_warp_reduce_cols, Why::registers_of_warp_for_two);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Shape shape = tensors.shape;
    if (shape.rows == 0) return;
    const std::int64_t blocks = divide_up(shape.rows * 32, warp_block_size);
    with_packs_of_three(tensors, [&]<int N>() {
      with_power_of_two<32 / N>(divide_up(shape.cols, 32 * N), [&]<int packs>() {
        warp_backward<Op, N, packs>
            <<<grid_for(blocks), warp_block_size, 0, stream>>>(tensors.y, tensors.dy, tensors.dx, shape);
        CUDA_CHECK(cudaGetLastError());
      });
    });
  }
};

/// Two rows need twice the registers of one: 16 elements of each per thread, at most.
constexpr std::int64_t most_block_backward_cols = 1024 * 16;
/// Calls launch.template operator()<elements>(threads) with the elements of each row per thread.
template <class Launch>
void with_gradient_block(std::int64_t cols, Launch launch) {
  const auto threads = [&](int elements) {
    return static_cast<unsigned>(round_up(divide_up(cols, elements), 32));
  };
  if (cols <= 512 * 8) return launch.template operator()<8>(threads(8));
  launch.template operator()<16>(threads(16));
}

struct BlockRegisters {
  using Operations = BackwardOperations;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return at_most_columns(most_block_backward_cols, matrix, Why::registers_of_block_for_two);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Shape shape = tensors.shape;
    if (shape.rows == 0) return;
    with_packs_of_three(tensors, [&]<int N>() {
      with_gradient_block(shape.cols, [&]<int elements>(unsigned threads) {
        block_backward<Op, N, elements / N>
            <<<grid_for(shape.rows), threads, 0, stream>>>(tensors.y, tensors.dy, tensors.dx, shape);
        CUDA_CHECK(cudaGetLastError());
      });
    });
  }
};
