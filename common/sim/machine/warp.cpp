#include "common/sim/machine/warp.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <sstream>

#include "common/sim/machine/block.h"
#include "common/sim/machine/cluster.h"
#include "common/sim/machine/faults.h"
#include "common/sim/machine/lanes.h"
#include "common/sim/machine/registers.h"

namespace sim {
namespace {

constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

}  // namespace

Warp::Warp(Block& of, std::uint32_t first)
    : block(of), program(of.launch.program), first_thread(first), registers_(block.registers_of(*this)) {
  const Dim3& size = block.launch.configuration.block;
  const auto lanes = static_cast<std::uint32_t>(std::min<std::uint64_t>(size.count() - first, warp_size));
  existing = lanes == warp_size ? all_lanes : (1U << lanes) - 1;
  local_.resize(std::size_t{program.local_bytes} * warp_size, std::byte{0xff});
  bases_[static_cast<std::size_t>(Base::warp)] = registers_;
  bases_[static_cast<std::size_t>(Base::constants)] = const_cast<std::byte*>(program.constants.data());
  bases_[static_cast<std::size_t>(Base::block)] = block.area();
  std::byte* area = registers_;
  const auto put = [area](std::uint32_t offset, std::uint32_t lane, std::uint32_t value) {
    std::memcpy(area + offset + lane * sizeof value, &value, sizeof value);
  };
  put(warp_slot::always, 0, all_lanes);
  put(warp_slot::carry, 0, 0);
  constexpr std::uint32_t one = warp_size * sizeof(std::uint32_t);
  for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
    const std::uint32_t thread = first_thread + lane;
    put(warp_slot::warpid, lane, first_thread / warp_size);
    put(warp_slot::tid, lane, thread % size.x);
    put(warp_slot::tid + one, lane, thread / size.x % size.y);
    put(warp_slot::tid + 2 * one, lane, thread / size.x / size.y);
    put(warp_slot::laneid, lane, lane);
    const std::uint32_t equal = 1U << lane;
    const std::uint32_t less = equal - 1;
    put(warp_slot::lanemasks, lane, equal);
    put(warp_slot::lanemasks + one, lane, less);
    put(warp_slot::lanemasks + 2 * one, lane, less | equal);
    put(warp_slot::lanemasks + 3 * one, lane, ~(less | equal));
    put(warp_slot::lanemasks + 4 * one, lane, ~less);
  }
}

/// Registers stay as an earlier block left them: PTX writes each before it reads it.
void Warp::start() {
  alive = existing;
  ready_.assign(1, {0, existing, 0});
  frames_.clear();
  unknown_.clear();
  waiting_.clear();
  forget_order();
  proxy_fence_time = 0;
  waited_for_kernel_before = false;
  cluster_phase = 0;
  copies = {};
}

LaneMask& Warp::carry() const {
  return *reinterpret_cast<LaneMask*>(bases_[static_cast<std::size_t>(Base::warp)] + warp_slot::carry);
}

InstructionCounters& Warp::counters() {
  return block.launch.counters[pc];
}

void Warp::give_way() {
  turn_ -= instructions_left_;
  instructions_left_ = 0;
}

std::uint64_t Warp::clock() const {
  return block.launch.instructions + turn_ - instructions_left_;
}

void Warp::poll() {
  if (++polls_ >= polls_per_turn) give_way();
}

void Warp::poll(const Instruction& reading, std::size_t address, LaneMask lanes) {
  poll();
  const Operand& operand = reading.operands.at(address);
  const auto lane = static_cast<std::size_t>(first_lane(lanes));
  polled_address_ = operand.bytes == sizeof(std::uint64_t) ? lanes_of<std::uint64_t>(operand)[lane]
                                                           : lanes_of<std::uint32_t>(operand)[lane];
  polled_address_ += static_cast<std::uint64_t>(reading.immediate);
  polled_space_ = reading.space;
}

std::string Warp::polled() const {
  if (polled_space_ == MemorySpace::local) return "memory";
  if (polled_space_ == MemorySpace::shared) return "shared memory at byte " + std::to_string(polled_address_);
  const std::uint64_t address = block.launch.memory.without_alias(polled_address_);
  const Allocation* of = block.launch.memory.find(address);
  std::ostringstream text;
  text << "memory at 0x" << std::hex << address;
  if (of != nullptr)
    text << std::dec << ", byte " << address - of->begin << " of " << of->bytes << " (" << of->what << ")";
  if (of != nullptr && block.launch.order.has_several_devices()) text << " of device " << of->device;
  return text.str();
}

