// From the stage online: the maximum and the sum in one pass. When a larger maximum turns up, the sum so far
// is rescaled, once per pack.
//
// Cost: 3 passes, 2 reads and 1 write, for rows of any width; 2 if the row fits in the registers of a block
// (fused). Beyond the stage's `fused`, rows that fill their block need no checks, and the dispatch adds a
// hint for the L2 if the matrices are large (Notes N11 and N12). At f32 1024 x 32768 this reached 95.6 % of
// the copy's speed; the stage's kernel reached 93.4 % (H200).
// Sources: the Triton article; Milakov and Gimelshein, "Online normalizer calculation for softmax".
#pragma once

#include "common/kernel/block_merge.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/for_each_pack.cuh"
#include "common/kernel/load_store.cuh"
#include "common/rowwise/kernels/tiles.cuh"

namespace rowwise {

// ---- Online: any width.
template <class Op, int pack_size, class Load, class Store>
__global__ void __launch_bounds__(1024) online_softmax(Load load, Store store, Shape shape) {
  __shared__ typename Op::State storage[32];
  const auto [rows, cols] = shape;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    typename Op::State total{};
    const auto update_total = [&](const float(&values)[pack_size], std::int64_t) { Op::add(total, values); };
    for_each_pack<pack_size>(load, row, cols, update_total);
    total = block_merge<Op>(total, storage);

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
struct OnlineSoftmax {
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_widest_packs(load, store, [&]<int pack_size>() {
      const unsigned block_size = block_size_for<pack_size>(shape.cols, 1024);
      online_softmax<Op, pack_size><<<grid_for(shape.rows), block_size, 0, stream>>>(load, store, shape);
      CUDA_CHECK(cudaGetLastError());
    });
  }
};

// ---- Fused: the row stays in the registers of a block, and each element costs one exponential.

constexpr BlockTile narrowest_tile{.block_size = 32, .elements_per_thread = 8};
constexpr BlockTile widest_tile{.block_size = 1024, .elements_per_thread = 32};

/// A block's share of a row in registers: up to tile.cols() columns. Each thread reduces its elements
/// relative to its own maximum; the maximum of all threads then only changes the factor. Note N9: block_size
/// is a constant, so that the addresses of a thread's packs are one register and constant offsets.
/// several_rows: the block has several rows, one after the other, as in row_exchange.cuh.
template <class Op, BlockTile tile, int pack_size, bool several_rows = false>
class RowInRegisters {
 public:
  template <class Load>
  __device__ RowInRegisters(const Load& load, std::int64_t row, int cols) : cols_(cols) {
    Fetched<Load, pack_size> fetched[packs_per_thread];
    // Note N10: without zeros, the previous row would keep its registers, and with 32 single elements nvcc
    // spills more.
    if constexpr (several_rows || pack_size == 1) {
      for (auto& pack : fetched) pack = {};
    }
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (exists(pack)) fetched[pack] = load.template fetch<pack_size>(row, col_of_pack(pack));
    }
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      load.template unpack<pack_size>(fetched[pack], values_[pack]);
    }
  }

  /// Reduces the thread's share of the row, and replaces its elements by the values that Op keeps of them.
  __device__ typename Op::State reduce() {
    typename Op::State own{};
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
#pragma unroll
      for (const float value : values_[pack]) {
        if (exists(pack)) own.max = fmaxf(own.max, value);
      }
    }
    shift_ = safe_shift(own.max);
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
#pragma unroll
      for (float& value : values_[pack]) {
        value = Op::kept(value, shift_);
        if (exists(pack)) own.sum += Op::summand(value);
      }
    }
    return own;
  }

  /// Writes the results, once the pair of the whole row is known.
  template <class Store>
  __device__ void finish(typename Op::State total, const Store& store, std::int64_t row) {
    // to_row converts from "relative to shift" to "relative to the row's maximum": it is a factor, or for the
    // logarithm an offset. The factor is at most 1, because shift is at most the row's maximum, also in a
    // thread that saw only -inf.
    const float to_row = RowResult<Op>(total)(shift_);
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
#pragma unroll
      for (float& value : values_[pack]) value = Op::finish_part(value, to_row);
      if (exists(pack)) store.template store<pack_size>(values_[pack], row, col_of_pack(pack));
    }
  }

 private:
  static constexpr int packs_per_thread = tile.elements_per_thread / pack_size;

  static __device__ int col_of_pack(int pack) {
    return (pack * tile.block_size + static_cast<int>(threadIdx.x)) * pack_size;
  }
  __device__ bool exists(int pack) const {
    return !tile.padded || col_of_pack(pack) < cols_;
  }

  int cols_;
  float values_[packs_per_thread][pack_size];
  float shift_;
};

/// grid: the number of this grid, if the rows need more than one. Note N4: with Load, Store and cols the
/// parameters take at most 48 bytes.
template <class Op, BlockTile tile, int pack_size, class Load, class Store>
__global__ void __launch_bounds__(tile.block_size)
    fused_register_softmax(Load load, Store store, int cols, int grid) {
  __shared__ typename Op::State storage[32];
  const std::int64_t row = grid * max_grid_blocks + blockIdx.x;
  RowInRegisters<Op, tile, pack_size> held(load, row, cols);
  const auto total = block_merge_once<Op, tile.block_size / 32>(held.reduce(), storage);
  held.finish(total, store, row);
}

/// Rows of up to widest_tile.cols() columns; throws std::invalid_argument for wider rows, and CudaError. Uses
/// the smallest block that holds the row: two packs in flight per thread and many blocks per SM, so that one
/// block's arithmetic overlaps another's reads. Blocks of 1024 threads overlap less: wide rows get more
/// packs per thread instead. Each block has one row, in as many grids as the rows need.
struct FusedRegisterSoftmax {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return at_most_columns(widest_tile.cols(), matrix, Why::registers_of_block);
  }
  /// Barriers per row. Each row has its own block, so no barrier protects it from a next row; and a row of
  /// one warp needs none at all.
  static constexpr int barriers(std::int64_t cols) { return cols <= narrowest_tile.cols() ? 0 : 1; }

  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_widest_packs(load, store, [&]<int pack_size>() {
      const auto launch_tile = [&]<BlockTile tile>() {
        for (int grid = 0; grid * max_grid_blocks < shape.rows; ++grid) {
          const unsigned blocks = grid_for(shape.rows - grid * max_grid_blocks);
          fused_register_softmax<Op, tile, pack_size>
              <<<blocks, tile.block_size, 0, stream>>>(load, store, static_cast<int>(shape.cols), grid);
          CUDA_CHECK(cudaGetLastError());
        }
      };
      const auto launch_first = [&]<BlockTile... tiles>() {
        constexpr auto full = [](BlockTile tile) {
          return BlockTile{tile.block_size, tile.elements_per_thread, pack_size == 1};
        };
        with_first_tile_that_fits<full(tiles)..., tiles...>(shape.cols, launch_tile);
      };
      constexpr int two_packs = pack_size == 4 ? 8 : 16;
      launch_first.template operator()<narrowest_tile, BlockTile{64, two_packs}, BlockTile{128, two_packs},
                                       BlockTile{256, two_packs}, BlockTile{256, 16}, BlockTile{512, 16},
                                       BlockTile{512, 32}, widest_tile>();
    });
  }
};

}  // namespace rowwise
