#include "common/sim/access.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "common/sim/faults.h"
#include "common/sim/lanes.h"

namespace sim {
namespace {

const char* name_of(AccessKind kind) {
  switch (kind) {
    case AccessKind::load:
      return "read";
    case AccessKind::store:
      return "write";
    case AccessKind::atomic:
      return "atomic";
  }
  return "";
}

std::string hex(std::uint64_t value) {
  std::ostringstream text;
  text << "0x" << std::hex << value;
  return text.str();
}

/// What lies at an address that nobody has written: where the bytes written are a single array, as most are,
/// and the address is beside it, at which index. Otherwise "".
std::string beside_what_is_written(const Allocation& allocation, std::uint64_t address, std::uint32_t bytes) {
  const auto next = [&](std::size_t from, bool written) {
    while (from < allocation.bytes && allocation.written.contains(from, 1) != written) ++from;
    return from;
  };
  const std::size_t begin = next(0, true);
  const std::size_t end = next(begin, false);
  if (begin == end || next(end, true) != allocation.bytes) return "";
  const std::size_t offset = address - allocation.begin;
  if (offset < begin) {
    return ": " + std::to_string(begin - offset) + " bytes before the " + std::to_string(end - begin) +
           " bytes that are written there (is the index too small?)";
  }
  const bool elements =
      bytes <= sizeof(double) && (offset - begin) % bytes == 0 && (end - begin) % bytes == 0;
  const std::string unit = elements ? "element" : "byte";
  const std::size_t unit_bytes = elements ? bytes : 1;
  return ": " + unit + " " + std::to_string((offset - begin) / unit_bytes) + " of an array whose " + unit +
         "s 0 to " + std::to_string((end - begin) / unit_bytes - 1) +
         " are written (is the index too large?)";
}

/// One warp instruction on its way to memory.
class Checker {
 public:
  Checker(Execution& execution, const Instruction& instruction, LaneMask lanes, AccessKind kind,
          ValueOfLane value_of)
      : execution_(execution),
        instruction_(instruction),
        value_of_(value_of),
        lanes_(lanes),
        bytes_(instruction.access_bytes),
        kind_(kind),
        watches_races_(!instruction.synchronises && kind != AccessKind::atomic &&
                       instruction.access_bytes >= RaceShadow::grain) {}

  Access run(const Instruction& instruction, const Operand& operand);

 private:
  void read_addresses(const Instruction& instruction, const Operand& operand);
  MemorySpace resolve_generic();
  void check_alignment();
  void global();
  void shared();
  void local();
  void parameter();

  [[noreturn]] void out_of_bounds(int lane, const char* memory, const std::string& where);
  [[noreturn]] void not_written(int lane, const char* memory);
  [[noreturn]] void race(int lane, Stamp other, bool other_wrote, const char* memory);
  [[nodiscard]] std::string what(const char* memory, int lane) const;

  /// Of one piece of memory that holds all of the lanes: bytes written, races. `first`: address of its first
  /// byte.
  void check_contents(std::byte* data, ByteSet& written, RaceShadow* shadow, std::uint64_t first,
                      const char* memory);
  void check_contents_of(LaneMask lanes, const std::byte* data, ByteSet& written, RaceShadow* shadow,
                         std::uint64_t first, const char* memory);

  /// Writes the same as the other thread wrote there.
  [[nodiscard]] bool writes_the_same(int lane, Stamp other, const std::byte* memory) const;