// ---- Order

void Warp::order() {
  last_warp_barrier_ = block.launch.next_time();
}

void Warp::fence(Scope scope) {
  const Stamp now = block.launch.next_time();
  for (std::size_t reached = 0; reached <= static_cast<std::size_t>(scope); ++reached) {
    fence_times.at(reached) = block.fence_times.at(reached) = now;
  }
}

void Warp::forget_order() {
  acquired.clear();
  last_warp_barrier_ = 0;
  fence_times = {};
}

Stamp Warp::stamp_of(int lane, bool strong) const {
  return block.launch.memory.now() | (strong ? stamp_strong : 0) |
         (first_thread + static_cast<std::uint32_t>(lane));
}

RaceOrder Warp::race_order(const Block* owner_of_shared) const {
  const Launch& launch = block.launch;
  const Stamp launch_begin = waited_for_kernel_before ? launch.order_begin : launch.dependent_begin;
  return {&launch.order,
          block.id,
          static_cast<std::uint32_t>(block.warps.size()),
          owner_of_shared != nullptr ? owner_of_shared->begin : launch_begin,
          block.turn_begin,
          block.last_barrier,
          last_warp_barrier_,
          &block.acquired,
          &acquired,
          launch.alone && block.turn_begin == block.first_turn_begin};
}

Knowledge Warp::knowledge(bool releases, Scope scope) const {
  Knowledge known{block.id, first_thread / warp_size, {}, {}, block.acquired.list()};
  const Stamp now = releases ? block.launch.next_time() : 0;
  for (std::size_t distance = 0; distance <= static_cast<std::size_t>(scope); ++distance) {
    known.of_warp.at(distance) = releases ? now : fence_times.at(distance);
    if (known.of_warp.at(distance) == 0) continue;
    // Each warp may have had its fence before the barrier.
    known.of_block.at(distance) =
        releases ? block.last_barrier : std::min(block.last_barrier, block.fence_times.at(distance));
  }
  known.earlier.insert(known.earlier.end(), acquired.list().begin(), acquired.list().end());
  return known;
}

// ---- Running

void Warp::add_ready(const LaneGroup& group) {
  auto place = ready_.begin();
  while (place != ready_.end() && comes_before(group, *place)) ++place;
  if (place != ready_.end() && place->pc == group.pc && place->frame == group.frame) {
    place->lanes |= group.lanes;
  } else {
    ready_.insert(place, group);
  }
}

// ---- Calls

std::uint32_t Warp::enter(std::uint32_t parent, std::uint32_t return_pc) {
  const Frame wanted{parent, return_pc};
  for (std::size_t number = frames_.size(); number > 0; --number) {
    if (frames_[number - 1] == wanted) return static_cast<std::uint32_t>(number);
  }
  frames_.push_back(wanted);
  return static_cast<std::uint32_t>(frames_.size());
}

void Warp::leave(std::uint32_t left) {
  const auto is_there = [left](const auto& lanes) { return lanes.frame == left; };
  if (left == frames_.size() && std::none_of(ready_.begin(), ready_.end(), is_there) &&
      std::none_of(waiting_.begin(), waiting_.end(), is_there)) {
    frames_.pop_back();
  }
}

void Warp::copy_local(const std::vector<Call::Copy>& copies_of_call, LaneMask lanes) {
  for (const Call::Copy& copy : copies_of_call) {
    for_each_lane(lanes, [&](int lane) {
      std::memmove(local_of(lane) + copy.to, local_of(lane) + copy.from, copy.bytes);
    });
  }
}

bool Warp::comes_before(const LaneGroup& a, const LaneGroup& b) const {
  if (a.frame == b.frame) return a.pc < b.pc;
  // Parents have lower numbers, so that going up from the higher number ends where the two have parted.
  // There, lanes in a call come between the call and the code that follows it.
  std::uint64_t a_place = std::uint64_t{a.pc} * 2;
  std::uint64_t b_place = std::uint64_t{b.pc} * 2;
  for (std::uint32_t a_frame = a.frame, b_frame = b.frame; a_frame != b_frame;) {
    std::uint32_t& higher = a_frame > b_frame ? a_frame : b_frame;
    (a_frame > b_frame ? a_place : b_place) = std::uint64_t{frame_of(higher).return_pc} * 2 - 1;
    higher = frame_of(higher).parent;
  }
  return a_place < b_place;
}

