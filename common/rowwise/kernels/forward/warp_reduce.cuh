// Stage 03: the row lives in the registers of a group of lanes, and lanes exchange with __shfl_xor_sync.
//
// Cost: 2 passes, one read and one write; no shared memory and no barrier. The limit is the registers: up to
// 1024 columns here. Variants differ in what one lane does at a time: one element, a pack of 16 bytes, one
// narrow row per few lanes, two rows at once, or a padded row of any width.
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
#include "common/rowwise/kernels/forward/first_tile.cuh"

constexpr std::int64_t max_warp_reduce_cols = 1024;
constexpr int warp_reduce_block_size =
    128;  // 4 warps that never meet; small blocks spread evenly over the SMs

/// How a group of lanes covers a row of up to cols() columns.
struct RowTile {
  int pack_size;            ///< elements in one access
  int packs_per_lane = 1;   ///< accesses of one lane per row
  int group_width = 32;     ///< lanes that share a row
  int rows_per_access = 1;  ///< rows that one group has in flight
  bool padded = true;       ///< false: the row has exactly cols() columns
  __host__ __device__ constexpr int cols() const { return pack_size * packs_per_lane * group_width; }
  __host__ __device__ constexpr int groups_per_block() const { return warp_reduce_block_size / group_width; }
  __host__ __device__ constexpr int rows_per_block() const { return groups_per_block() * rows_per_access; }
  constexpr bool fits(std::int64_t row_cols) const {
    return padded ? row_cols <= cols() : row_cols == cols();
  }
};

/// A block for each item: those for which x has no room are further rows of the grid.
inline dim3 one_block_each(std::int64_t items) {
  return {grid_for(items), static_cast<unsigned>(divide_up(items, max_grid_blocks))};
}
/// Of the block in that grid. A second row of it follows a full one. (gridDim.x would have to be read first.)
__device__ inline std::int64_t item_of_block() {
  return std::int64_t{blockIdx.y} * max_grid_blocks + blockIdx.x;
}

/// Load, Store and Shape are 48 bytes, and so fit the first line of the constant memory that holds a kernel's parameters. The
/// first instructions of each block would wait for another line, too.
template <class Op, RowTile tile, class Load, class Store>
__global__ void __launch_bounds__(warp_reduce_block_size) warp_softmax(Load load, Store store, Shape shape) {
  // A full tile is as wide as the row: all reads of a lane are then at constants from one address. Of writes that are, nvcc 13.0
  // makes four of 4 bytes in place of one of 16. In any other tile 32 bits hold the number of columns. The fewer instructions come
  // before the first read, the better: of a small matrix their time can be seen.
  const std::int64_t rows = shape.rows;
  const auto cols = static_cast<unsigned>(shape.cols);
  if constexpr (requires { load.cols; }) load.cols = tile.padded ? cols : tile.cols();
  if constexpr (tile.padded && requires { store.cols; }) store.cols = cols;
  // Divided before it is signed: for a signed number, nvcc makes more of it than a shift and a mask.
  const int lane = static_cast<int>(threadIdx.x % tile.group_width);
  const int group = static_cast<int>(threadIdx.x / tile.group_width);
  const std::int64_t group_row = item_of_block() * tile.rows_per_block() + group;
  // Neighbouring groups take neighbouring rows, so that an access of a warp is to bytes side by side.
  const auto row_of = [&](int r) { return group_row + r * tile.groups_per_block(); };
  const auto col_of_pack = [&](unsigned pack) { return (pack * tile.group_width + lane) * tile.pack_size; };
  const auto exists = [&](int r, int pack) {
    return row_of(r) < rows && (!tile.padded || col_of_pack(pack) < cols);
  };

  // All reads first: they are independent, and every one on its way hides the latency of the others. Nothing is
  // put where no pack exists, because nothing that is stored comes of it: to choose between a zero and what was
  // read would cost an instruction for each 16-bit number.
  Fetched<Load, tile.pack_size> fetched[tile.rows_per_access][tile.packs_per_lane];
#pragma unroll
  for (int r = 0; r < tile.rows_per_access; ++r) {
#pragma unroll
    for (int pack = 0; pack < tile.packs_per_lane; ++pack) {
      if (!exists(r, pack)) continue;
      fetched[r][pack] = load.template fetch<tile.pack_size>(row_of(r), col_of_pack(pack));
    }
  }

  // Lanes past the last row go on, too: a shuffle needs all lanes of the warp.
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

/// Launches with the first of the tiles that holds the row. Each group has one turn: a loop in the kernel would make
/// every block look for another turn, at its begin and at its end.
template <class Op, RowTile... tiles, class Load, class Store>
void launch_warp_softmax(Load load, Store store, Shape shape, cudaStream_t stream) {
  with_first_tile_that_fits<tiles...>(shape.cols, [&]<RowTile tile>() {
    const std::int64_t blocks = divide_up(shape.rows, tile.rows_per_block());
    warp_softmax<Op, tile><<<one_block_each(blocks), warp_reduce_block_size, 0, stream>>>(load, store, shape);
    CUDA_CHECK(cudaGetLastError());
  });
}

// ---- The launchers. Each does softmax (or log-softmax) of every row, reading through `load` and writing
// through `store`; rows = 0 does nothing. Where packs do not cover the rows, they take single elements. A
// width they cannot do throws std::invalid_argument.

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

/// How many packs of 16 bytes a lane may hold of a row: 1, 2, 3 or 4 of 8 elements, 1, 2, 4 or 8 of 4.
constexpr std::array<int, 4> packs_per_lane(int pack_size) {
  return {1, 2, pack_size == 8 ? 3 : 4, 32 / pack_size};
}

/// Packs of 16 bytes, 32 lanes per row. `padded`: any width up to max_warp_reduce_cols; otherwise a row must
/// fill every lane, cols = 32 lanes * packs_per_lane() * elements in a pack, and no access needs a check.
template <bool padded>
struct Packs {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (padded) return ScalarLoads::refuses(matrix, gpu);
    const int pack_size = static_cast<int>(16 / matrix.element_bytes);
    for (const int packs : packs_per_lane(pack_size)) {
      if (matrix.cols == 32 * pack_size * packs) return {};
    }
    return {Why::full_lanes, pack_size};
  }
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_widest_packs(load, store, [&]<int N>() {
      if constexpr (N == 1) {
        ScalarLoads::launch<Op>(load, store, shape, stream);
      } else {
        constexpr auto tile = [](int packs) {
          return RowTile{.pack_size = N, .packs_per_lane = packs, .padded = padded};
        };
        constexpr auto packs = packs_per_lane(N);
        launch_warp_softmax<Op, tile(packs[0]), tile(packs[1]), tile(packs[2]), tile(packs[3])>(
            load, store, shape, stream);
      }
    });
  }
};

