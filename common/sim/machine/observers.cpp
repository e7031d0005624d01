// The checks and counts of every access to global and shared memory.
#include <algorithm>
#include <set>
#include <string>

#include "common/sim/machine/access.h"
#include "common/sim/machine/block.h"
#include "common/sim/machine/cluster.h"
#include "common/sim/machine/faults.h"

namespace sim {
namespace {

// ---- Bytes that were never written

/// A description of an unwritten address: if the bytes written are a single array, as most are, and the
/// address is next to it, its index. Otherwise "".
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

class WrittenBytes : public AccessObserver {
 public:
  void see(const Access& access) override {
    access.for_each_region([&](const Region& region, LaneMask lanes) {
      if (access.kind != AccessKind::atomic && region.written->is_full()) return;
      if (access.one_region && access.kind != AccessKind::atomic &&
          region.written->holds_piece(access.lowest - region.begin,
                                      access.highest + access.bytes - access.lowest)) {
        return;
      }
      if (access.kind != AccessKind::atomic && for_each_run(lanes, access.steps, [&](const Run& run) {
            const std::size_t offset = access.address_of(run.first) - region.begin;
            const std::size_t all =
                std::size_t{access.bytes} * (run.same ? 1 : static_cast<unsigned>(run.count));
            if (access.kind == AccessKind::load) return region.written->contains(offset, all);
            region.written->add(offset, all);
            return true;
          })) {
        return;
      }
      for_each_lane(lanes, [&](int lane) {
        const std::size_t offset = access.address_of(lane) - region.begin;
        if (access.kind != AccessKind::store && !region.written->contains(offset, access.bytes)) {
          report(access, lane);
        }
        if (access.kind != AccessKind::load) region.written->add(offset, access.bytes);
      });
    });
  }

 private:
  static void report(const Access& access, int lane) {
    if (!is_said(access.warp, FaultKind::not_written)) return;
    const std::uint64_t address = access.address_of(lane);
    const std::string why =
        access.is_shared()
            ? " (is a barrier missing, or is the index too large?)"
            : beside_what_is_written(*access.warp.block.launch.memory.find(address), address, access.bytes);
    suspect(access.warp, lane, FaultKind::not_written,
            access.describe(lane) + ", which nobody has written yet" + why);
  }
};

// ---- Bytes that are on their way

class Flights : public AccessObserver {
 public:
  void see(const Access& access) override {
    if (!access.is_shared()) return;
    access.for_each_region([&](const Region& region, LaneMask lanes) {
      const Block& block = *region.owner;
      if (block.flights == 0) return;
      for_each_lane(lanes, [&](int lane) {
        const std::size_t offset = access.address_of(lane) - region.begin;
        if (block.in_flight.contains_any(offset, access.bytes)) {
          fault(access.warp, lane, FaultKind::race,
                access.describe(lane) +
                    ", into which an asynchronous copy is on its way that nobody has waited for");
        }
        if (access.kind != AccessKind::load && block.being_sent.contains_any(offset, access.bytes)) {
          fault(access.warp, lane, FaultKind::race,
                access.describe(lane) +
                    ", which a bulk copy may still be reading (cp.async.bulk.wait_group is missing)");
        }
      });
    });
  }
};

// ---- Races

/// Names a place at which something can be released.
std::uint64_t key(const Block& block, std::size_t offset) {
  constexpr unsigned offset_bits = 18;  // a block has less than 256 KiB
  constexpr std::uint64_t no_address = std::uint64_t{1} << 63U;
  return no_address | block.id << offset_bits | offset;
}
std::uint64_t key(const Region& region, std::uint64_t address) {
  return region.owner != nullptr ? key(*region.owner, address - region.begin) : address;
}

/// The key of a barrier's arrivals from its own block, or from other blocks of the cluster. Its address is a multiple of 8.
std::uint64_t arrivals_from(Scope distance, std::uint64_t barrier) {
  return distance == Scope::block ? barrier : barrier | 1U;
}

class Races : public AccessObserver {
 public:
  void see(const Access& access) override {
    const Instruction& instruction = access.instruction;
    const bool strong = is_strong(access);
    if (instruction.acquires) acquire(access);
    access.for_each_region([&](const Region& region, LaneMask lanes) {
      if (region.shadow == nullptr) return;
      const RaceOrder order = access.warp.race_order(region.owner);
      if (!strong && order.is_plain()) {
        const PlainOrder plain(order);
        constexpr std::uint32_t most_runs = 8;  // beyond, they are too short to be worth a call each
        if (count_lanes(lanes & ~(access.steps.next | access.steps.same)) > most_runs) {
          return see_each(access, region, lanes, order, plain);
        }
        for_each_run(lanes, access.steps, [&](const Run& run) {
          see_run(access, region, run, order, plain);
          return true;
        });
        return;
      }
      if (strong && has_scope(access, region)) return check_scopes(access, region, lanes, order);
      for_each_lane(lanes, [&](int lane) { check(access, region, lane, strong, order); });
    });
    if (strong) release(access);
  }

