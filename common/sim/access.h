// The way of every memory access of a kernel: which bytes, are they there, did somebody write them, do they
// race, and how does the memory system serve them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/sim/execution.h"

namespace sim {

enum class AccessKind : std::uint8_t { load, store, atomic };

/// One warp instruction's access, checked, counted and translated to host memory.
struct Access {
  std::array<std::byte*, warp_size> host{};  ///< of the lanes that take part
  MemorySpace space = MemorySpace::global;   ///< where generic addresses point, too
  bool contiguous = false;                   ///< all 32 lanes, lane l at host[0] + l * access_bytes
};

/// The accesses of the lanes: operands[address] + immediate, instruction.access_bytes each. Throws Fault for
/// one that a device would not do, or that reads what nobody wrote, or that races. `value_of` puts what a
/// lane stores at `to`: several threads may write the same value, and then nothing depends on their order.
using ValueOfLane = void (*)(const Execution&, const Instruction&, int lane, std::byte* to);
Access check_access(Execution& execution, const Instruction& instruction, LaneMask lanes,
                    const Operand& address, AccessKind kind, ValueOfLane value_of = nullptr);

}  // namespace sim
