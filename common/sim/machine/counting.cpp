#include "common/sim/machine/counting.h"

#include <algorithm>

#include "common/sim/machine/lanes.h"

namespace sim {
namespace {

constexpr std::uint64_t sector_bytes = 32;
constexpr std::uint32_t bank_bytes = 4;
constexpr std::uint32_t banks = 32;
constexpr std::size_t most_units = std::size_t{warp_size} * 5;  // 16 bytes off any alignment touch 5 words

/// Distinct units of `grain` bytes that the lanes touch, in ascending order.
class Units {
 public:
  Units(const Addresses& addresses, LaneMask lanes, std::uint32_t bytes, std::uint64_t grain) {
    bool ascending = true;
    for_each_lane(lanes, [&](int lane) {
      const std::uint64_t address = addresses[static_cast<std::size_t>(lane)];
      for (std::uint64_t unit = address / grain; unit <= (address + bytes - 1) / grain; ++unit) {
        if (count_ > 0 && units_[count_ - 1] == unit) continue;
        ascending = ascending && (count_ == 0 || units_[count_ - 1] < unit);
        units_[count_++] = unit;
      }
    });
    if (ascending) return;
    std::sort(units_.begin(), units_.begin() + count_);
    count_ =
        static_cast<std::uint32_t>(std::unique(units_.begin(), units_.begin() + count_) - units_.begin());
  }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] std::uint64_t operator[](std::uint32_t index) const { return units_[index]; }

 private:
  std::array<std::uint64_t, most_units> units_;
  std::uint32_t count_ = 0;
};

/// Lanes that the banks serve together: all 32 for up to 4 bytes a lane, 16 for 8 bytes, 8 for 16 bytes.
std::uint32_t lanes_served_together(std::uint32_t bytes) {
  return bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
}

/// Bytes that the lanes ask for, each counted once. Aligned accesses of one size overlap entirely or not at
/// all.
std::uint64_t distinct_bytes(const Addresses& addresses, LaneMask lanes, std::uint32_t bytes) {
  return std::uint64_t{Units(addresses, lanes, bytes, bytes).count()} * bytes;
}

}  // namespace

void count_global(InstructionCounters& counters, const Addresses& addresses, LaneMask lanes,
                  std::uint32_t bytes) {
  ++counters.accesses.requests;
  counters.accesses.sectors += Units(addresses, lanes, bytes, sector_bytes).count();
  counters.accesses.bytes += distinct_bytes(addresses, lanes, bytes);
}

void count_global_contiguous(InstructionCounters& counters, std::uint64_t first, std::uint32_t bytes) {
  const std::uint64_t all_bytes = std::uint64_t{bytes} * warp_size;
  ++counters.accesses.requests;
  counters.accesses.sectors += (first + all_bytes - 1) / sector_bytes - first / sector_bytes + 1;
  counters.accesses.bytes += all_bytes;
}

void count_shared(InstructionCounters& counters, const Addresses& addresses, LaneMask lanes,
                  std::uint32_t bytes) {
  counters.shared = true;
  ++counters.accesses.requests;
  counters.accesses.bytes += distinct_bytes(addresses, lanes, bytes);
  const std::uint32_t together = lanes_served_together(bytes);
  for (std::uint32_t first = 0; first < warp_size; first += together) {
    const LaneMask group = together == warp_size ? all_lanes : ((1U << together) - 1) << first;
    if ((lanes & group) == 0) continue;
    const Units words(addresses, lanes & group, bytes, bank_bytes);
    std::array<std::uint32_t, banks> words_of_bank{};
    std::uint32_t passes = 0;
    for (std::uint32_t i = 0; i < words.count(); ++i) {
      passes = std::max(passes, ++words_of_bank.at(words[i] % banks));
    }
    counters.accesses.wavefronts += passes;
    counters.accesses.bank_conflicts += passes - 1;
  }
}

void count_shared_contiguous(InstructionCounters& counters, std::uint32_t bytes) {
  counters.shared = true;
  ++counters.accesses.requests;
  counters.accesses.bytes += std::uint64_t{bytes} * warp_size;
  counters.accesses.wavefronts += warp_size / lanes_served_together(bytes);
}

SimCounters counters_of(const Instruction& instruction, const InstructionCounters& counters) {
  SimCounters sum{};
  sum.warp_instructions = counters.executed;
  switch (instruction.counted_as) {
    case InstructionClass::plain:
      break;
    case InstructionClass::shuffle:
      sum.shuffles = counters.executed;
      break;
    case InstructionClass::vote:
      sum.votes = counters.executed;
      break;
    case InstructionClass::barrier:
      sum.block_barriers = counters.lanes;
      break;
    case InstructionClass::warp_barrier:
      sum.warp_barriers = counters.executed;
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
  }
  SimAccesses& accesses = counters.shared ? (counters.stores ? sum.shared_stores : sum.shared_loads)
                                          : (counters.stores ? sum.global_stores : sum.global_loads);
  accesses = counters.accesses;
  return sum;
}

}  // namespace sim