 private:
  static bool is_strong(const Access& access) {
    return access.instruction.strong || access.kind == AccessKind::atomic;
  }

  /// A strong read acquires the knowledge that was released there. (So does a relaxed read, as on all existing GPUs.)
  static void acquire(const Access& access) {
    Warp& warp = access.warp;
    if (access.kind == AccessKind::store) return;
    access.for_each_region([&](const Region& region, LaneMask lanes) {
      for_each_lane(lanes, [&](int lane) {
        LaunchOrder& order = warp.block.launch.order;
        const std::uint32_t index = order.acquire(key(region, access.address_of(lane)));
        if (index == LaunchOrder::none) return;
        const Knowledge& known = order.known(index);
        const Scope distance = order.distance(known.block, warp.block.id);
        if (distance <= access.instruction.scope && known.reaches(distance)) {
          warp.acquired.add(acquired_over(distance, index));
        } else {
          order.fell_short = true;
        }
      });
    });
  }

  /// A strong write releases all accesses before the warp's last fence, or with `.release` all accesses before itself.
  static void release(const Access& access) {
    Warp& warp = access.warp;
    LaunchOrder& order = warp.block.launch.order;
    if (access.kind == AccessKind::load) return;
    const Instruction& instruction = access.instruction;
    const bool is_atomic = access.kind == AccessKind::atomic;
    const bool has_something = instruction.releases || warp.fence_times.front() != 0;
    if (!has_something && is_atomic) return;
    const std::uint32_t known = has_something
                                    ? order.add(warp.knowledge(instruction.releases, instruction.scope))
                                    : LaunchOrder::none;
    access.for_each_region([&](const Region& region, LaneMask lanes) {
      for_each_lane(lanes, [&](int lane) {
        const std::uint64_t at = key(region, access.address_of(lane));
        if (!has_something) {
          order.forget_release(at);
        } else if (is_atomic && !instruction.acquires) {
          make_known(known, *region.owner, access.address_of(lane) - region.begin);
        } else {
          order.release(at, known);
        }
      });
    });
    if (has_something) warp.acquired.replace(known);
  }

  /// Whether the scopes of strong accesses matter: a barrier's operations are of the block's scope, and reach each other.
  static bool has_scope(const Access& access, const Region& region) {
    const LaunchOrder& order = access.warp.block.launch.order;
    const bool is_private = region.owner != nullptr && region.owner->cluster->blocks.size() == 1;
    return access.instruction.counted_as != InstructionClass::mbarrier && !is_private &&
           (order.has_several_devices() || order.has_narrow() || access.instruction.scope < Scope::device);
  }

