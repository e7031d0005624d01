// Copies that go on by themselves, the barriers in shared memory that wait for them, and clusters.
#include "common/sim/machine/execute_async.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "common/sim/machine/access.h"
#include "common/sim/machine/async.h"
#include "common/sim/machine/block.h"
#include "common/sim/machine/cluster.h"
#include "common/sim/machine/faults.h"
#include "common/sim/machine/least_most.h"
#include "common/sim/machine/map.h"
#include "common/sim/ptx/module.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

/// The access of an instruction to one of its addresses: operands[place] + offset, `bytes` bytes there.
Instruction at_address(const Instruction& instruction, MemorySpace space, std::int64_t offset,
                       std::size_t bytes) {
  Instruction one = instruction;
  one.space = space;
  one.immediate = offset;
  one.access_bytes = static_cast<std::uint8_t>(bytes);
  return one;
}

// ---- cp.async. Operands: 0 destination, 1 source, 2 bytes to read (absent: all).

constexpr std::size_t source_place = 1;
constexpr std::size_t source_bytes_place = 2;

void copy_async(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const std::size_t bytes = instruction.access_bytes;
  const auto* read_bytes = instruction.operands[source_bytes_place].bytes != 0
                               ? warp.lanes_of<std::uint32_t>(instruction.operands[source_bytes_place])
                               : nullptr;
  // Lanes that read less than they write: a few at an image's edge; the bytes that they do not read become
  // zero.
  const auto bytes_of = [&](int lane) {
    return read_bytes == nullptr ? bytes : std::min<std::size_t>(read_bytes[lane], bytes);
  };
  std::array<std::array<std::byte, 16>, warp_size> data{};
  const auto read = [&](LaneMask those, std::size_t offset, std::size_t count) {
    const Instruction load =
        at_address(instruction, MemorySpace::global,
                   instruction.more_immediates[0] + static_cast<std::int64_t>(offset), count);
    const HostAccess from =
        access_memory(warp, load, those, instruction.operands[source_place], AccessKind::load);
    for_each_lane(those, [&](int lane) {
      const auto l = static_cast<std::size_t>(lane);
      const std::byte* place = from.contiguous ? from.host[0] + l * count : from.host[l];
      std::memcpy(data[l].data() + offset, place, count);
    });
  };
  const std::uint64_t requests = warp.counters().copied.requests;
  for (LaneMask left = lanes; left != 0;) {
    const std::size_t count = bytes_of(first_lane(left));
    LaneMask same = 0;
    for_each_lane(left, [&](int lane) { same |= bytes_of(lane) == count ? bit(lane) : 0; });
    left &= ~same;
    const std::size_t step = count & -count;  // to which all pieces are aligned
    for (std::size_t offset = 0; offset < count; offset += step) read(same, offset, step);
  }
  std::uint64_t& counted = warp.counters().copied.requests;
  counted = std::min(counted, requests + 1);  // all of it is one
  const Instruction store = at_address(instruction, MemorySpace::shared, instruction.immediate, bytes);
  const HostAccess to = access_memory(warp, store, lanes, instruction.operands[0], AccessKind::store);
  Block& block = warp.block;
  for_each_lane(lanes, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    const std::byte* place = to.contiguous ? to.host[0] + l * bytes : to.host[l];
    const auto offset = static_cast<std::size_t>(place - block.shared.data());
    block.in_flight.add(offset, bytes);
    ++block.flights;
    warp.copies.waiting.push_back(
        {{&block, offset, {data[l].begin(), data[l].begin() + static_cast<std::ptrdiff_t>(bytes)}},
         lane,
         warp.copies.groups[l]});
  });
}

void commit_group(Warp& warp, const Instruction& /*instruction*/, LaneMask lanes) {
  for_each_lane(lanes, [&](int lane) { ++warp.copies.groups[static_cast<std::size_t>(lane)]; });
}
/// `immediate`: how many of the groups may be on their way still; -1: nothing may, committed or not.
void wait_group(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  std::array<std::uint32_t, warp_size> landed{};
  for_each_lane(lanes, [&](int lane) {
    const std::int64_t groups = warp.copies.groups[static_cast<std::size_t>(lane)];
    landed[static_cast<std::size_t>(lane)] =
        static_cast<std::uint32_t>(std::max(groups - instruction.immediate, std::int64_t{0}));
  });
  land_copies(warp, landed);
}

// ---- Bulk copies. Operands: 0 destination, 1 source, 2 bytes, 3 mbarrier, 4 mask of ranks (multicast).

struct Range {
  Region region;
  std::size_t offset = 0;
  std::byte* data = nullptr;
};