/// Lanes that share a narrow row, and how many packs each takes of it.
struct LaneGroup {
  int lanes;
  int packs;
};

/// For narrow rows: the first group that covers the row, so that a warp works on up to 32 rows. rows_per_access = 2 lets each
/// group load two rows before it computes. Rows that fill every lane have tiles of their own, without a check for each pack.
/// cols <= what the last group covers.
template <int rows_per_access, LaneGroup... groups>
struct RowsByGroups {
  static constexpr int most_packs = std::max({groups.packs...});
  static_assert(most_packs <= 3);
  static constexpr Why why = most_packs == 1   ? Why::one_pack_of_lanes
                             : most_packs == 2 ? Why::two_packs_of_lanes
                                               : Why::three_packs_of_lanes;
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
      // Where packs do not cover the rows, each lane takes as many elements as its packs would hold.
      constexpr RowTile widest{
          .pack_size = N,
          .packs_per_lane = most_packs * elements_per_16_bytes<typename Load::Element> / N,
          .rows_per_access = rows_per_access};
      constexpr bool padded = N == 1;
      // One lane of one pack is always full, and so are two.
      launch_warp_softmax<Op, tile_of(groups, padded)...,
                          tile_of(groups, padded || groups.packs > 1 || groups.lanes > 2)..., widest>(
          load, store, shape, stream);
    });
  }
};

/// As few lanes as cover the row with so many packs each: cols <= 32 * packs packs.
template <int packs, int rows_per_access>
using NarrowGroups =
    RowsByGroups<rows_per_access, LaneGroup{1, packs}, LaneGroup{2, packs}, LaneGroup{4, packs},
                 LaneGroup{8, packs}, LaneGroup{16, packs}, LaneGroup{32, packs}>;

/// Two packs or three, whichever leaves fewer lanes without one: cols <= 96 packs. The narrowest rows have fewer, for the packs
/// that an access takes of neighbouring rows must not lie too far from each other.
using TwoOrThreePacks = RowsByGroups<2, LaneGroup{1, 1}, LaneGroup{2, 1}, LaneGroup{2, 2}, LaneGroup{4, 2},
                                     LaneGroup{4, 3}, LaneGroup{8, 2}, LaneGroup{8, 3}, LaneGroup{16, 2},
                                     LaneGroup{16, 3}, LaneGroup{32, 2}, LaneGroup{32, 3}>;
