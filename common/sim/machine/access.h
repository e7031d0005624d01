// The path of every memory access of a kernel: which bytes it accesses, and whether they exist. Then observers
// see it: whether the bytes it reads were written, whether it races, and how the memory system serves it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/sim/machine/byte_set.h"
#include "common/sim/machine/counting.h"
#include "common/sim/machine/lanes.h"
#include "common/sim/machine/launch.h"
#include "common/sim/machine/warp.h"

namespace sim {

enum class AccessKind : std::uint8_t { load, store, atomic };

/// Puts the value that a lane stores at `to`: several threads may write the same value, and then nothing
/// depends on their order.
using ValueOfLane = void (*)(const Warp&, const Instruction&, int lane, std::byte* to);

/// A piece of memory that is watched: an allocation, or the shared memory of a block.
struct Region {
  std::byte* data;
  std::uint64_t begin;  ///< its address
  ByteSet* written;
  RaceShadow* shadow;  ///< null: too large to be watched for races
  Block* owner;        ///< of shared memory: whose it is; null for global memory
};

/// Host memory of the lanes.
struct HostAccess {
  std::array<std::byte*, warp_size>
      host;                   ///< of the lanes that take part; of a contiguous access only the first
  LaneMask shared_lanes = 0;  ///< those whose address is in shared memory
  bool contiguous = false;    ///< all 32 lanes, lane l at host[0] + l * access_bytes
};

/// One warp instruction's access, translated to host memory. All lanes are in one space.
struct Access {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the arrays are filled for the lanes that take part
  Access(Warp& by, const Instruction& doing, AccessKind what, LaneMask taking_part, ValueOfLane value,
         HostAccess& result)
      : warp(by),
        instruction(doing),
        kind(what),
        value_of(value),
        bytes(doing.access_bytes),
        lanes(taking_part),
        host(result.host) {}

  Warp& warp;
  const Instruction& instruction;
  const AccessKind kind;
  const ValueOfLane value_of;
  const std::uint32_t bytes;  ///< of one lane
  LaneMask lanes;
  MemorySpace space = MemorySpace::global;
  bool contiguous = false;  ///< all 32 lanes, lane l at lowest + l * bytes
  bool aligned = true;      ///< all of them, to the size of their accesses
  Addresses addresses;
  Steps steps;
  std::uint64_t lowest = 0;
  std::uint64_t highest = 0;
  std::array<std::byte*, warp_size>& host;
  bool one_region = true;  ///< regions[0] holds all of the lanes
  std::array<Region, warp_size> regions;

  [[nodiscard]] std::uint64_t address_of(int lane) const { return addresses[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] bool is_shared() const { return space == MemorySpace::shared; }
  /// "read of 4 bytes of global memory at 0x..."
  [[nodiscard]] std::string describe(int lane) const;
  /// Calls function(region, the lanes that are in it).
  template <class Function>
  void for_each_region(Function function) const {
    if (one_region) return function(regions[0], lanes);
    for_each_lane(lanes, [&](int lane) { function(regions[static_cast<std::size_t>(lane)], bit(lane)); });
  }
};

/// The accesses of the lanes: operands[address] + immediate, instruction.access_bytes each. Throws Fault for one that a
/// device would not do, or that an observer refuses.
HostAccess access_memory(Warp& warp, const Instruction& instruction, LaneMask lanes, const Operand& address,
                         AccessKind kind, ValueOfLane value_of = nullptr);

/// The place of one lane's access, which is checked for bounds and alignment, but not made.
Region locate(Warp& warp, const Instruction& instruction, LaneMask lane, const Operand& address,
              AccessKind kind, std::byte*& data);

/// Another block of the cluster must have started, and not returned.
void check_is_there(const Warp& warp, int lane, const Block& other);

/// Makes the warp's accesses so far known to threads that wait for the phase of this barrier in shared
/// memory.
void make_known(Warp& warp, const Block& block, std::size_t offset);
void make_known(std::uint32_t knowledge, const Block& block, std::size_t offset);
void complete_phase(const Block& block, std::size_t offset);
void learn(Warp& warp, const Block& block, std::size_t offset, Scope scope);

/// Those of a launch, in the order in which they see an access.
std::vector<std::unique_ptr<AccessObserver>> access_observers();

}  // namespace sim
