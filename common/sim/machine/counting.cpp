#include "common/sim/machine/counting.h"

#include <algorithm>
#include <bit>

#include "common/sim/counter_sums.h"
#include "common/sim/machine/lanes.h"

namespace sim {
namespace {

constexpr std::uint64_t sector_bytes = 32;
constexpr std::uint32_t bank_bytes = 4;
constexpr std::uint32_t banks = 32;
/// A few numbers, each once.
class FewNumbers {
 public:
  /// False when it is there already.
  bool add(std::uint64_t number) {
    constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15;
    for (std::size_t at = number * golden_ratio >> (64U - log2_slots);; at = (at + 1) % slots_.size()) {
      if (slots_[at] == number + 1) return false;
      if (slots_[at] != 0) continue;
      slots_[at] = number + 1;
      return true;
    }
  }

 private:
  static constexpr unsigned log2_slots = 7;  // lanes that are served together touch at most 64 words
  std::array<std::uint64_t, std::size_t{1} << log2_slots> slots_{};
};

/// No lane's address is below that of a lane before it.
bool do_not_fall(const Addresses& addresses, LaneMask lanes) {
  std::uint64_t before = 0;
  bool falls = false;
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address = addresses[static_cast<std::size_t>(lane)];
    falls = falls || address < before;
    before = address;
  });
  return !falls;
}

/// Calls function(unit) once for each unit of `grain` bytes (a power of two) that the lanes touch.
template <class Function>
void for_each_unit(const Addresses& addresses, LaneMask lanes, std::uint32_t bytes, std::uint64_t grain,
                   Function function) {
  FewNumbers units;
  const auto shift = static_cast<unsigned>(std::countr_zero(grain));
  std::uint64_t next = 0;  // after the address of the previous lane
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address = addresses[static_cast<std::size_t>(lane)];
    const std::uint64_t end = ((address + bytes - 1) >> shift) + 1;
    for (std::uint64_t unit = address >> shift; unit < end; ++unit) {
      if (unit + 1 != next && units.add(unit)) function(unit);
    }
    next = end;
  });
}

std::uint32_t count_units(const Addresses& addresses, LaneMask lanes, std::uint32_t bytes,
                          std::uint64_t grain) {
  std::uint32_t count = 0;
  if (do_not_fall(addresses, lanes)) {  // a unit is new if it comes after those before
    const auto shift = static_cast<unsigned>(std::countr_zero(grain));
    std::uint64_t next = 0;
    for_each_lane(lanes, [&](int lane) {
      const std::uint64_t address = addresses[static_cast<std::size_t>(lane)];
      const std::uint64_t end = ((address + bytes - 1) >> shift) + 1;
      if (end > next) count += static_cast<std::uint32_t>(end - std::max(address >> shift, next));
      next = std::max(next, end);
    });
    return count;
  }
  for_each_unit(addresses, lanes, bytes, grain, [&](std::uint64_t /*unit*/) { ++count; });
  return count;
}

/// Lanes that the banks serve together: all 32 for up to 4 bytes per lane, 16 for 8 bytes, 8 for 16 bytes.
std::uint32_t lanes_served_together(std::uint32_t bytes) {
  return bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
}

}  // namespace

InstructionCounters& InstructionCounters::operator+=(const InstructionCounters& other) {
  lanes += other.lanes;
  peer_bytes += other.peer_bytes;
  stores = stores || other.stores;
  shared = shared || other.shared;
  taken = taken || other.taken;
  passed = passed || other.passed;
  accesses += other.accesses;
  copied += other.copied;
  return *this;
}

void count_piece(SimAccesses& accesses, std::uint64_t address, std::uint64_t bytes) {
  ++accesses.requests;
  accesses.sectors += (address + bytes - 1) / sector_bytes - address / sector_bytes + 1;
  accesses.bytes += bytes;
}

void count_global(SimAccesses& accesses, const Addresses& addresses, LaneMask lanes, const Steps& steps,
                  std::uint32_t bytes) {
  Run run;
  if (is_one_run(lanes, steps, run)) {
    const std::uint64_t first = addresses[static_cast<std::size_t>(run.first)];
    const std::uint64_t end = addresses[static_cast<std::size_t>(run.first + run.count - 1)] + bytes;
    return count_piece(accesses, first, end - first);
  }
  ++accesses.requests;
  accesses.sectors += count_units(addresses, lanes, bytes, sector_bytes);
  // Aligned accesses of one size overlap entirely or not at all.
  accesses.bytes += std::uint64_t{count_units(addresses, lanes, bytes, bytes)} * bytes;
}

void count_shared(SimAccesses& accesses, const Addresses& addresses, LaneMask lanes, const Steps& steps,
                  std::uint32_t bytes) {
  ++accesses.requests;
  const std::uint32_t together = lanes_served_together(bytes);
  Run run;
  if (is_one_run(lanes, steps, run)) {  // as many words as there are banks, one after the other
    const auto count = static_cast<std::uint32_t>(run.count);
    accesses.bytes += std::uint64_t{bytes} * (run.same ? 1 : count);
    const auto first = static_cast<std::uint32_t>(run.first);
    accesses.wavefronts += (first + count - 1) / together - first / together + 1;
    return;
  }
  std::uint64_t distinct_words = 0;
  for (std::uint32_t first = 0; first < warp_size; first += together) {
    const LaneMask group = together == warp_size ? all_lanes : ((1U << together) - 1) << first;
    if ((lanes & group) == 0) continue;
    std::array<std::uint32_t, banks> words_of_bank{};
    std::uint32_t passes = 0;
    for_each_unit(addresses, lanes & group, bytes, bank_bytes, [&](std::uint64_t word) {
      passes = std::max(passes, ++words_of_bank[word % banks]);
      ++distinct_words;
    });
    accesses.wavefronts += passes;
    accesses.bank_conflicts += passes - 1;
  }
  accesses.bytes += bytes == bank_bytes ? distinct_words * bytes
                                        : std::uint64_t{count_units(addresses, lanes, bytes, bytes)} * bytes;
}

SimCounters counters_of(const Instruction& instruction, std::uint64_t executed,
                        const InstructionCounters& counters) {
  SimCounters sum{};
  sum.warp_instructions = executed;
  sum.peer_bytes = counters.peer_bytes;
  switch (instruction.counted_as) {
    case InstructionClass::plain:
    case InstructionClass::mbarrier:
    case InstructionClass::bulk_copy:
    case InstructionClass::async_store:
    case InstructionClass::cluster_barrier:
      break;
    case InstructionClass::shuffle:
      sum.shuffles = executed;
      break;
    case InstructionClass::vote:
      sum.votes = executed;
      break;
    case InstructionClass::barrier:
      sum.block_barriers = counters.lanes;
      break;
    case InstructionClass::warp_barrier:
      sum.warp_barriers = executed;
      break;
    case InstructionClass::exp2:
      sum.exp2_lanes = counters.lanes;
      sum.special_function_lanes = counters.lanes;
      break;
    case InstructionClass::special_function:
      sum.special_function_lanes = counters.lanes;
      break;
    case InstructionClass::atomic:
      sum.atomics = counters.accesses.requests;
      break;
    case InstructionClass::async_copy:
      sum.global_loads = counters.copied;
      sum.async_copy_bytes = counters.copied.bytes;
      break;
  }
  SimAccesses& accesses = counters.shared ? (counters.stores ? sum.shared_stores : sum.shared_loads)
                                          : (counters.stores ? sum.global_stores : sum.global_loads);
  accesses = counters.accesses;
  return sum;
}

}  // namespace sim
