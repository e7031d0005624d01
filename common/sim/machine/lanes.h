// Loops over the lanes of a warp.
#pragma once

#include <bit>
#include <cstdint>

#include "common/sim/ptx/program.h"

namespace sim {

/// Calls function(lane) for each lane of the mask, ascending.
template <class Function>
void for_each_lane(LaneMask lanes, Function function) {
  for (; lanes != 0; lanes &= lanes - 1) function(std::countr_zero(lanes));
}

inline LaneMask bit(int lane) {
  return LaneMask{1} << static_cast<unsigned>(lane);
}
inline bool contains(LaneMask lanes, int lane) {
  return (lanes & bit(lane)) != 0;
}
inline int first_lane(LaneMask lanes) {
  return std::countr_zero(lanes);
}

}  // namespace sim