  Execution& execution_;
  const Instruction& instruction_;
  ValueOfLane value_of_;
  LaneMask lanes_;
  std::uint32_t bytes_;
  AccessKind kind_;
  bool watches_races_;
  Addresses addresses_;
  std::uint64_t lowest_ = 0;
  std::uint64_t highest_ = 0;
  Access access_;
};

void Checker::read_addresses(const Instruction& instruction, const Operand& operand) {
  const auto offset = static_cast<std::uint64_t>(instruction.immediate);
  if (operand.bytes == sizeof(std::uint64_t)) {
    const auto* from = execution_.lanes_of<std::uint64_t>(operand);
    for (std::size_t lane = 0; lane < warp_size; ++lane) addresses_[lane] = from[lane] + offset;
  } else {
    const auto* from = execution_.lanes_of<std::uint32_t>(operand);
    for (std::size_t lane = 0; lane < warp_size; ++lane) addresses_[lane] = from[lane] + offset;
  }
  if (lanes_ == all_lanes) {
    bool contiguous = true;
    for (std::size_t lane = 0; lane < warp_size; ++lane) {
      contiguous &= addresses_[lane] == addresses_[0] + lane * bytes_;
    }
    access_.contiguous = contiguous;
  }
  if (access_.contiguous) {
    lowest_ = addresses_[0];
    highest_ = addresses_[warp_size - 1];
  } else {
    lowest_ = std::numeric_limits<std::uint64_t>::max();
    highest_ = 0;
    for_each_lane(lanes_, [this](int lane) {
      const std::uint64_t address = addresses_[static_cast<std::size_t>(lane)];
      lowest_ = std::min(lowest_, address);
      highest_ = std::max(highest_, address);
    });
  }
}

/// All lanes must point into the same space. Makes the addresses those of the space.
MemorySpace Checker::resolve_generic() {
  struct Window {
    MemorySpace space;
    std::uint64_t begin;
  };
  constexpr std::array windows{Window{MemorySpace::shared, shared_window},
                               Window{MemorySpace::local, local_window},
                               Window{MemorySpace::parameter, parameter_window}};
  for (const auto& [space, begin] : windows) {
    if (lowest_ < begin || highest_ - begin >= window_bytes) continue;
    for (std::uint64_t& address : addresses_) address -= begin;
    lowest_ -= begin;
    highest_ -= begin;
    return space;
  }
  return MemorySpace::global;
}

std::string Checker::what(const char* memory, int lane) const {
  const std::uint64_t address = addresses_[static_cast<std::size_t>(lane)];
  return std::string(name_of(kind_)) + " of " + std::to_string(bytes_) + " bytes of " + memory +
         " memory at " +
         (std::string_view(memory) == "shared" ? "byte " + std::to_string(address) : hex(address));
}

void Checker::check_alignment() {
  if (access_.contiguous && lowest_ % bytes_ == 0) return;
  for_each_lane(lanes_, [this](int lane) {
    if (addresses_[static_cast<std::size_t>(lane)] % bytes_ == 0) return;
    fault(execution_, lane, FaultKind::misaligned_address,
          "misaligned " + what("device", lane) + ", which is no multiple of " + std::to_string(bytes_));
  });
}

void Checker::out_of_bounds(int lane, const char* memory, const std::string& where) {
  fault(execution_, lane, FaultKind::illegal_address, "out of bounds: " + what(memory, lane) + ", " + where);
}

void Checker::not_written(int lane, const char* memory) {
  const std::uint64_t address = addresses_[static_cast<std::size_t>(lane)];
  const std::string why = std::string_view(memory) == "shared"
                              ? " (is a barrier missing, or is the index too large?)"
                              : beside_what_is_written(*execution_.memory.find(address), address, bytes_);
  fault(execution_, lane, FaultKind::not_written,
        what(memory, lane) + ", which nobody has written yet" + why);
}

void Checker::race(int lane, Stamp other, bool other_wrote, const char* memory) {
  const StampedThread thread = thread_of(other);
  fault(execution_, lane, FaultKind::race,
        "race: " + what(memory, lane) + ", which " +
            (thread.one ? describe_thread(execution_, thread.thread) : "several other threads") +
            " of the block " + (other_wrote ? "wrote" : "read") + " with no barrier between");
}

bool Checker::writes_the_same(int lane, Stamp other, const std::byte* memory) const {
  if (value_of_ == nullptr) return false;
  constexpr std::size_t most_bytes = 32;
  std::array<std::byte, most_bytes> value{};
  std::array<std::byte, most_bytes> before{};
  value_of_(execution_, instruction_, lane, value.data());
  // The other thread may be a lane of this instruction, whose value is not in memory yet.
  const std::uint32_t other_lane = thread_of(other).thread - execution_.warp->first_thread;
  if (other_lane < warp_size && contains(lanes_, static_cast<int>(other_lane)) &&
      addresses_.at(other_lane) == addresses_.at(static_cast<std::size_t>(lane))) {
    value_of_(execution_, instruction_, static_cast<int>(other_lane), before.data());
  } else {
    std::copy_n(memory, bytes_, before.begin());
  }
  return value == before;
}

void Checker::check_contents_of(LaneMask lanes, const std::byte* data, ByteSet& written, RaceShadow* shadow,
                                std::uint64_t first, const char* memory) {
  const RaceOrder order = execution_.race_order();
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t offset = addresses_[static_cast<std::size_t>(lane)] - first;
    if (kind_ != AccessKind::store && !written.contains(offset, bytes_)) not_written(lane, memory);
    if (kind_ != AccessKind::load) written.add(offset, bytes_);
    if (!watches_races_ || shadow == nullptr) return;
    const Stamp now = execution_.stamp_of(lane);
    const bool loads = kind_ == AccessKind::load;
    bool other_wrote = loads;
    const Stamp other = loads ? shadow->read(offset, bytes_, now, order)
                              : shadow->write(offset, bytes_, now, order, other_wrote);
    if (other == 0 || (!loads && other_wrote && writes_the_same(lane, other, data + offset))) return;
    race(lane, other, other_wrote, memory);
  });
}