/// The range of one lane, checked: there, aligned to 16 bytes.
Range bulk_range(Warp& warp, const Instruction& instruction, int lane, std::size_t place,
                 std::int64_t displacement, MemorySpace space, std::size_t bytes, AccessKind kind) {
  constexpr std::size_t grain = 16;
  if (bytes % grain != 0) {
    fault(warp, lane, FaultKind::misaligned_address,
          "a bulk copy of " + std::to_string(bytes) + " bytes, which is no multiple of 16");
  }
  // The first and the last 16 bytes determine its place; both must be in one allocation.
  Range range;
  const Instruction first = at_address(instruction, space, displacement, grain);
  const Instruction last =
      at_address(instruction, space, displacement + static_cast<std::int64_t>(bytes - grain), grain);
  range.region = locate(warp, first, bit(lane), instruction.operands[place], kind, range.data);
  std::byte* end = nullptr;
  const Region at_end = locate(warp, last, bit(lane), instruction.operands[place], kind, end);
  if (at_end.data != range.region.data) {
    fault(warp, lane, FaultKind::illegal_address,
          "a bulk copy of " + std::to_string(bytes) + " bytes that lie in two arrays");
  }
  range.offset = static_cast<std::size_t>(range.data - range.region.data);
  return range;
}

void check_read(Warp& warp, int lane, const Range& range, std::size_t bytes) {
  if (!range.region.written->contains(range.offset, bytes)) {
    suspect(warp, lane, FaultKind::not_written,
            "a bulk copy reads " + std::to_string(bytes) + " bytes of which nobody has written some yet");
  }
  if (range.region.shadow == nullptr) return;
  const RaceOrder order = warp.race_order(range.region.owner);
  if (range.region.shadow->read(range.offset, bytes, warp.stamp_of(lane, false), order) != 0) {
    suspect(warp, lane, FaultKind::race,
            "race: a bulk copy reads what another thread wrote with nothing that orders the two");
  }
}

/// Generic writes to shared memory are seen by a bulk copy only after a fence.proxy.async of the thread that wrote.
void check_proxy(Warp& warp, int lane, const Range& range, std::size_t bytes) {
  const Block& block = warp.block;
  for (std::size_t byte = 0; byte < bytes; byte += 2) {
    const Stamp write = range.region.shadow->last_write(range.offset + byte);
    const StampedThread thread = thread_of(write);
    if (write < block.begin || !thread.one) continue;
    const Warp& writer = block.warps[thread.thread / warp_size];
    if (write < writer.proxy_fence_time) continue;
    suspect(warp, lane, FaultKind::race,
            "a bulk copy reads shared memory at byte " + std::to_string(range.offset + byte) + ", which " +
                describe_thread(block, thread.thread) + " wrote without a fence.proxy.async after it");
  }
}

void count_bulk(Warp& warp, std::uint64_t address, std::size_t bytes, bool stores) {
  InstructionCounters& counters = warp.counters();
  counters.stores = stores;
  count_piece(counters.accesses, address, bytes);
}

/// The initialisation of a barrier, too.
void check_proxy(Warp& warp, int lane, const Block& block, std::size_t barrier) {
  for (const Block::Initialised& initialised : block.unseen_by_copies) {
    if (initialised.mbarrier != barrier) continue;
    suspect(warp, lane, FaultKind::race,
            "a bulk copy arrives at a mbarrier that was initialised without a fence.proxy.async or a "
            "fence.mbarrier_init after it");
  }
}

void bulk_to_shared(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  for_each_lane(lanes, [&](int lane) {
    const std::size_t bytes = warp.lanes_of<std::uint32_t>(instruction.operands[2])[lane];
    const bool from_shared = instruction.option != 0;
    const Range from =
        bulk_range(warp, instruction, lane, 1, instruction.more_immediates[0],
                   from_shared ? MemorySpace::shared : MemorySpace::global, bytes, AccessKind::load);
    check_read(warp, lane, from, bytes);
    if (from_shared) check_proxy(warp, lane, from, bytes);
    if (!from_shared) count_bulk(warp, from.region.begin + from.offset, bytes, false);
    const Range to = bulk_range(warp, instruction, lane, 0, instruction.immediate, MemorySpace::shared, bytes,
                                AccessKind::store);
    std::byte* mbarrier = nullptr;
    const Instruction at_barrier =
        at_address(instruction, MemorySpace::shared, instruction.more_immediates[1], 8);
    const Region barrier =
        locate(warp, at_barrier, bit(lane), instruction.operands[3], AccessKind::load, mbarrier);
    const auto barrier_offset = static_cast<std::size_t>(mbarrier - barrier.data);
    const bool multicast = instruction.operands[4].bytes != 0;
    const std::uint32_t ranks =
        multicast ? warp.lanes_of<std::uint16_t>(instruction.operands[4])[lane] : 1U << to.region.owner->rank;
    for (Block& block : warp.block.cluster->blocks) {
      if ((ranks >> block.rank & 1U) == 0) continue;
      check_is_there(warp, lane, block);
      if (block.in_flight.contains_any(to.offset, bytes)) {
        fault(warp, lane, FaultKind::race,
              "a bulk copy into shared memory into which another copy is on its way");
      }
      bool other_wrote = false;
      if (block.shared_shadow.write(to.offset, bytes, warp.stamp_of(lane, false), warp.race_order(&block),
                                    other_wrote) != 0) {
        suspect(warp, lane, FaultKind::race,
                std::string("race: a bulk copy into shared memory that another thread ") +
                    (other_wrote ? "wrote" : "read") + ", with nothing that orders the two");
      }
      block.in_flight.add(to.offset, bytes);
      ++block.flights;
      Block& waiting = multicast ? block : *barrier.owner;
      check_proxy(warp, lane, waiting, barrier_offset);
      waiting.arrivals.push_back(
          {barrier_offset, {&block, to.offset, {from.data, from.data + bytes}}, nullptr, 0, 0});
    }
  });
}

