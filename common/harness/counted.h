// What the simulator counted for one launch of a variant, in the units of the lessons.
#pragma once

#include <cstdint>
#include <functional>

#include "common/harness/problem.h"
#include "common/sim/counters.h"

struct Counted {
  double passes = 0;                    ///< bytes requested / bytes of the matrix
  double sectors_per_load_request = 0;  ///< 32-byte sectors; 4 bytes per lane, coalesced: 4
  double sectors_per_store_request = 0;
  std::uint64_t shared_wavefronts = 0;       ///< passes of the 32 banks, loads and stores
  std::uint64_t bank_conflicts = 0;          ///< those beyond the least possible
  std::uint64_t shuffles = 0;                ///< warp instructions
  std::uint64_t block_barriers = 0;          ///< times that a block passed a barrier
  double special_functions_per_element = 0;  ///< exponentials, reciprocals, logarithms
  SimCounters totals{};  ///< the same before any division, for tools that compare with ncu
};

/// Runs `launch` under the simulator and sums what all its kernels did. Only where simulator() is not null.
Counted count_launch(const Problem& problem, const std::function<void()>& launch);
