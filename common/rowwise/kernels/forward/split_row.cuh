// From the stage split_row, for few rows: how a row is split into parts that many blocks share. Beyond the
// stage's split, a part is read and written through any Load and Store.
// Source: the split is that of FlashDecoding and of cub::DeviceReduce's two kernels.
#pragma once

#include "common/kernel/current_device.cuh"
#include "common/rowwise/kernels/forward/online.cuh"

namespace rowwise {

/// How a row is split: into parts of part_cols columns; the last part may be narrower.
struct Split {
  std::int64_t parts;
  std::int64_t part_cols;
};

/// Splits rows of `cols` columns into at most `wanted` parts, at 32-byte boundaries of the row in every type.
inline Split split_columns(std::int64_t cols, std::int64_t wanted) {
  const std::int64_t part_cols = round_up(divide_up(cols, wanted), 16);
  return {.parts = divide_up(cols, part_cols), .part_cols = part_cols};
}

/// A block's view of a row: `load`, starting at first_col.
template <class Load>
struct LoadFrom {
  Load load;
  std::int64_t first_col;
  template <int N>
  __device__ auto fetch(std::int64_t row, std::int64_t col) const {
    return load.template fetch<N>(row, first_col + col);
  }
  template <int N>
  __device__ void unpack(const auto& fetched, float (&values)[N]) const {
    load.template unpack<N>(fetched, values);
  }
};

/// The same for writes.
template <class Store>
struct StoreFrom {
  Store destination;
  std::int64_t first_col;
  template <int N>
  __device__ void store(const float (&values)[N], std::int64_t row, std::int64_t col) const {
    destination.template store<N>(values, row, first_col + col);
  }
};

/// The block's part of a row: blockIdx.x is its number, and the last part may be narrower.
struct PartOfRow {
  std::int64_t first_col;
  std::int64_t cols;
  __device__ PartOfRow(std::int64_t part_cols, std::int64_t row_cols)
      : first_col(blockIdx.x * part_cols), cols(min(part_cols, row_cols - first_col)) {}
};

constexpr int split_block_size = 256;
constexpr std::int64_t max_grid_rows = 65535;  // the most blocks in y

/// For kernels that read a row twice: four blocks per multiprocessor, unless their threads would have fewer
/// than two packs to read.
inline Split split_over_gpu(Shape shape) {
  const std::int64_t wanted = divide_up(4 * multiprocessors(), max(shape.rows, std::int64_t{1}));
  return split_columns(shape.cols, min(wanted, divide_up(shape.cols, 8 * split_block_size)));
}

}  // namespace rowwise