void bulk_to_global(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  for_each_lane(lanes, [&](int lane) {
    const std::size_t bytes = warp.lanes_of<std::uint32_t>(instruction.operands[2])[lane];
    const Range from = bulk_range(warp, instruction, lane, 1, instruction.more_immediates[0],
                                  MemorySpace::shared, bytes, AccessKind::load);
    check_read(warp, lane, from, bytes);
    check_proxy(warp, lane, from, bytes);
    const Range to = bulk_range(warp, instruction, lane, 0, instruction.immediate, MemorySpace::global, bytes,
                                AccessKind::store);
    count_bulk(warp, to.region.begin + to.offset, bytes, true);
    bool other_wrote = false;
    if (to.region.shadow != nullptr && to.region.shadow->write(to.offset, bytes, warp.stamp_of(lane, false),
                                                               warp.race_order(nullptr), other_wrote) != 0) {
      suspect(warp, lane, FaultKind::race,
              "race: a bulk copy writes what another thread wrote or read, with nothing that orders the two");
    }
    std::memcpy(to.data, from.data, bytes);
    to.region.written->add(to.offset, bytes);
    ++warp.block.launch.progress;
    warp.block.being_sent.add(from.offset, bytes);
    ++warp.block.flights;
    warp.copies.sent.push_back(
        {from.offset, bytes, lane, warp.copies.bulk_groups[static_cast<std::size_t>(lane)]});
  });
}

void commit_bulk_group(Warp& warp, const Instruction& /*instruction*/, LaneMask lanes) {
  for_each_lane(lanes, [&](int lane) { ++warp.copies.bulk_groups[static_cast<std::size_t>(lane)]; });
}
void wait_bulk_group(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  auto& sent = warp.copies.sent;
  for_each_lane(lanes, [&](int lane) {
    const std::int64_t groups = warp.copies.bulk_groups[static_cast<std::size_t>(lane)];
    sent.erase(std::remove_if(sent.begin(), sent.end(),
                              [&](const AsyncCopies::Sent& one) {
                                if (one.lane != lane || one.group >= groups - instruction.immediate)
                                  return false;
                                warp.block.being_sent.remove(one.offset, one.bytes);
                                --warp.block.flights;
                                return true;
                              }),
               sent.end());
  });
}

void do_nothing(Warp& /*warp*/, const Instruction& /*instruction*/, LaneMask /*lanes*/) {}

/// An address that is not the first: its offset is kept apart.
void address_at(Assembler& a, std::size_t place, std::size_t written, std::size_t which) {
  const std::int64_t first = a.instruction.immediate;
  a.address_at(place, a.written(written));
  if (which > 0) a.instruction.more_immediates.at(which - 1) = std::exchange(a.instruction.immediate, first);
}

std::int64_t number(const Assembler& a, std::size_t index) {
  a.refuse_if(a.written(index).kind != WrittenOperand::Kind::number);
  return static_cast<std::int64_t>(parse_unsigned(a.written(index).text));
}

