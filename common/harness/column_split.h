// How the columns of a matrix are split over GPUs.
#pragma once

#include <algorithm>
#include <cstdint>

/// The columns of one GPU. Those of all cover the row, in their order; the last ones may be fewer, or none.
struct Columns {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Equal parts, except for the last: whole 32-byte sectors of every type, so that most parts can be read in packs.
inline Columns columns_of(int device, int devices, std::int64_t cols) {
  constexpr std::int64_t whole = 16;
  const std::int64_t each = ((cols + devices - 1) / devices + whole - 1) / whole * whole;
  const std::int64_t first = std::min(device * each, cols);
  return {first, std::min(each, cols - first)};
}
