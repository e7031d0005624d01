// Stage 03: the row lives in the registers of a group of lanes, and lanes exchange with __shfl_xor_sync.
//
// Cost: 2 passes, one read and one write; no shared memory and no barrier. The limit is the registers: up to
// 1024 columns here. Variants differ in what one lane does at a time: one element, a pack of 16 bytes, one
// narrow row per few lanes, two rows at once, or a padded row of any width.
// Sources: OneFlow's first softmax kernel; AITemplate's warp softmax for narrow rows.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "03_warp_reduce/warp_all_reduce.cuh"
#include "common/harness/cuda_check.h"
#include "common/kernel/load_store.cuh"
#include "common/kernel/softmax_math.cuh"

constexpr std::int64_t max_warp_reduce_cols = 1024;
constexpr int warp_reduce_block_size =
    128;  // 4 warps that never meet; small blocks spread evenly over the SMs

/// How a group of lanes covers a row of up to cols() columns.
template <int pack_size_, int packs_per_lane_, int group_width_, int rows_per_access_ = 1,
          bool padded_ = true>
struct RowTile {
  static constexpr int pack_size = pack_size_;              // elements in one access
  static constexpr int packs_per_lane = packs_per_lane_;    // accesses of one lane per row
  static constexpr int group_width = group_width_;          // lanes that share a row
  static constexpr int rows_per_access = rows_per_access_;  // rows that one group has in flight
  static constexpr bool padded = padded_;                   // false: the row has exactly cols() columns
  static constexpr int cols = pack_size * packs_per_lane * group_width;
  static constexpr int rows_per_block = warp_reduce_block_size / group_width * rows_per_access;
};

template <Op op, class Tile, class Load, class Store>
__global__ void __launch_bounds__(warp_reduce_block_size) warp_softmax(Load load, Store store, Shape shape) {
  using T = Tile;
  const auto [rows, cols] = shape;
  const int lane = static_cast<int>(threadIdx.x) % T::group_width;
  const int group = static_cast<int>(threadIdx.x) / T::group_width;

  // The loop runs equally often for all lanes of a warp, also past the last row: a shuffle needs them all.
  for (std::int64_t block_row = blockIdx.x * std::int64_t{T::rows_per_block}; block_row < rows;
       block_row += gridDim.x * std::int64_t{T::rows_per_block}) {
    const std::int64_t first_row = block_row + group * T::rows_per_access;
    const auto col_of_pack = [&](int pack) { return (pack * T::group_width + lane) * T::pack_size; };
    const auto exists = [&](int r, int pack) {
      return first_row + r < rows && (!T::padded || col_of_pack(pack) < cols);
    };

    // All reads first: they are independent, and every one on its way hides the latency of the others.
    // Set to zero although nothing reads the zeros: what may be left over from the turn before keeps its
    // register through the whole loop, and ptxas then needs twice as many.
    Fetched<Load, T::pack_size> fetched[T::rows_per_access][T::packs_per_lane] = {};
#pragma unroll
    for (int r = 0; r < T::rows_per_access; ++r) {
#pragma unroll
      for (int pack = 0; pack < T::packs_per_lane; ++pack) {
        if (!exists(r, pack)) continue;
        fetched[r][pack] = load.template fetch<T::pack_size>(first_row + r, col_of_pack(pack));
      }
    }

#pragma unroll
    for (int r = 0; r < T::rows_per_access; ++r) {
      float values[T::packs_per_lane][T::pack_size];
      float max = MaxOp::identity;
#pragma unroll
      for (int pack = 0; pack < T::packs_per_lane; ++pack) {
        load.template unpack<T::pack_size>(fetched[r][pack], values[pack]);
#pragma unroll
        for (float& value : values[pack]) {
          if (!exists(r, pack)) value = MaxOp::identity;  // adds exp(-inf) = 0 to the sum
          max = fmaxf(max, value);
        }
      }
      max = warp_all_reduce<MaxOp, T::group_width>(max);

      float sum = 0;
#pragma unroll
      for (auto& pack : values) {
#pragma unroll
        for (float& value : pack) {
          value = RowResult<op>::kept(value, max);
          sum += RowResult<op>::summand(value);
        }
      }
      const RowResult<op> result(max, warp_all_reduce<SumOp, T::group_width>(sum));

#pragma unroll
      for (int pack = 0; pack < T::packs_per_lane; ++pack) {
#pragma unroll
        for (float& value : values[pack]) value = result.finish(value);
        if (!exists(r, pack)) continue;
        store.template store<T::pack_size>(values[pack], first_row + r, col_of_pack(pack));
      }
    }
  }
}

