// The costs of a row for the block that `fused` chooses. Stages 12 and 13 use that block, too.
#pragma once

#include "06_online/online.cuh"

inline int fused_warps(std::int64_t cols) {
  int found = 0;
  with_fused_block(cols, [&]<int elements, int warps>() { found = warps; });
  return found;
}
/// A single warp needs no barrier.
inline int fused_barriers(std::int64_t cols) {
  return fused_warps(cols) > 1 ? 1 : 0;
}