void Checker::check_contents(std::byte* data, ByteSet& written, RaceShadow* shadow, std::uint64_t first,
                             const char* memory) {
  if (!access_.contiguous || kind_ == AccessKind::atomic) {
    check_contents_of(lanes_, data, written, shadow, first, memory);
    return;
  }
  const std::uint64_t offset = lowest_ - first;
  const std::size_t all_bytes = std::size_t{bytes_} * warp_size;
  const bool loads = kind_ == AccessKind::load;
  bool plain = true;
  if (watches_races_ && shadow != nullptr) {
    const Stamp now = execution_.stamp_of(0);
    const RaceOrder order = execution_.race_order();
    plain = loads ? shadow->read_contiguous(offset, bytes_, now, order)
                  : shadow->write_contiguous(offset, bytes_, now, order);
  }
  if (!plain || (loads && !written.contains(offset, all_bytes))) {
    check_contents_of(lanes_, data, written, shadow, first, memory);
    return;
  }
  if (!loads) written.add(offset, all_bytes);
}

void Checker::global() {
  GlobalMemory& memory = execution_.memory;
  Allocation* allocation = memory.find(lowest_);
  if (allocation != nullptr && allocation->holds(highest_, bytes_)) {
    check_contents(allocation->data.get(), allocation->written, allocation->shadow(), allocation->begin,
                   "global");
    if (access_.contiguous) {
      access_.host[0] = allocation->at(lowest_);
    } else {
      for_each_lane(lanes_, [&](int lane) {
        const auto l = static_cast<std::size_t>(lane);
        access_.host[l] = allocation->at(addresses_[l]);
      });
    }
  } else {
    access_.contiguous = false;
    for_each_lane(lanes_, [&](int lane) {
      const auto l = static_cast<std::size_t>(lane);
      Allocation* own = memory.find(addresses_[l]);
      if (own == nullptr || !own->holds(addresses_[l], bytes_)) {
        const std::uint64_t outside = own == nullptr ? addresses_[l] : own->end();
        out_of_bounds(lane, "global", memory.describe_outside(outside));
      }
      check_contents_of(bit(lane), own->data.get(), own->written, own->shadow(), own->begin, "global");
      access_.host[l] = own->at(addresses_[l]);
    });
  }
  // Constants lie in global memory, but a GPU fetches them through a cache of their own.
  if (instruction_.space == MemorySpace::constant) return;
  InstructionCounters& counters = execution_.current_counters();
  counters.stores = kind_ != AccessKind::load;
  if (access_.contiguous) {
    count_global_contiguous(counters, lowest_, bytes_);
  } else {
    count_global(counters, addresses_, lanes_, bytes_);
  }
}