void assemble_bulk(Assembler& a) {
  if (a.take("commit_group")) {
    a.instruction.handler = &commit_bulk_group;
  } else if (a.take("wait_group")) {
    (void)a.take("read");
    a.instruction.immediate = number(a, 0);
    a.instruction.handler = &wait_bulk_group;
  } else if (a.take("prefetch")) {
    a.refuse_if(!a.take("L2") || !a.take("global"));
    a.instruction.handler = &do_nothing;
  } else {
    (void)a.take("L2::cache_hint");
    const bool multicast = a.take("multicast::cluster");
    const bool to_global = a.take("bulk_group");
    a.instruction.counted_as = InstructionClass::bulk_copy;
    address_at(a, 0, 0, 0);
    address_at(a, 1, 1, 1);
    a.source_at(2, a.written(2), Type::b32);
    if (to_global) {
      a.refuse_if(!a.take("global") || !a.take("shared::cta"));
      a.instruction.handler = &bulk_to_global;
      return;
    }
    a.refuse_if(!a.take("mbarrier::complete_tx::bytes"));
    a.instruction.option = a.take("global") ? 0 : 1;
    const bool to_cluster = a.take("shared::cluster");
    const bool own = a.take("shared::cta");
    a.refuse_if(!to_cluster && !own);
    address_at(a, 3, 3, 2);
    if (multicast) a.source_at(4, a.written(4), Type::b16);
    a.instruction.handler = &bulk_to_shared;
  }
}

void arrive_after_copies(Warp& warp, const Instruction& instruction, LaneMask lanes);

void assemble_cp(Assembler& a) {
  a.refuse_if(!a.take("async"));
  if (a.take("bulk")) return assemble_bulk(a);
  if (a.take("mbarrier")) {
    a.refuse_if(!a.take("arrive"));
    a.instruction.option = a.take("noinc") ? 1 : 0;
    (void)a.take_one_of({"shared", "shared::cta"});
    a.refuse_if(a.take_type() != Type::b64);
    a.address(0);
    a.instruction.space = MemorySpace::shared;
    a.instruction.access_bytes = 8;
    a.instruction.strong = true;
    a.instruction.counted_as = InstructionClass::mbarrier;
    a.instruction.handler = &arrive_after_copies;
  } else if (a.take("commit_group")) {
    a.instruction.handler = &commit_group;
  } else if (a.take("wait_group")) {
    a.instruction.immediate = number(a, 0);
    a.instruction.handler = &wait_group;
  } else if (a.take("wait_all")) {
    a.instruction.immediate = -1;
    a.instruction.handler = &wait_group;
  } else {
    a.refuse_if(!a.take_one_of({"ca", "cg"}) || !a.take_one_of({"shared", "shared::cta"}) ||
                !a.take("global"));
    const std::size_t count = a.operand_count() - (a.take("L2::cache_hint") ? 1 : 0);
    (void)a.take_one_of({"L2::64B", "L2::128B", "L2::256B"});
    const std::int64_t bytes = number(a, 2);
    a.refuse_if(bytes != 4 && bytes != 8 && bytes != 16);
    a.instruction.access_bytes = static_cast<std::uint8_t>(bytes);
    address_at(a, 0, 0, 0);
    address_at(a, source_place, 1, 1);
    if (count > 3) a.source_at(source_bytes_place, a.written(3), Type::b32);
    a.instruction.counted_as = InstructionClass::async_copy;
    a.instruction.handler = &copy_async;
  }
}

// ---- Barriers in shared memory. Operands: 0 state or predicate, 1 address, 2 count, state or parity.

constexpr std::size_t barrier_place = 1;

struct BarrierAt {
  std::byte* data = nullptr;
  Block* block = nullptr;
  std::size_t offset = 0;
};

/// Calls the function for each lane; an access to its eight bytes like any other.
template <class Function>
void for_each_barrier(Warp& warp, const Instruction& instruction, LaneMask lanes, AccessKind kind,
                      Function function, ValueOfLane value_of = nullptr) {
  const HostAccess access =
      access_memory(warp, instruction, lanes, instruction.operands[barrier_place], kind, value_of);
  for_each_lane(lanes, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    std::byte* data = access.contiguous ? access.host[0] + l * 8 : access.host[l];
    BarrierAt at{data, nullptr, 0};
    for (Block& block : warp.block.cluster->blocks) {
      if (data < block.shared.data() || data >= block.shared.data() + block.shared.size()) continue;
      at.block = &block;
      at.offset = static_cast<std::size_t>(data - block.shared.data());
    }
    function(lane, at);
  });
}

void initial_state(const Warp& warp, const Instruction& instruction, int lane, std::byte* to) {
  Mbarrier barrier;
  barrier.expected = barrier.pending = warp.lanes_of<std::uint32_t>(instruction.operands[2])[lane];
  barrier.store(to);
}
/// Whether cuda::barrier executes the instruction. Its copies (cuda::memcpy_async) have no fence before them, and the library relies on
/// that.
bool is_of_barrier_class(const Warp& warp) {
  const Program& program = warp.block.launch.program;
  const auto file = program.files.find(program.locations[program.location_of[warp.pc]].file);
  return file != program.files.end() && file->second.find("/__barrier/") != std::string::npos;
}

