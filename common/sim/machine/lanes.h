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
/// How many there are: most often all. (Counting bits is a call if the processor has no instruction for it.)
inline std::uint32_t count_lanes(LaneMask lanes) {
  return lanes == all_lanes ? warp_size : static_cast<std::uint32_t>(std::popcount(lanes));
}
/// At most one.
inline bool is_one_lane(LaneMask lanes) {
  return (lanes & (lanes - 1)) == 0;
}

/// Neighbouring lanes whose addresses are the same, or each `bytes` above the one before.
struct Run {
  int first = 0;
  int count = 1;
  bool same = false;
};

/// How the addresses of neighbouring lanes follow one another: a bit for the later of the two.
struct Steps {
  LaneMask next = 0;  ///< `bytes` above
  LaneMask same = 0;
};

/// Calls function(run) for the runs that the lanes are made of, ascending, until it returns false. True: never did.
template <class Function>
bool for_each_run(LaneMask lanes, const Steps& steps, Function function) {
  const auto following = [](LaneMask mask, int lane) {
    return lane + 1 < warp_size ? std::countr_one(mask >> static_cast<unsigned>(lane + 1)) : 0;
  };
  while (lanes != 0) {
    Run run{first_lane(lanes), 1, false};
    int more = following(steps.next & lanes, run.first);
    if (more == 0) {
      more = following(steps.same & lanes, run.first);
      run.same = more > 0;
    }
    run.count += more;
    if (!function(run)) return false;
    const int end = run.first + run.count;
    lanes = end == warp_size ? 0 : lanes >> static_cast<unsigned>(end) << static_cast<unsigned>(end);
  }
  return true;
}

/// All lanes are one run, and which.
inline bool is_one_run(LaneMask lanes, const Steps& steps, Run& only) {
  for_each_run(lanes, steps, [&only](const Run& run) {
    only = run;
    return false;
  });
  const LaneMask of_run = only.count == warp_size ? all_lanes : bit(only.count) - 1;
  return of_run << static_cast<unsigned>(only.first) == lanes;
}

}  // namespace sim
