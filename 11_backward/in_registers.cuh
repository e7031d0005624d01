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

/// Loads the packs of thread `thread` of `threads` threads that share a row of y and dy. Missing elements are
/// 0, and add nothing to the sum.
template <int N, int packs, class T>
__device__ void load_rows(const T* y, const T* dy, std::int64_t cols, unsigned thread, unsigned threads,
                          Pack<T, N> (&y_packs)[packs], Pack<T, N> (&dy_packs)[packs]) {
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int col = static_cast<int>(pack * threads + thread) * N;
    y_packs[pack] = dy_packs[pack] = {};
    if (col >= cols) continue;
    y_packs[pack] = load_pack<N>(y + col);
    dy_packs[pack] = load_pack<N>(dy + col);
  }
}

template <class Op, int N, int packs, class T>
__device__ float sum_of_packs(const Pack<T, N> (&y_packs)[packs], const Pack<T, N> (&dy_packs)[packs]) {
  float sum = 0;
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) add_packs<Op>(sum, y_packs[pack], dy_packs[pack]);
  return sum;
}

template <class Op, int N, int packs, class T>
__device__ void store_gradient(T* dx, std::int64_t cols, unsigned thread, unsigned threads, float sum,
                               const Pack<T, N> (&y_packs)[packs], const Pack<T, N> (&dy_packs)[packs]) {
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int col = static_cast<int>(pack * threads + thread) * N;
    if (col < cols) store_pack(dx + col, finish_packs<Op>(sum, y_packs[pack], dy_packs[pack]));
  }
}

/// A block per row: thread i takes packs i, i + blockDim.x, ... of both rows. A pack has N elements.
template <class Op, int N, int packs, class T>
__global__ void __launch_bounds__(1024) block_backward(const T* y, const T* dy, T* dx, Shape shape) {
  __shared__ float storage[32];
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t first = row * shape.cols;
    Pack<T, N> y_packs[packs];
    Pack<T, N> dy_packs[packs];
    load_rows(y + first, dy + first, shape.cols, threadIdx.x, blockDim.x, y_packs, dy_packs);
    const float sum = block_merge<Op>(sum_of_packs<Op>(y_packs, dy_packs), storage);
    store_gradient<Op>(dx + first, shape.cols, threadIdx.x, blockDim.x, sum, y_packs, dy_packs);
  }
}

/// A warp per row: lane i takes packs i, i + 32, ... of both rows.
template <class Op, int N, int packs, class T>
__global__ void __launch_bounds__(warp_block_size)
    warp_backward(const T* y, const T* dy, T* dx, Shape shape) {
  const std::int64_t row = (blockIdx.x * std::int64_t{warp_block_size} + threadIdx.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (row >= shape.rows) return;  // the whole warp: no lane is missing in a shuffle
  const std::int64_t first = row * shape.cols;
  Pack<T, N> y_packs[packs];
  Pack<T, N> dy_packs[packs];
  load_rows(y + first, dy + first, shape.cols, lane, 32, y_packs, dy_packs);
  const float sum = warp_all_reduce<SumOp, 32>(sum_of_packs<Op>(y_packs, dy_packs));
  store_gradient<Op>(dx + first, shape.cols, lane, 32, sum, y_packs, dy_packs);
}

// ---- The launchers: the gradient of every row; rows = 0 does nothing. They throw CudaError.

/// Calls launch.template operator()<N>() with packs of N elements: 16 bytes, or single elements if such packs
/// do not cover the rows of all three matrices.
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

/// Two rows need twice the registers of one, so each thread has at most 16 elements of each row.
constexpr std::int64_t most_block_backward_cols = 1024 * 16;
/// Calls launch.template operator()<elements>(threads): a thread has `elements` elements of each row.
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
