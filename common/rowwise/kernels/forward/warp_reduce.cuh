// From the stage warp_reduce: the row lives in the registers of a group of lanes, which exchange values with
// __shfl_xor_sync.
//
// Cost: 2 passes, one read and one write; no shared memory and no barrier. The limit is the registers: up to
// 1024 columns here. Beyond the stage's kernel, a group loads two rows before it computes, a lane takes up
// to three packs of each, and rows that fill every lane have kernels without checks. With these and a hint
// for the L2, f16 49152 x 128 reached 99.3 % of the copy's speed; the stage's narrow_groups reached 97.1 %
// (H200).
// Sources: OneFlow's first softmax kernel; AITemplate's warp softmax for narrow rows.
#pragma once

#include <algorithm>
#include <array>

#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/load_store.cuh"
#include "common/kernel/reduce_op.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"
#include "common/kernel/warp_all_reduce.cuh"
#include "common/rowwise/kernels/tiles.cuh"

namespace rowwise {

constexpr std::int64_t max_warp_reduce_cols = 1024;
/// One block per item. Blocks beyond the limit of gridDim.x go into further rows of the grid, gridDim.y.
inline dim3 one_block_each(std::int64_t items) {
  return {grid_for(items), static_cast<unsigned>(divide_up(items, max_grid_blocks))};
}
/// The item of this block in that grid. A second row of the grid exists only if gridDim.x is max_grid_blocks,
/// so that constant stands in for gridDim.x, which would have to be loaded first.
__device__ inline std::int64_t item_of_block() {
  return std::int64_t{blockIdx.y} * max_grid_blocks + blockIdx.x;
}

/// Note N4: Load, Store and Shape take 48 bytes together, so that they fit in the first line of the constant
/// memory that holds a kernel's parameters.
template <class Op, RowTile tile, class Load, class Store>
__global__ void __launch_bounds__(warp_reduce_block_size) warp_softmax(Load load, Store store, Shape shape) {
  // A full tile is exactly as wide as the row, so load.cols can be a constant: a lane then reads at constant
  // offsets from one address. Note N3: store.cols stays variable, because nvcc 13.0 would turn each store of
  // 16 bytes into four of 4 bytes. In padded tiles 32 bits are enough for the number of columns. All this
  // saves instructions before the first load; on a small matrix their time is visible.
  const std::int64_t rows = shape.rows;
  const auto cols = static_cast<unsigned>(shape.cols);
  if constexpr (requires { load.cols; }) load.cols = tile.padded ? cols : tile.cols();
  if constexpr (tile.padded && requires { store.cols; }) store.cols = cols;
  // Note N5: divide before converting to signed, because for a signed number nvcc needs more than a shift and
  // a mask.
  const int lane = static_cast<int>(threadIdx.x % tile.group_width);
  const int group = static_cast<int>(threadIdx.x / tile.group_width);
  const std::int64_t group_row = item_of_block() * tile.rows_per_block() + group;
  // Neighbouring groups take neighbouring rows, so that each access of a warp covers contiguous bytes.
  const auto row_of = [&](int r) { return group_row + r * tile.groups_per_block(); };
  const auto col_of_pack = [&](unsigned pack) { return (pack * tile.group_width + lane) * tile.pack_size; };
  const auto exists = [&](int r, int pack) {
    return row_of(r) < rows && (!tile.padded || col_of_pack(pack) < cols);
  };

  // Issue all loads first: they are independent, so their latencies overlap. Note N6: packs that do not exist
  // stay uninitialised. Nothing computed from them is stored, and selecting zeros would cost an instruction
  // per 16-bit number.
  Fetched<Load, tile.pack_size> fetched[tile.rows_per_access][tile.packs_per_lane];
#pragma unroll
  for (int r = 0; r < tile.rows_per_access; ++r) {
#pragma unroll
    for (int pack = 0; pack < tile.packs_per_lane; ++pack) {
      if (!exists(r, pack)) continue;
      fetched[r][pack] = load.template fetch<tile.pack_size>(row_of(r), col_of_pack(pack));
    }
  }

  // Lanes past the last row keep going: a shuffle needs all lanes of the warp.
  float values[tile.rows_per_access][tile.packs_per_lane][tile.pack_size];
  float max[tile.rows_per_access];
#pragma unroll
  for (int r = 0; r < tile.rows_per_access; ++r) {
    max[r] = MaxOp::identity;
#pragma unroll
    for (int pack = 0; pack < tile.packs_per_lane; ++pack) {
      load.template unpack<tile.pack_size>(fetched[r][pack], values[r][pack]);
#pragma unroll
      for (float& value : values[r][pack]) {
        if (tile.padded && !exists(r, pack)) value = MaxOp::identity;  // adds exp(-inf) = 0 to the sum
        max[r] = fmaxf(max[r], value);
      }
    }
  }
  warp_all_reduce<MaxOp, tile.group_width>(max);

  float sum[tile.rows_per_access] = {};
#pragma unroll
  for (int r = 0; r < tile.rows_per_access; ++r) {
#pragma unroll
    for (auto& pack : values[r]) {
#pragma unroll
      for (float& value : pack) {
        value = Op::kept(value, max[r]);
        sum[r] += Op::summand(value);
      }
    }
  }
  warp_all_reduce<SumOp, tile.group_width>(sum);

#pragma unroll
  for (int r = 0; r < tile.rows_per_access; ++r) {
    const RowResult<Op> result(max[r], sum[r]);
#pragma unroll
    for (int pack = 0; pack < tile.packs_per_lane; ++pack) {
#pragma unroll
      for (float& value : values[r][pack]) value = result.finish(value);
      if (!exists(r, pack)) continue;
      store.template store<tile.pack_size>(values[r][pack], row_of(r), col_of_pack(pack));
    }
  }
}

/// Launches with the first tile that holds the row. Note N7: a group processes its rows once and exits,
/// because with a loop every block would check for more work at its start and at its end.
template <class Op, RowTile... tiles, class Load, class Store>
void launch_warp_softmax(Load load, Store store, Shape shape, cudaStream_t stream) {
  with_first_tile_that_fits<tiles...>(shape.cols, [&]<RowTile tile>() {
    const std::int64_t blocks = divide_up(shape.rows, tile.rows_per_block());
    warp_softmax<Op, tile><<<one_block_each(blocks), warp_reduce_block_size, 0, stream>>>(load, store, shape);
    CUDA_CHECK(cudaGetLastError());
  });
}

// ---- The launchers. Each computes softmax (or log-softmax) of every row, reading through `load` and writing
// through `store`; rows = 0 does nothing. If packs do not cover the rows, they fall back to single elements.
// A width that a launcher does not support throws std::invalid_argument.

/// One element per access, 32 lanes per row, up to max_warp_reduce_cols columns.
struct ScalarLoads {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return at_most_columns(max_warp_reduce_cols, matrix, Why::registers_of_warp);
  }
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    constexpr auto tile = [](int elements) { return RowTile{.pack_size = 1, .packs_per_lane = elements}; };
    launch_warp_softmax<Op, tile(1), tile(2), tile(4), tile(8), tile(16), tile(32)>(load, store, shape,
                                                                                    stream);
  }
};

