// Both rows in registers: of a group of lanes, as in stage 03, or of a block, as in stage 06.
#pragma once

#include "03_warp_reduce/warp_reduce.cuh"
#include "06_online/online.cuh"
#include "11_backward/row_gradient.cuh"
#include "common/harness/current_device.cuh"

/// A group of lanes for each row, in one turn; see warp_softmax of stage 03.
template <class Op, RowTile tile, class T>
__global__ void __launch_bounds__(warp_reduce_block_size)
    warp_backward(const T* y, const T* dy, T* dx, Shape shape, L2Policy reads) {
  y = with_policy(y, reads);
  dy = with_policy(dy, reads);
  constexpr int N = tile.pack_size;
  const int lane = static_cast<int>(threadIdx.x % tile.group_width);
  const int group = static_cast<int>(threadIdx.x / tile.group_width);
  const std::int64_t row = item_of_block() * tile.rows_per_block() + group;
  const std::int64_t first = row * shape.cols;
  const auto col = [&](int pack) { return (pack * tile.group_width + lane) * N; };
  const auto exists = [&](int pack) { return row < shape.rows && col(pack) < shape.cols; };
  // What does not exist is zero, and adds nothing. Lanes past the last row go on, too: a shuffle needs all lanes of the warp.
  Pack<T, N> y_packs[tile.packs_per_lane] = {};
  Pack<T, N> dy_packs[tile.packs_per_lane] = {};
#pragma unroll
  for (int pack = 0; pack < tile.packs_per_lane; ++pack) {
    if (!exists(pack)) continue;
    y_packs[pack] = load_pack<N>(y + first + col(pack));
    dy_packs[pack] = load_pack<N>(dy + first + col(pack));
  }

  float sum = 0;
#pragma unroll
  for (int pack = 0; pack < tile.packs_per_lane; ++pack) {
    add_packs<Op>(sum, y_packs[pack], dy_packs[pack]);
  }
  sum = warp_all_reduce<SumOp, tile.group_width>(sum);

#pragma unroll
  for (int pack = 0; pack < tile.packs_per_lane; ++pack) {
    if (!exists(pack)) continue;
    store_pack(dx + first + col(pack), finish_packs<Op>(sum, y_packs[pack], dy_packs[pack]));
  }
}

/// A block for each row of whole packs.
template <class Op, BlockTile tile, class T>
__global__ void __launch_bounds__(tile.block_size)
    block_backward(const T* y, const T* dy, T* dx, Shape shape, L2Policy reads) {
  y = with_policy(y, reads);
  dy = with_policy(dy, reads);
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_per_thread = tile.elements_per_thread / N;
  __shared__ typename Op::State storage[32];
  const auto col = [](int pack) { return (pack * tile.block_size + static_cast<int>(threadIdx.x)) * N; };
  const auto exists = [&](int pack) { return col(pack) < shape.cols; };

  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t first = row * shape.cols;
    Pack<T, N> y_packs[packs_per_thread] = {};
    Pack<T, N> dy_packs[packs_per_thread] = {};
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (!exists(pack)) continue;
      y_packs[pack] = load_pack<N>(y + first + col(pack));
      dy_packs[pack] = load_pack<N>(dy + first + col(pack));
    }

    typename Op::State sum{};
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      add_packs<Op>(sum, y_packs[pack], dy_packs[pack]);
    }
    sum = block_merge<Op>(sum, storage);

#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (exists(pack))
        store_pack(dx + first + col(pack), finish_packs<Op>(sum, y_packs[pack], dy_packs[pack]));
    }
  }
}

// ---- The launchers of this stage: the gradient of every row; rows = 0 does nothing. They throw CudaError, and
// std::invalid_argument for rows that are too wide for them.

/// cols <= max_warp_reduce_cols. It takes the widest packs that cover the rows of all three, or single elements.
struct WarpRegisters {
  /// As few lanes as cover a row with `few` packs each; of a wider row all lanes have as many packs as one of `more`.
  template <class Op, int N, int few, int... more, class T>
  static void launch_packs(const T* y, const T* dy, T* dx, Shape shape, cudaStream_t stream) {
    constexpr auto of = [](int packs, int lanes) {
      return RowTile{.pack_size = N, .packs_per_lane = packs, .group_width = lanes};
    };
    with_first_tile_that_fits<of(few, 4), of(few, 8), of(few, 16), of(few, 32), of(more, 32)...>(
        shape.cols, [&]<RowTile tile>() {
          const dim3 grid = one_block_each(divide_up(shape.rows, tile.rows_per_block()));
          warp_backward<Op, tile>
              <<<grid, warp_reduce_block_size, 0, stream>>>(y, dy, dx, shape, policy_of_reads<T>(3, shape));
          CUDA_CHECK(cudaGetLastError());
        });
  }

  /// A lane has 16 bytes of each row, in whatever packs; of single elements four.
  template <class Op, class T>
  static void launch(const T* y, const T* dy, T* dx, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    constexpr int N = elements_per_16_bytes<T>;
    if (all_fit_packs<N>(y, dy, dx, shape.cols)) {
      return launch_packs<Op, N, 1, 2, 32 / N>(y, dy, dx, shape, stream);
    }
    if (all_fit_packs<N / 2>(y, dy, dx, shape.cols)) {
      return launch_packs<Op, N / 2, 2, 4, 8, 64 / N>(y, dy, dx, shape, stream);
    }
    if constexpr (N == 8) {
      if (all_fit_packs<2>(y, dy, dx, shape.cols)) {
        return launch_packs<Op, 2, 4, 8, 16>(y, dy, dx, shape, stream);
      }
    }
    launch_packs<Op, 1, 4, 8, 32>(y, dy, dx, shape, stream);
  }
};

constexpr BlockTile widest_gradient_tile{.block_size = 1024, .elements_per_thread = 16};
template <class Launch>
void with_gradient_tile(std::int64_t cols, Launch launch) {
  with_first_tile_that_fits<BlockTile{128, 8}, BlockTile{128, 16}, BlockTile{256, 16}, BlockTile{512, 16},
                            widest_gradient_tile>(cols, launch);
}

/// Every row of the three matrices begins at a multiple of 16 bytes and is a multiple of them;
/// cols <= widest_gradient_tile.cols().
struct BlockRegisters {
  template <class Op, class T>
  static void launch(const T* y, const T* dy, T* dx, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_gradient_tile(shape.cols, [&]<BlockTile tile>() {
      block_backward<Op, tile><<<grid_for(shape.rows), tile.block_size, 0, stream>>>(
          y, dy, dx, shape, policy_of_reads<T>(3, shape));
      CUDA_CHECK(cudaGetLastError());
    });
  }
};