std::uint32_t Warp::stop_in(std::uint32_t of_frame) const {
  if (ready_.empty()) return nowhere;
  const LaneGroup& next = ready_.back();
  std::uint32_t stop = next.pc;
  std::uint32_t at = next.frame;
  for (; at > of_frame; at = frame_of(at).parent) stop = frame_of(at).return_pc;
  return at == of_frame ? stop : nowhere;
}

// ----

void Warp::run(std::uint64_t instructions) {
  block.launch.instructions += turn_ - instructions_left_;  // of the turn before
  turn_ = instructions;
  instructions_left_ = instructions;
  polls_ = 0;
  for (;;) {
    while (!ready_.empty() && instructions_left_ > 0) {
      const LaneGroup group = ready_.back();
      ready_.pop_back();
      run_group(group);
    }
    if (!ready_.empty() || waiting_.empty()) return;
    const auto is_warp_sync = [](const WaitingLanes& waiting) { return waiting.what == WaitFor::warp; };
    if (std::none_of(waiting_.begin(), waiting_.end(), is_warp_sync)) return;
    resolve_waiting_warp_syncs();
  }
}

template <bool follows_unknown>
std::uint32_t Warp::run_straight(std::uint32_t at, std::uint32_t stop, LaneMask lanes) {
  const Instruction* instruction = program.code.data() + at;
  std::uint64_t* executed = block.launch.executed.data() + at;
  for (; at < stop && instructions_left_ > 0 && instruction->control == Control::none;
       ++at, ++instruction, ++executed) {
    ++*executed;
    --instructions_left_;
    const LaneMask active = lanes_that_execute(*instruction, lanes);
    if (active == 0) continue;
    pc = at;
    if (follows_unknown) follow_unknown(*instruction, active);
    instruction->handler(*this, *instruction, active);
  }
  return at;
}

// ---- Unknown values

Warp::Unknown Warp::unknown_of(const Operand& operand) const {
  if (operand.base != Base::warp || operand.bytes == 0) return {};
  const auto found = std::find_if(unknown_.begin(), unknown_.end(),
                                  [&](const Unknown& unknown) { return unknown.offset == operand.offset; });
  return found != unknown_.end() ? *found : Unknown{};
}

LaneMask Warp::unknown_lanes_of(const Operand& operand) const {
  return unknown_of(operand).lanes;
}

void Warp::set_unknown_lanes(const Operand& operand, LaneMask written, const Unknown& now) {
  for (auto before = unknown_.begin(); before != unknown_.end(); ++before) {
    if (before->offset != operand.offset) continue;
    before->lanes &= ~written;
    if (now.lanes != 0) *before = {operand.offset, before->lanes | now.lanes, now.shuffle};
    if (before->lanes == 0) unknown_.erase(before);
    return;
  }
  if (now.lanes != 0) unknown_.push_back({operand.offset, now.lanes, now.shuffle});
}

void Warp::shuffled(const Instruction& shuffle, LaneMask lanes, LaneMask unknown) {
  set_unknown_lanes(shuffle.operands[0], lanes, {0, unknown, pc});
}