template <Op op, class Tile, class Load, class Store>
void launch_warp_softmax(Load load, Store store, Shape shape, cudaStream_t stream) {
  const unsigned grid = grid_for(divide_up(shape.rows, Tile::rows_per_block));
  warp_softmax<op, Tile><<<grid, warp_reduce_block_size, 0, stream>>>(load, store, shape);
  CUDA_CHECK(cudaGetLastError());
}

/// Launches with the first of the tiles that holds the row. Throws std::invalid_argument when none does.
template <Op op, class... Tiles, class Load, class Store>
void launch_first_that_fits(Load load, Store store, Shape shape, cudaStream_t stream) {
  const auto try_tile = [&]<class Tile>(Tile) {
    if (Tile::padded ? shape.cols > Tile::cols : shape.cols != Tile::cols) return false;
    launch_warp_softmax<op, Tile>(load, store, shape, stream);
    return true;
  };
  if (!(try_tile(Tiles{}) || ...)) throw std::invalid_argument("no tile of stage 03 holds such a row");
}

// ---- The launchers. Each does softmax (or log-softmax) of every row, reading through `load` and writing
// through `store`; rows = 0 does nothing. Where packs do not cover the rows, they take single elements. A
// width they cannot do throws std::invalid_argument.

/// One element per access, 32 lanes per row, up to max_warp_reduce_cols columns.
template <Op op, class Load, class Store>
void launch_scalar_loads(Load load, Store store, Shape shape, cudaStream_t stream) {
  if (shape.rows == 0) return;
  launch_first_that_fits<op, RowTile<1, 1, 32>, RowTile<1, 2, 32>, RowTile<1, 4, 32>, RowTile<1, 8, 32>,
                         RowTile<1, 16, 32>, RowTile<1, 32, 32>>(load, store, shape, stream);
}

/// Packs of 16 bytes, 32 lanes per row. `padded`: any width up to max_warp_reduce_cols; otherwise a row must
/// fill every lane, cols = 32 lanes * 1, 2, 3 or 4 packs (f16), 1, 2, 4 or 8 packs (f32), and no access needs
/// a check.
template <Op op, bool padded, class Load, class Store>
void launch_packs(Load load, Store store, Shape shape, cudaStream_t stream) {
  if (shape.rows == 0) return;
  with_widest_packs(load, store, [&]<int N>() {
    if constexpr (N == 1) {
      launch_scalar_loads<op>(load, store, shape, stream);
    } else {
      constexpr int third_step = N == 8 ? 3 : 4;
      launch_first_that_fits<op, RowTile<N, 1, 32, 1, padded>, RowTile<N, 2, 32, 1, padded>,
                             RowTile<N, third_step, 32, 1, padded>, RowTile<N, 32 / N, 32, 1, padded>>(
          load, store, shape, stream);
    }
  });
}

/// For narrow rows: as few lanes per row as one pack each can cover, so that a warp works on up to 32 rows.
/// rows_per_access = 2 lets each group load two rows before it computes. cols <= 32 packs.
template <Op op, int rows_per_access, class Load, class Store>
void launch_narrow_groups(Load load, Store store, Shape shape, cudaStream_t stream) {
  if (shape.rows == 0) return;
  with_widest_packs(load, store, [&]<int N>() {
    constexpr int R = rows_per_access;
    constexpr int scalars =
        elements_per_16_bytes<typename Load::Element> / N;  // 1, or as many as a pack would hold
    launch_first_that_fits<op, RowTile<N, 1, 1, R>, RowTile<N, 1, 2, R>, RowTile<N, 1, 4, R>,
                           RowTile<N, 1, 8, R>, RowTile<N, 1, 16, R>, RowTile<N, 1, 32, R>,
                           RowTile<N, scalars, 32, R>>(load, store, shape, stream);
  });
}