void Checker::shared() {
  std::vector<std::byte>& memory = execution_.shared;
  const std::size_t dynamic = execution_.configuration.dynamic_shared_bytes;
  if (highest_ > memory.size() || memory.size() - highest_ < bytes_) {
    for_each_lane(lanes_, [&](int lane) {
      const std::uint64_t address = addresses_[static_cast<std::size_t>(lane)];
      if (address <= memory.size() && memory.size() - address >= bytes_) return;
      std::string size = std::to_string(memory.size()) + " bytes";
      if (dynamic > 0 && dynamic < memory.size()) {
        size += ": " + std::to_string(memory.size() - dynamic) + " of its __shared__ variables, then the " +
                std::to_string(dynamic) + " of the launch";
      }
      out_of_bounds(lane, "shared", "and the block has " + size);
    });
  }
  check_contents(memory.data(), execution_.shared_written, &execution_.shared_shadow, 0, "shared");
  if (access_.contiguous) {
    access_.host[0] = memory.data() + lowest_;
  } else {
    for_each_lane(lanes_, [&](int lane) {
      const auto l = static_cast<std::size_t>(lane);
      access_.host[l] = memory.data() + addresses_[l];
    });
  }
  InstructionCounters& counters = execution_.current_counters();
  counters.stores = kind_ != AccessKind::load;
  if (access_.contiguous && lowest_ % 128 == 0) {
    count_shared_contiguous(counters, bytes_);
  } else {
    count_shared(counters, addresses_, lanes_, bytes_);
  }
}

/// Each lane has its own; it is neither counted nor watched.
void Checker::local() {
  access_.contiguous = false;
  const std::uint32_t size = execution_.program.local_bytes;
  for_each_lane(lanes_, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    if (addresses_[l] > size || size - addresses_[l] < bytes_) {
      out_of_bounds(lane, "local", "and a thread has " + std::to_string(size) + " bytes");
    }
    access_.host[l] = execution_.local_of(lane) + addresses_[l];
  });
}

void Checker::parameter() {
  access_.contiguous = false;
  const std::vector<std::byte>& parameters = execution_.configuration.parameters;
  for_each_lane(lanes_, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    if (addresses_[l] > parameters.size() || parameters.size() - addresses_[l] < bytes_ ||
        kind_ != AccessKind::load) {
      out_of_bounds(lane, "parameter", "and the kernel has " + std::to_string(parameters.size()) + " bytes");
    }
    access_.host[l] = const_cast<std::byte*>(parameters.data()) + addresses_[l];
  });
}

Access Checker::run(const Instruction& instruction, const Operand& operand) {
  read_addresses(instruction, operand);
  check_alignment();
  const MemorySpace space = instruction.space == MemorySpace::generic ? resolve_generic() : instruction.space;
  access_.space = space;
  switch (space) {
    case MemorySpace::generic:
    case MemorySpace::global:
    case MemorySpace::constant:
      global();
      break;
    case MemorySpace::shared:
      shared();
      break;
    case MemorySpace::local:
      local();
      break;
    case MemorySpace::parameter:
      parameter();
      break;
  }
  return access_;
}

}  // namespace

Access check_access(Execution& execution, const Instruction& instruction, LaneMask lanes,
                    const Operand& address, AccessKind kind, ValueOfLane value_of) {
  return Checker(execution, instruction, lanes, kind, value_of).run(instruction, address);
}

}  // namespace sim