void Warp::follow_unknown(const Instruction& instruction, LaneMask lanes) {
  if ((instruction.results & more_results) != 0) {
    unknown_.clear();
    return;
  }
  Unknown used;
  const auto use = [&](const Operand& operand, LaneMask by) {
    const Unknown unknown = unknown_of(operand);
    if ((unknown.lanes & by) == 0) return;
    used.lanes |= unknown.lanes & by;
    used.shuffle = unknown.shuffle;
  };
  if (instruction.selects) {
    const LaneMask choice = mask_of(instruction.operands[3]);
    use(instruction.operands[1], lanes & choice);
    use(instruction.operands[2], lanes & ~choice);
  } else {
    for (std::size_t i = 0; i < max_operands; ++i) {
      if ((instruction.results >> i & 1U) == 0) use(instruction.operands[i], lanes);
    }
  }
  const bool accesses = instruction.access_bytes != 0 || instruction.counted_as == InstructionClass::atomic;
  if (accesses && used.lanes != 0 && instruction.space != MemorySpace::local) {
    suspect(*this, first_lane(used.lanes), FaultKind::shuffle,
            "uses what a shuffle read from a lane that took no part in it, which may be anything; the "
            "shuffle is at " +
                program.describe_location(program.location_of[used.shuffle], ", called from "));
  }
  if (accesses) used.lanes = 0;
  for (std::size_t i = 0; i < max_operands; ++i) {
    if ((instruction.results >> i & 1U) != 0) set_unknown_lanes(instruction.operands[i], lanes, used);
  }
}

void Warp::run_group(LaneGroup group) {
  const Instruction* const code = program.code.data();
  frame = group.frame;
  std::uint32_t stop = stop_in(frame);
  LaneMask lanes = group.lanes;
  std::uint32_t at = group.pc;
  for (;;) {
    at = unknown_.empty() ? run_straight<false>(at, stop, lanes) : run_straight<true>(at, stop, lanes);
    if (at >= stop || instructions_left_ == 0) break;
    const Instruction& instruction = code[at];
    ++block.launch.executed[at];
    --instructions_left_;
    const LaneMask active = lanes_that_execute(instruction, lanes);
    InstructionCounters& counted = block.launch.counters[at];
    counted.taken |= active != 0;
    counted.passed |= active != lanes;
    if (active == 0) {
      ++at;
      continue;
    }
    const LaneMask others = lanes & ~active;
    if (instruction.control == Control::branch) {
      if (others == 0) {
        at = instruction.target;
        continue;
      }
      // Split: the lanes at the lower program counter go first, the others wait for them there.
      add_ready({instruction.target, active, frame});
      add_ready({at + 1, others, frame});
      return;
    }
    pc = at;
    if (instruction.control == Control::call || instruction.control == Control::ret) {
      const std::uint32_t before = frame;
      if (others != 0) add_ready({at + 1, others, frame});
      if (instruction.control == Control::call) {
        copy_local(program.calls[static_cast<std::size_t>(instruction.immediate)].arguments, active);
        frame = enter(frame, at + 1);
        at = instruction.target;
      } else {
        at = frame_of(frame).return_pc;
        frame = frame_of(frame).parent;
        copy_local(program.calls[static_cast<std::size_t>(code[at - 1].immediate)].results, active);
        leave(before);
      }
      lanes = active;
      stop = stop_in(frame);
      continue;
    }
    if (!unknown_.empty() && instruction.counted_as != InstructionClass::shuffle) {
      follow_unknown(instruction, active);
    }
    if (instruction.control == Control::warp_sync && others == 0 &&
        complete_lanes(instruction, active) == active) {
      instruction.handler(*this, instruction, active);
      ++at;
      continue;
    }
    if (instruction.control == Control::cluster_wait && others == 0 && block.cluster->has_passed(*this)) {
      ++at;
      continue;
    }
    if (others != 0) add_ready({at + 1, others, frame});
    if (instruction.control == Control::exit) {
      alive &= ~active;
      ++block.launch.progress;
      block.cluster->complete_barrier();
    } else if (instruction.control == Control::cluster_wait) {
      waiting_.push_back({at, active, WaitFor::cluster_barrier, 0, 0, frame});
    } else if (instruction.control == Control::barrier) {
      arrive_at_barrier(instruction, active);
    } else {
      arrive_at_warp_sync(instruction, active);
    }
    return;
  }
  add_ready({at, lanes, frame});
}

bool Warp::goes_round(std::uint64_t most_instructions) {
  const std::vector<LaneGroup> ready = ready_;
  const std::vector<std::byte> registers(registers_, registers_ + program.register_bytes);
  const std::vector<Frame> frames = frames_;
  const std::uint64_t progress = block.launch.progress;
  for (std::uint64_t executed = 0; executed < most_instructions; ++executed) {
    run(1);
    if (ready_.empty() || polls_ > 0 || block.launch.progress != progress) return false;
    if (ready_ == ready && frames_ == frames && std::equal(registers.begin(), registers.end(), registers_)) {
      return true;
    }
  }
  return false;
}