  static void check_scopes(const Access& access, const Region& region, LaneMask lanes, RaceOrder order) {
    LaunchOrder& launch = access.warp.block.launch.order;
    order.scope = access.instruction.scope;
    const Scope all = launch.has_several_devices() ? Scope::system : Scope::device;
    for_each_lane(lanes, [&](int lane) {
      const std::uint64_t place = key(region, access.address_of(lane));
      order.narrow = launch.narrow_at(place);
      if (order.scope < all) launch.set_narrow(place, {access.warp.stamp_of(lane, true), order.scope});
      check(access, region, lane, true, order);
    });
  }

  static void see_run(const Access& access, const Region& region, const Run& run, const RaceOrder& order,
                      const PlainOrder& plain) {
    RaceShadow& shadow = *region.shadow;
    const std::size_t offset = access.address_of(run.first) - region.begin;
    const Stamp now = access.warp.stamp_of(run.first, false);
    const bool loads = access.kind == AccessKind::load;
    // If lanes read the same bytes, the second makes them "several of the warp", and further ones change
    // nothing.
    constexpr int enough = 2;
    const int count = run.same && loads ? std::min(run.count, enough) : run.count;
    if (!run.same) {
      const auto lanes = static_cast<std::uint32_t>(count);
      if (loads ? shadow.read_run(offset, access.bytes, lanes, now, plain)
                : shadow.write_run(offset, access.bytes, lanes, now, plain)) {
        return;
      }
    }
    for (int lane = run.first; lane < run.first + count; ++lane) {
      const Stamp of_lane = now + static_cast<Stamp>(lane - run.first);
      if (run.same && loads && shadow.read_run(offset, access.bytes, 1, of_lane, plain)) continue;
      check(access, region, lane, false, order);
    }
  }

  static void see_each(const Access& access, const Region& region, LaneMask lanes, const RaceOrder& order,
                       const PlainOrder& plain) {
    RaceShadow& shadow = *region.shadow;
    const Stamp now = access.warp.stamp_of(0, false);
    while (lanes != 0) {
      lanes = access.kind == AccessKind::load
                  ? shadow.read_each(lanes, access.addresses.data(), region.begin, access.bytes, now, plain)
                  : shadow.write_each(lanes, access.addresses.data(), region.begin, access.bytes, now, plain);
      if (lanes == 0) return;
      check(access, region, first_lane(lanes), false, order);
      lanes &= lanes - 1;
    }
  }

  static void check(const Access& access, const Region& region, int lane, bool strong,
                    const RaceOrder& order) {
    const Stamp now = access.warp.stamp_of(lane, strong);
    const std::size_t offset = access.address_of(lane) - region.begin;
    const bool loads = access.kind == AccessKind::load;
    bool other_wrote = loads;
    const Stamp other = loads ? region.shadow->read(offset, access.bytes, now, order)
                              : region.shadow->write(offset, access.bytes, now, order, other_wrote);
    if (other == 0 ||
        (!loads && other_wrote && writes_the_same(access, lane, other, order, region.data + offset)))
      return;
    report(access, lane, other, other_wrote, order);
  }

  /// Writes the same as the other thread wrote there.
  static bool writes_the_same(const Access& access, int lane, Stamp other, const RaceOrder& order,
                              const std::byte* memory) {
    if (access.value_of == nullptr) return false;
    constexpr std::size_t most_bytes = 32;
    std::array<std::byte, most_bytes> value{};
    std::array<std::byte, most_bytes> before{};
    access.value_of(access.warp, access.instruction, lane, value.data());
    // The other thread may be a lane of this instruction, whose value is not in memory yet.
    const std::uint32_t other_lane = thread_of(other).thread - access.warp.first_thread;
    if (other >= order.turn_begin && other_lane < warp_size &&
        contains(access.lanes, static_cast<int>(other_lane)) &&
        access.addresses.at(other_lane) == access.address_of(lane)) {
      access.value_of(access.warp, access.instruction, static_cast<int>(other_lane), before.data());
    } else {
      std::copy_n(memory, access.bytes, before.begin());
    }
    return value == before;
  }