void init(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto initialise = [&](int lane, const BarrierAt& at) {
    initial_state(warp, instruction, lane, at.data);
    if (Mbarrier::load(at.data).expected == 0) {
      fault(warp, lane, FaultKind::barrier, "a mbarrier that nobody arrives at: its count is 0");
    }
    if (at.block != &warp.block) return;
    at.block->initialised.push_back(at.offset);
    if (!is_of_barrier_class(warp)) at.block->unseen_by_copies.push_back({at.offset, &warp});
  };
  for_each_barrier(warp, instruction, lanes, AccessKind::store, initialise, &initial_state);
}

/// Arrivals of which there may not be more than the barrier expects.
void arrive_at(Warp& warp, int lane, const BarrierAt& at, std::uint32_t count, std::int64_t bytes) {
  Mbarrier barrier = Mbarrier::load(at.data);
  if (count > barrier.pending) {
    fault(warp, lane, FaultKind::barrier,
          "arrives at a mbarrier at which nobody is missing any more: it was initialised for " +
              std::to_string(barrier.expected) + " arrivals");
  }
  barrier.bytes += static_cast<std::int32_t>(bytes);
  barrier.pending -= count;
  if (barrier.settle()) complete_phase(*at.block, at.offset);
  barrier.store(at.data);
  ++warp.block.launch.progress;
}

enum ArriveOption : std::uint8_t { plain_arrive, expects_bytes, only_expects_bytes, drops };

void mbarrier_arrive(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto* counts =
      instruction.operands[2].bytes != 0 ? warp.lanes_of<std::uint32_t>(instruction.operands[2]) : nullptr;
  for_each_barrier(warp, instruction, lanes, AccessKind::atomic, [&](int lane, const BarrierAt& at) {
    if (instruction.operands[0].bytes != 0) {
      std::memcpy(warp.lanes_of<std::uint64_t>(instruction.operands[0]) + lane, at.data,
                  sizeof(std::uint64_t));
    }
    const std::uint32_t number = counts != nullptr ? counts[lane] : 1;
    switch (instruction.option) {
      case expects_bytes:
        return arrive_at(warp, lane, at, 1, number);
      case only_expects_bytes:
        return arrive_at(warp, lane, at, 0, number);
      case drops: {
        Mbarrier barrier = Mbarrier::load(at.data);
        barrier.expected -= number;
        barrier.store(at.data);
        return arrive_at(warp, lane, at, number, 0);
      }
      default:
        return arrive_at(warp, lane, at, number, 0);
    }
  });
}

/// Everything that the barrier waits for and that is on its way has arrived now, when a lane looks.
void deliver(Warp& warp, int lane, const BarrierAt& at, Scope scope) {
  std::vector<Arrival> delivered;
  auto& arrivals = at.block->arrivals;
  const auto first = std::stable_partition(arrivals.begin(), arrivals.end(), [&](const Arrival& arrival) {
    return arrival.mbarrier != at.offset;
  });
  delivered.assign(std::make_move_iterator(first), std::make_move_iterator(arrivals.end()));
  arrivals.erase(first, arrivals.end());
  for (const Arrival& arrival : delivered) {
    if (arrival.sender == LaunchOrder::none) continue;
    const LaunchOrder& order = warp.block.launch.order;
    if (order.distance(order.known(arrival.sender).block, at.block->id) > scope) {
      suspect(warp, lane, FaultKind::race,
              "race: a wait of block scope for what another block of the cluster sends (scope_cluster would "
              "acquire it)");
    }
    make_known(arrival.sender, *at.block, at.offset);
  }
  for (const Arrival& arrival : delivered) {
    if (arrival.warp != nullptr) {
      std::array<std::uint32_t, warp_size> landed{};
      landed[static_cast<std::size_t>(arrival.lane)] = arrival.group;
      land_copies(*arrival.warp, landed);
      make_known(*arrival.warp, *at.block, at.offset);
      arrive_at(*arrival.warp, arrival.lane, at, 1, 0);
      continue;
    }
    land(arrival.flight, warp, lane);
    make_known(warp, *at.block, at.offset);
    Mbarrier barrier = Mbarrier::load(at.data);
    barrier.bytes -= static_cast<std::int32_t>(arrival.flight.data.size());
    if (barrier.settle()) complete_phase(*at.block, at.offset);
    barrier.store(at.data);
  }
}

/// option: 0 a state, 1 a parity.
void test_wait(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  LaneMask passed = 0;
  for_each_barrier(warp, instruction, lanes, AccessKind::load, [&](int lane, const BarrierAt& at) {
    deliver(warp, lane, at, instruction.scope);
    bool phase = false;
    if (instruction.option != 0) {
      phase = (warp.lanes_of<std::uint32_t>(instruction.operands[2])[lane] & 1U) != 0;
    } else {
      phase = warp.lanes_of<std::uint64_t>(instruction.operands[2])[lane] >> 63U != 0;
    }
    if (Mbarrier::load(at.data).phase == phase) return;
    passed |= bit(lane);
    learn(warp, *at.block, at.offset, instruction.scope);
  });
  warp.set_mask(instruction.operands[0], lanes, passed);
  if (passed == 0) warp.poll(instruction, barrier_place, lanes);
}

