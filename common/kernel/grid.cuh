// Arithmetic for launchers: the number of blocks.
#pragma once

#include <cuda/std/cstdint>

inline constexpr std::int64_t max_grid_blocks = 0x7fffffff;  // in x, the first dimension

/// Grid size for `items` pieces of work, one per block. Kernels loop with stride gridDim.x, because a matrix
/// may have more rows than a grid has blocks.
inline unsigned grid_for(std::int64_t items) {
  return static_cast<unsigned>(items < max_grid_blocks ? items : max_grid_blocks);
}

__host__ __device__ constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

__host__ __device__ constexpr std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return divide_up(a, multiple) * multiple;
}