  static void report(const Access& access, int lane, Stamp other, bool other_wrote, const RaceOrder& order) {
    if (!is_said(access.warp, FaultKind::race)) return;
    const Block& block = access.warp.block;
    const StampedThread thread = thread_of(other);
    const LaunchOrder& launch = *order.launch;
    const std::uint64_t other_block = other >= order.turn_begin ? block.id : launch.block_at(other);
    const std::string did = other_wrote ? "wrote" : "read";
    std::string by = thread.one ? describe_thread(block, thread.thread) : "several other threads";
    if (other_block == LaunchOrder::no_block) {
      by = "the kernel before " + did + ", which may not have ended (griddepcontrol.wait is missing)";
    } else if (!launch.same_work(other_block, block.id)) {
      by = launch.describe(other_block) + " " + did + LaunchOrder::not_ordered;
      if ((other & stamp_strong) != 0 && is_strong(access)) by += LaunchOrder::not_of_system_scope;
    } else if (thread.several_blocks) {
      by = "threads of several blocks " + did + ", and nothing orders them and this one";
    } else if (other_block != block.id) {
      by += " of block " + describe_point(block.launch.index_of(other_block - block.launch.first_block_id)) +
            " " + did + ", and nothing orders the two blocks (does each write its own part alone?)";
    } else {
      by += " of the block " + did + " with no barrier between";
    }
    if (other_block != LaunchOrder::no_block && launch.same_work(other_block, block.id)) {
      const bool both_strong = (other & stamp_strong) != 0 && is_strong(access);
      if (other_block != block.id && (both_strong || launch.fell_short)) by += LaunchOrder::too_narrow;
      by += lines_of_other(access, lane, thread, other_block == block.id, other_wrote);
    }
    suspect(access.warp, lane, FaultKind::race, "race: " + access.describe(lane) + ", which " + by);
  }

  /// The source lines of the other access, as far as they are known after it: the lines that have read (or
  /// written) such memory in this launch; among them, if there are any, those whose address registers in the
  /// other thread point there. "" if there are too many to be of use.
  static std::string lines_of_other(const Access& access, int lane, const StampedThread& other, bool in_block,
                                    bool wrote) {
    const Block& block = access.warp.block;
    const Program& program = block.launch.program;
    std::set<std::string> executed;
    std::set<std::string> by_address;
    for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
      const InstructionCounters& counted = block.launch.counters[pc];
      const bool is_this = pc == access.warp.pc;
      const bool copies = !access.is_shared() && counted.copied.requests != 0;  // cp.async: also a load
      if (counted.accesses.requests == 0 && !is_this) continue;
      if ((is_this ? access.kind != AccessKind::load : counted.stores && !copies) != wrote) continue;
      if (!is_this && counted.shared != access.is_shared() && !copies) continue;
      const std::string line = program.describe_location(program.location_of[pc], " from ");
      if (line.empty()) continue;
      executed.insert(line);
      if (in_block && other.one && is_address(program.code[pc], block, other.thread, access, lane))
        by_address.insert(line);
    }
    const std::set<std::string>& lines = by_address.empty() ? executed : by_address;
    constexpr std::size_t most = 3;
    std::string text;
    if (lines.size() <= most) {
      for (const std::string& line : lines)
        text += (text.empty() ? "\n    the other one at " : "\n                  or at ") + line;
    }
    return text;
  }