void arrive_after_copies(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  Instruction barrier = instruction;
  barrier.operands[barrier_place] = instruction.operands[0];
  for_each_barrier(warp, barrier, lanes, AccessKind::load, [&](int lane, const BarrierAt& at) {
    const std::uint32_t groups = warp.copies.groups[static_cast<std::size_t>(lane)];
    if (instruction.option == 0) {  // it counts in addition to those that the barrier expects
      Mbarrier state = Mbarrier::load(at.data);
      ++state.pending;
      state.store(at.data);
    }
    at.block->arrivals.push_back({at.offset, {}, &warp, lane, groups + 1});
  });
}

void pending_count(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto* states = warp.lanes_of<std::uint64_t>(instruction.operands[1]);
  for_lanes(warp.lanes_of<std::uint32_t>(instruction.operands[0]), lanes, [states](int lane) {
    std::array<std::byte, sizeof(std::uint64_t)> bytes{};
    std::memcpy(bytes.data(), &states[lane], sizeof(std::uint64_t));
    return Mbarrier::load(bytes.data()).pending;
  });
}

void assemble_mbarrier(Assembler& a) {
  if (a.take("pending_count")) {
    a.refuse_if(a.take_type() != Type::b64);
    a.destination_at(0, a.written(0), Type::b32);
    a.source_at(1, a.written(1), Type::b64);
    a.instruction.handler = &pending_count;
    return;
  }
  const auto what =
      a.take_one_of({"init", "inval", "arrive", "arrive_drop", "expect_tx", "test_wait", "try_wait"});
  a.refuse_if(!what);
  const bool bytes = a.take("expect_tx") || *what == 4;
  (void)a.take("noComplete");
  const bool relaxed = a.take("relaxed");
  (void)a.take_one_of({"release", "acquire"});
  // Without a scope it is .cta; but kernels rely on it (CUTLASS's clusters do), and on all existing GPUs they may.
  a.instruction.scope = a.take_scope(Scope::cluster);
  (void)a.take_one_of({"shared", "shared::cta", "shared::cluster"});
  const bool parity = a.take("parity");
  a.refuse_if(a.take_type() != Type::b64);
  a.instruction.space = MemorySpace::shared;
  a.instruction.access_bytes = 8;
  a.instruction.counted_as = InstructionClass::mbarrier;
  a.instruction.strong = *what > 1;
  a.instruction.releases = *what >= 2 && *what <= 3 && !relaxed;
  std::size_t next = 0;
  if (*what == 0 || *what == 1 || *what == 4) {
    a.address_at(barrier_place, a.written(next++));
    if (*what == 0) a.instruction.handler = &init;
    if (*what == 1) a.instruction.handler = &do_nothing;
    if (*what == 4) a.instruction.handler = &mbarrier_arrive;
    if (*what == 4) a.instruction.option = only_expects_bytes;
    if (*what != 1) a.source_at(2, a.written(next), Type::b32);
    return;
  }
  if (*what == 2 || *what == 3) {
    const WrittenOperand& state = a.written(0);
    if (state.kind !=
        WrittenOperand::Kind::address) {  // an arrival at another block's barrier gives no state
      if (state.kind != WrittenOperand::Kind::nothing) a.destination_at(0, state, Type::b64);
      ++next;
    }
    a.address_at(barrier_place, a.written(next++));
    if (next < a.operand_count()) a.source_at(2, a.written(next), Type::b32);
    a.refuse_if(bytes && next >= a.operand_count());
    a.instruction.option = bytes ? expects_bytes : *what == 3 ? drops : plain_arrive;
    a.instruction.handler = &mbarrier_arrive;
    return;
  }
  a.destination_at(0, a.written(0), Type::pred);
  a.address_at(barrier_place, a.written(1));
  a.source_at(2, a.written(2), parity ? Type::b32 : Type::b64);
  a.instruction.option = parity ? 1 : 0;
  a.instruction.handler = &test_wait;
}

// ---- st.async and red.async: values on their way to another block's shared memory, counted by its mbarrier.
// Operands: 0 address, 1 to 4 values, 5 mbarrier.

constexpr std::size_t async_barrier_place = 5;

using Combine = void (*)(std::byte* there, const std::byte* data);

template <class Function, class T>
void combine(std::byte* there, const std::byte* data) {
  T old{};
  T value{};
  std::memcpy(&old, there, sizeof old);
  std::memcpy(&value, data, sizeof value);
  value = Function{}(old, value);
  std::memcpy(there, &value, sizeof value);
}