/// The numbers of 16-byte packs per lane that tiles exist for: 1, 2, 3 or 4 packs of 8 elements; 1, 2, 4 or 8
/// of 4.
constexpr std::array<int, 4> packs_per_lane(int pack_size) {
  return {1, 2, pack_size == 8 ? 3 : 4, 32 / pack_size};
}

/// Packs of 16 bytes, 32 lanes per row, up to max_warp_reduce_cols columns.
struct PaddedPacks : ScalarLoads {
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_widest_packs(load, store, [&]<int N>() {
      if constexpr (N == 1) {
        ScalarLoads::launch<Op>(load, store, shape, stream);
      } else {
        constexpr auto tile = [](int packs) { return RowTile{.pack_size = N, .packs_per_lane = packs}; };
        constexpr auto packs = packs_per_lane(N);
        launch_warp_softmax<Op, tile(packs[0]), tile(packs[1]), tile(packs[2]), tile(packs[3])>(
            load, store, shape, stream);
      }
    });
  }
};

/// How many lanes share a narrow row, and how many packs each of them takes.
struct LaneGroup {
  int lanes;
  int packs;
};

/// For narrow rows: uses the first group that covers the row, so that a warp works on up to 32 rows at a
/// time. A group loads two rows before it computes. Rows that fill every lane use separate tiles, which do
/// not check each pack. Rows may be as wide as the last group covers.
template <LaneGroup... groups>
struct RowsByGroups {
  static constexpr int rows_per_access = 2;
  static constexpr int most_packs = std::max({groups.packs...});
  static_assert(most_packs == 1 || most_packs == 3);
  static constexpr Why why = most_packs == 1 ? Why::one_pack_of_lanes : Why::three_packs_of_lanes;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return at_most_columns(32 * most_packs * 16 / matrix.element_bytes, matrix, why);
  }
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_widest_packs(load, store, [&]<int N>() {
      constexpr auto tile_of = [](LaneGroup group, bool padded) {
        return RowTile{.pack_size = N,
                       .packs_per_lane = group.packs,
                       .group_width = group.lanes,
                       .rows_per_access = rows_per_access,
                       .padded = padded};
      };
      // If packs do not cover the rows, each lane takes as many single elements as its packs would hold.
      constexpr RowTile widest{
          .pack_size = N,
          .packs_per_lane = most_packs * elements_per_16_bytes<typename Load::Element> / N,
          .rows_per_access = rows_per_access};
      constexpr bool padded = N == 1;
      // A group of one or two lanes with one pack each is always full, so it needs no padded tile.
      launch_warp_softmax<Op, tile_of(groups, padded)...,
                          tile_of(groups, padded || groups.packs > 1 || groups.lanes > 2)..., widest>(
          load, store, shape, stream);
    });
  }
};

/// The fewest lanes that cover the row with one pack each; rows of up to 32 packs.
using NarrowGroups = RowsByGroups<LaneGroup{1, 1}, LaneGroup{2, 1}, LaneGroup{4, 1}, LaneGroup{8, 1},
                                  LaneGroup{16, 1}, LaneGroup{32, 1}>;

/// Two or three packs per lane, whichever leaves fewer lanes without one; rows of up to 96 packs. The
/// narrowest rows get one pack per lane, because the packs that one access takes from neighbouring rows must
/// not be too far apart.
using TwoOrThreePacks = RowsByGroups<LaneGroup{1, 1}, LaneGroup{2, 1}, LaneGroup{2, 2}, LaneGroup{4, 2},
                                     LaneGroup{4, 3}, LaneGroup{8, 2}, LaneGroup{8, 3}, LaneGroup{16, 2},
                                     LaneGroup{16, 3}, LaneGroup{32, 2}, LaneGroup{32, 3}>;

}  // namespace rowwise