  /// Whether the registers of that thread make this instruction's address one of the bytes that the lane has access to.
  static bool is_address(const Instruction& instruction, const Block& block, std::uint32_t thread,
                         const Access& access, int lane) {
    const std::size_t place = instruction.counted_as == InstructionClass::atomic ? 1 : instruction.vector;
    if (place >= max_operands) return false;
    const Operand& operand = instruction.operands.at(place);
    const Warp& warp = block.warps.at(thread / warp_size);
    const auto offset = static_cast<std::uint64_t>(instruction.immediate);
    const std::uint64_t address = operand.bytes == sizeof(std::uint64_t)
                                      ? warp.lanes_of<std::uint64_t>(operand)[thread % warp_size] + offset
                                      : warp.lanes_of<std::uint32_t>(operand)[thread % warp_size] + offset;
    return address < access.address_of(lane) + access.bytes &&
           access.address_of(lane) < address + instruction.access_bytes;
  }
};

// ---- Counters

/// The bytes that the lanes load or store in the memory of other devices.
std::uint64_t bytes_of_peers(const Access& access) {
  const Launch& launch = access.warp.block.launch;
  std::uint64_t bytes = 0;
  for_each_lane(access.lanes, [&](int lane) {
    const Allocation* const found = launch.memory.find(access.address_of(lane));
    const bool is_of_peer =
        found != nullptr && found->kind == MemoryKind::device && found->device != launch.configuration.device;
    if (is_of_peer) bytes += access.bytes;
  });
  return bytes;
}

class Counting : public AccessObserver {
 public:
  void see(const Access& access) override {
    // Constants lie in global memory, but a GPU fetches them through a cache of their own.
    if (access.instruction.space == MemorySpace::constant) return;
    // In machine code these are not loads and stores; and how often a warp asks depends on when the others run.
    if (access.instruction.counted_as == InstructionClass::mbarrier) return;
    InstructionCounters& counters = access.warp.counters();
    if (access.instruction.counted_as == InstructionClass::async_copy && !access.is_shared()) {
      count_global(counters.copied, access.addresses, access.lanes, access.steps, access.bytes);
      return;
    }
    counters.stores = access.kind != AccessKind::load;
    if (access.is_shared()) {
      counters.shared = true;
      count_shared(counters.accesses, access.addresses, access.lanes, access.steps, access.bytes);
    } else {
      count_global(counters.accesses, access.addresses, access.lanes, access.steps, access.bytes);
      if (access.warp.block.launch.is_of_several_devices()) counters.peer_bytes += bytes_of_peers(access);
    }
  }
};

}  // namespace

void make_known(Warp& warp, const Block& block, std::size_t offset) {
  LaunchOrder& order = warp.block.launch.order;
  make_known(order.add(warp.knowledge(true, Scope::cluster)), block, offset);
}
void make_known(std::uint32_t knowledge, const Block& block, std::size_t offset) {
  LaunchOrder& order = block.launch.order;
  const Knowledge& known = order.known(knowledge);
  const Scope distance = order.distance(known.block, block.id);
  if (known.reaches(distance)) {
    order.add_release(arrivals_from(distance, key(block, offset)), knowledge, distance);
  } else {
    order.fell_short = true;
  }
}

void learn(Warp& warp, const Block& block, std::size_t offset, Scope scope) {
  LaunchOrder& order = warp.block.launch.order;
  for (const Scope distance : {Scope::block, Scope::cluster}) {
    const std::uint32_t known = order.of_phase(arrivals_from(distance, key(block, offset)));
    if (known == LaunchOrder::none) continue;
    if (distance <= scope) {
      warp.acquired.add(acquired_over(distance, known));
    } else {
      order.fell_short = true;
    }
  }
}

void complete_phase(const Block& block, std::size_t offset) {
  for (const Scope distance : {Scope::block, Scope::cluster}) {
    block.launch.order.complete_phase(arrivals_from(distance, key(block, offset)));
  }
}

std::vector<std::unique_ptr<AccessObserver>> access_observers() {
  std::vector<std::unique_ptr<AccessObserver>> observers;
  observers.push_back(std::make_unique<Flights>());
  observers.push_back(std::make_unique<WrittenBytes>());
  observers.push_back(std::make_unique<Races>());
  observers.push_back(std::make_unique<Counting>());
  return observers;
}

}  // namespace sim
