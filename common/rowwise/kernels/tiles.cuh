// How a kernel covers a row: tiles, which are constants of a kernel, and the choice among them at run time.
// From the stages warp_reduce, online and split_row.
#pragma once

#include <cuda/std/cstdint>
#include <stdexcept>
#include <string>

// These are outside of the namespace because of nvcc: see note N31.

/// 4 warps that never synchronise; small blocks spread evenly over the SMs.
constexpr int warp_reduce_block_size = 128;

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

/// How the threads of a block cover a row of up to cols() columns.
struct BlockTile {
  int block_size;
  int elements_per_thread;
  bool padded = true;  ///< false: the row has exactly cols() columns, and no pack needs a check
  constexpr std::int64_t cols() const { return block_size * elements_per_thread; }
  constexpr bool fits(std::int64_t row_cols) const {
    return padded ? row_cols <= cols() : row_cols == cols();
  }
};

/// The size of a block's part of a row, and how many such blocks are meant to share an SM.
struct PartTile {
  BlockTile block;
  int blocks_per_sm;
  constexpr std::int64_t cols() const { return block.cols(); }
  constexpr bool fits(std::int64_t part_cols) const { return block.fits(part_cols); }
};

namespace rowwise {

/// Calls launch.template operator()<tile>() with the first tile that fits rows of `cols` columns. Throws
/// std::invalid_argument if none does.
template <auto... tiles, class Launch>
void with_first_tile_that_fits(std::int64_t cols, Launch launch) {
  const bool launched = ((tiles.fits(cols) && (launch.template operator()<tiles>(), true)) || ...);
  if (!launched) throw std::invalid_argument("no tile holds a row of " + std::to_string(cols) + " columns");
}

}  // namespace rowwise