// ---- Instructions that several lanes execute together

/// Those of the arrived lanes whose whole mask has arrived; lanes that have exited are not waited for.
LaneMask Warp::complete_lanes(const Instruction& instruction, LaneMask arrived) const {
  const Operand& mask = instruction.operands[max_operands - 1];
  const auto* masks = lanes_of<LaneMask>(mask);
  LaneMask different = 0;
  if (mask.base != Base::constants) {
    for (int lane = 1; lane < warp_size; ++lane) different |= masks[lane] ^ masks[0];
  }
  if (different == 0) return (masks[0] & alive & ~arrived) == 0 ? arrived : 0;
  LaneMask complete = 0;
  for_each_lane(arrived, [&](int lane) {
    const LaneMask needed = masks[lane] & alive;
    if ((needed & ~arrived) == 0) complete |= bit(lane);
  });
  return complete;
}

void Warp::arrive_at_warp_sync(const Instruction& instruction, LaneMask lanes) {
  LaneMask arrived = lanes;
  WaitingLanes here;
  if (take_waiting(
          [this](const WaitingLanes& waiting) {
            return waiting.what == WaitFor::warp && waiting.pc == pc && waiting.frame == frame;
          },
          here)) {
    arrived |= here.lanes;
  }
  const LaneMask complete = complete_lanes(instruction, arrived);
  if (complete != 0) {
    instruction.handler(*this, instruction, complete);
    add_ready({pc + 1, complete, frame});
  }
  if (arrived != complete) waiting_.push_back({pc, arrived & ~complete, WaitFor::warp, 0, 0, frame});
}

/// No lane of the warp can go on, and some wait for others of the warp: those others may have exited since.
void Warp::resolve_waiting_warp_syncs() {
  const std::vector<WaitingLanes> all = waiting_;
  for (const WaitingLanes& waiting : all) {
    if (waiting.what != WaitFor::warp) continue;
    pc = waiting.pc;
    frame = waiting.frame;
    arrive_at_warp_sync(program.code[pc], 0);
  }
  if (!ready_.empty()) return;
  for (const WaitingLanes& waiting : waiting_) {
    if (waiting.what != WaitFor::warp) continue;
    pc = waiting.pc;
    const int lane = first_lane(waiting.lanes);
    const auto* masks = lanes_of<LaneMask>(program.code[pc].operands[max_operands - 1]);
    const LaneMask absent = masks[lane] & alive & ~waiting.lanes;
    suspect(*this, lane, FaultKind::shuffle,
            "warp-wide operation names " + describe_lanes(absent) +
                ", which wait elsewhere and never come: the mask must name exactly the lanes that take part");
    WaitingLanes alone;
    frame = waiting.frame;
    take_waiting(
        [this](const WaitingLanes& any) {
          return any.what == WaitFor::warp && any.pc == pc && any.frame == frame;
        },
        alone);
    program.code[pc].handler(*this, program.code[pc], alone.lanes);
    return add_ready({pc + 1, alone.lanes, frame});
  }
}

// ---- The block's barriers

void Warp::arrive_at_barrier(const Instruction& instruction, LaneMask lanes) {
  const int lane = first_lane(lanes);
  const std::uint32_t barrier = lanes_of<std::uint32_t>(instruction.operands[0])[lane];
  const std::uint32_t expected = lanes_of<std::uint32_t>(instruction.operands[1])[lane];
  if (barrier >= block_barriers) {
    fault(*this, lane, FaultKind::barrier,
          "there is no barrier " + std::to_string(barrier) + ", only 0 to 15");
  }
  for (WaitingLanes& waiting : waiting_) {
    if (waiting.what == WaitFor::block_barrier && waiting.pc == pc && waiting.frame == frame &&
        waiting.barrier == barrier) {
      waiting.lanes |= lanes;
      return;
    }
  }
  waiting_.push_back({pc, lanes, WaitFor::block_barrier, barrier, expected, frame});
}

void execute_unknown(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  fault(warp, first_lane(lanes), FaultKind::unknown_instruction,
        "the simulator does not know the instruction " +
            warp.program.unknown.at(static_cast<std::size_t>(instruction.immediate)));
}

}  // namespace sim
