// The counters of a launch: kept per instruction while it runs, added up by source line and kernel
// afterwards.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/sim/counters.h"
#include "common/sim/machine/lanes.h"
#include "common/sim/ptx/program.h"

namespace sim {

/// Addresses of the lanes of one warp instruction; those of lanes that take no part are not looked at.
using Addresses = std::array<std::uint64_t, warp_size>;

/// Besides the number of executions, which the launch has: see Launch::executed. Without initialisers, so
/// that a launch makes as many as its kernel has instructions by filling memory with zeros.
struct InstructionCounters {
  SimAccesses accesses;
  SimAccesses copied;  ///< InstructionClass::async_copy: its loads; `accesses` are its stores
  std::uint64_t lanes;
  std::uint64_t peer_bytes;
  bool stores;
  bool shared;
  bool taken;   ///< a conditional branch: by a lane ...
  bool passed;  ///< ... and by a lane not

  /// Adds the counters of blocks that ran on another thread.
  InstructionCounters& operator+=(const InstructionCounters& other);
};

/// Counts an access of the lanes in `lanes` (at least one) to `bytes` bytes each.
void count_global(SimAccesses& accesses, const Addresses& addresses, LaneMask lanes, const Steps& steps,
                  std::uint32_t bytes);
void count_shared(SimAccesses& accesses, const Addresses& addresses, LaneMask lanes, const Steps& steps,
                  std::uint32_t bytes);
/// A bulk copy's piece of global memory: a request.
void count_piece(SimAccesses& accesses, std::uint64_t address, std::uint64_t bytes);

/// The contribution of one instruction; block barriers are counted when a block passes.
SimCounters counters_of(const Instruction& instruction, std::uint64_t executed,
                        const InstructionCounters& counters);

}  // namespace sim
