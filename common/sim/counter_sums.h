// Sums of the counters of counters.h, which is C and has no operators.
#pragma once

#include "common/sim/counters.h"

inline SimAccesses& operator+=(SimAccesses& sum, const SimAccesses& other) {
  sum.requests += other.requests;
  sum.bytes += other.bytes;
  sum.sectors += other.sectors;
  sum.wavefronts += other.wavefronts;
  sum.bank_conflicts += other.bank_conflicts;
  return sum;
}

inline SimCounters& operator+=(SimCounters& sum, const SimCounters& other) {
  sum.global_loads += other.global_loads;
  sum.global_stores += other.global_stores;
  sum.shared_loads += other.shared_loads;
  sum.shared_stores += other.shared_stores;
  sum.warp_instructions += other.warp_instructions;
  sum.shuffles += other.shuffles;
  sum.votes += other.votes;
  sum.block_barriers += other.block_barriers;
  sum.warp_barriers += other.warp_barriers;
  sum.special_function_lanes += other.special_function_lanes;
  sum.exp2_lanes += other.exp2_lanes;
  sum.atomics += other.atomics;
  return sum;
}