using Increment = decltype([](std::uint32_t old, std::uint32_t most) { return old >= most ? 0 : old + 1; });
using Decrement = decltype([](std::uint32_t old, std::uint32_t most) {
  return old == 0 || old > most ? most : old - 1;
});

struct Reduction {
  std::string_view name;
  Type type;
  Combine combine;
};
constexpr std::array reductions{
    Reduction{"add", Type::u32, &combine<std::plus<>, std::uint32_t>},
    Reduction{"add", Type::s32, &combine<std::plus<>, std::uint32_t>},
    Reduction{"add", Type::u64, &combine<std::plus<>, std::uint64_t>},
    Reduction{"min", Type::u32, &combine<Least, std::uint32_t>},
    Reduction{"min", Type::s32, &combine<Least, std::int32_t>},
    Reduction{"max", Type::u32, &combine<Most, std::uint32_t>},
    Reduction{"max", Type::s32, &combine<Most, std::int32_t>},
    Reduction{"inc", Type::u32, &combine<Increment, std::uint32_t>},
    Reduction{"dec", Type::u32, &combine<Decrement, std::uint32_t>},
    Reduction{"and", Type::b32, &combine<std::bit_and<>, std::uint32_t>},
    Reduction{"or", Type::b32, &combine<std::bit_or<>, std::uint32_t>},
    Reduction{"xor", Type::b32, &combine<std::bit_xor<>, std::uint32_t>},
};
/// In `option`: 0 a store, n the reduction n - 1.

void send(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const Combine combines = instruction.option == 0 ? nullptr : reductions.at(instruction.option - 1U).combine;
  const std::size_t bytes = instruction.access_bytes;
  const std::size_t each = bytes / instruction.vector;
  // The bytes arrive with a release at the scope of the cluster.
  Launch& launch = warp.block.launch;
  const std::uint32_t sender = launch.order.add(warp.knowledge(true, Scope::cluster));
  for_each_lane(lanes, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    std::byte* data = nullptr;
    const AccessKind kind = combines == nullptr ? AccessKind::store : AccessKind::atomic;
    const Region to = locate(warp, instruction, bit(lane), instruction.operands[0], kind, data);
    const auto offset = static_cast<std::size_t>(data - to.data);
    std::byte* mbarrier = nullptr;
    const Instruction at_barrier =
        at_address(instruction, MemorySpace::shared, instruction.more_immediates[0], 8);
    const Region barrier = locate(warp, at_barrier, bit(lane), instruction.operands[async_barrier_place],
                                  AccessKind::load, mbarrier);
    if (barrier.owner != to.owner) {
      fault(warp, lane, FaultKind::illegal_address,
            "an asynchronous store whose mbarrier is in the shared memory of another block than its address");
    }
    const auto barrier_offset = static_cast<std::size_t>(mbarrier - barrier.data);
    if (barrier.shadow->races_with_write(barrier_offset, warp.stamp_of(lane, true),
                                         warp.race_order(barrier.owner))) {
      suspect(warp, lane, FaultKind::race,
              "race: an asynchronous store whose mbarrier another thread initialised, with nothing that "
              "orders the two (a fence.mbarrier_init before the cluster's barrier does)");
    }
    if (combines == nullptr) {
      if (to.owner->in_flight.contains_any(offset, bytes)) {
        fault(warp, lane, FaultKind::race,
              "an asynchronous store to shared memory into which another one is on its way");
      }
      bool other_wrote = false;
      if (to.shadow->write(offset, bytes, warp.stamp_of(lane, false), warp.race_order(to.owner),
                           other_wrote) != 0) {
        suspect(warp, lane, FaultKind::race,
                std::string("race: an asynchronous store to shared memory that another thread ") +
                    (other_wrote ? "wrote" : "read") + ", with nothing that orders the two");
      }
    } else if (!to.written->contains(offset, bytes)) {
      suspect(warp, lane, FaultKind::not_written,
              "an asynchronous reduction in shared memory that nobody has written yet");
    }
    Flight flight{to.owner, offset, std::vector<std::byte>(bytes), combines};
    for (std::size_t i = 0; i < instruction.vector; ++i) {
      const auto* values = warp.lanes_of<std::byte>(instruction.operands[1 + i]);
      std::memcpy(flight.data.data() + i * each, values + l * each, each);
    }
    to.owner->in_flight.add(offset, bytes);
    ++to.owner->flights;
    to.owner->arrivals.push_back({barrier_offset, std::move(flight), nullptr, 0, 0, sender});
  });
}

/// st.async{.weak}.shared::cluster.mbarrier::complete_tx::bytes{.v2}.b32 [a], value, [mbarrier]; red.async the same with an
/// operation.
void assemble_send(Assembler& a) {
  a.refuse_if(!a.take("async") || !a.take("mbarrier::complete_tx::bytes") || a.operand_count() != 3);
  (void)a.take("weak");
  (void)a.take("relaxed");
  (void)a.take("cluster");
  (void)a.take("shared::cluster");
  const auto vector = a.take_one_of({"v2", "v4"});
  const std::size_t count = vector ? std::size_t{2} << *vector : 1;
  const Type type = a.take_type();
  a.refuse_if(size_of(type) != 4 && size_of(type) != 8);
  if (a.opcode() == "red") {
    const auto* const found = std::find_if(reductions.begin(), reductions.end(), [&](const Reduction& any) {
      return any.type == type && a.has(any.name);
    });
    a.refuse_if(found == reductions.end() || vector || !a.take(found->name));
    a.instruction.option = static_cast<std::uint8_t>(found - reductions.begin() + 1);
  }
  const WrittenOperand& values = a.written(1);
  const bool is_vector = values.kind == WrittenOperand::Kind::vector;
  a.refuse_if((is_vector ? values.elements.size() : 1) != count);
  for (std::size_t i = 0; i < count; ++i) a.source_at(1 + i, is_vector ? values.elements[i] : values, type);
  a.instruction.space = MemorySpace::shared;
  a.instruction.vector = static_cast<std::uint8_t>(count);
  a.instruction.access_bytes = static_cast<std::uint8_t>(count * size_of(type));
  address_at(a, 0, 0, 0);
  address_at(a, async_barrier_place, 2, 1);
  a.instruction.counted_as = InstructionClass::async_store;
  a.instruction.handler = &send;
}

// ---- Clusters

/// Operands: 0 result, 1 address, 2 rank.
template <class T>
void mapa(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const T* addresses = warp.lanes_of<T>(instruction.operands[1]);
  const auto* ranks = warp.lanes_of<std::uint32_t>(instruction.operands[2]);
  T* to = warp.lanes_of<T>(instruction.operands[0]);
  for_each_lane(lanes, [&](int lane) {
    if (ranks[lane] >= warp.block.cluster->blocks.size()) {
      fault(warp, lane, FaultKind::illegal_address,
            "there is no block " + std::to_string(ranks[lane]) + " in a cluster of " +
                std::to_string(warp.block.cluster->blocks.size()));
    }
    constexpr T own = (T{1} << cluster_rank_shift) - 1;
    constexpr T window = sizeof(T) == 8 ? static_cast<T>(shared_window) : 0;
    to[lane] = window | (addresses[lane] & own) | static_cast<T>(ranks[lane] + 1) << cluster_rank_shift;
  });
}
void assemble_mapa(Assembler& a) {
  (void)a.take("shared::cluster");
  const Type type = a.take_type();
  a.operands({type, type, Type::b32});
  a.instruction.handler = size_of(type) == 8 ? &mapa<std::uint64_t> : &mapa<std::uint32_t>;
  a.refuse_if(size_of(type) < 4);
}

template <class T>
void get_rank(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const T* addresses = warp.lanes_of<T>(instruction.operands[1]);
  const std::uint32_t own = warp.block.rank;
  for_lanes(warp.lanes_of<std::uint32_t>(instruction.operands[0]), lanes, [=](int lane) {
    const auto rank = static_cast<std::uint32_t>(addresses[lane]) >> cluster_rank_shift;
    return rank == 0 ? own : rank - 1;
  });
}
void assemble_getctarank(Assembler& a) {
  (void)a.take("shared::cluster");
  const Type type = a.take_type();
  a.operands({Type::b32, type});
  a.instruction.handler = size_of(type) == 8 ? &get_rank<std::uint64_t> : &get_rank<std::uint32_t>;
}

// ---- Kernels that begin before the one before has ended

void wait_for_kernel_before(Warp& warp, const Instruction& /*instruction*/, LaneMask /*lanes*/) {
  warp.waited_for_kernel_before = true;
}
void assemble_griddepcontrol(Assembler& a) {
  const auto what = a.take_one_of({"wait", "launch_dependents"});
  a.refuse_if(!what || a.operand_count() != 0);
  a.instruction.handler = *what == 0 ? &wait_for_kernel_before : &do_nothing;
}

constexpr std::array table{
    OpcodeEntry{"cp", &assemble_cp},
    OpcodeEntry{"mbarrier", &assemble_mbarrier},
    OpcodeEntry{"mapa", &assemble_mapa},
    OpcodeEntry{"getctarank", &assemble_getctarank},
    OpcodeEntry{"griddepcontrol", &assemble_griddepcontrol},
};

}  // namespace

void assemble_async_send(Assembler& assembler) {
  assemble_send(assembler);
}

OpcodeTable async_opcodes() {
  return {table.data(), table.data() + table.size()};
}

}  // namespace sim
