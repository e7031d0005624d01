#include "common/sim/execution.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "common/sim/faults.h"
#include "common/sim/lanes.h"
#include "common/sim/registers.h"

namespace sim {
namespace {

/// A warp that runs this long without waiting gives the others a turn: it may spin until they write
/// something.
constexpr std::uint64_t instructions_per_turn = 1'000'000;

constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

std::uint32_t dynamic_begin(const Program& program) {
  return (program.static_shared_bytes + dynamic_shared_align - 1) / dynamic_shared_align *
         dynamic_shared_align;
}

std::size_t shared_bytes(const LaunchConfiguration& launch) {
  return std::size_t{dynamic_begin(*launch.program)} + launch.dynamic_shared_bytes;
}

void fill(std::byte* area, std::uint32_t offset, std::uint32_t value) {
  for (std::size_t lane = 0; lane < warp_size; ++lane) {
    std::memcpy(area + offset + lane * sizeof value, &value, sizeof value);
  }
}

std::vector<std::byte>& block_area() {
  static std::vector<std::byte> area(block_slot::bytes);
  return area;
}

}  // namespace

// ---- Warp

void Warp::add_ready(std::uint32_t pc, LaneMask lanes) {
  auto place = ready.begin();
  while (place != ready.end() && place->pc > pc) ++place;
  if (place != ready.end() && place->pc == pc) {
    place->lanes |= lanes;
  } else {
    ready.insert(place, {pc, lanes});
  }
}

// ---- Execution: order

Stamp next_time(GlobalMemory& memory) {
  static std::uint32_t time = 0;
  if (++time == latest_time) {
    memory.forget_races();
    time = 1;
  }
  return time << stamp_thread_bits;
}

Stamp Execution::stamp_of(int lane) const {
  return now | (warp->first_thread + static_cast<std::uint32_t>(lane));
}

void Execution::order_block() {
  const Stamp before = now;
  now = next_time(memory);
  if (now < before) shared_shadow.clear();
  last_block_barrier = now;
}

void Execution::order_warp() {
  const Stamp before = now;
  now = next_time(memory);
  if (now < before) {
    shared_shadow.clear();
    last_block_barrier = 0;
  }
  warp->last_warp_barrier = now;
}

LaneMask& Execution::carry() const {
  return *reinterpret_cast<LaneMask*>(bases[static_cast<std::size_t>(Base::warp)] + warp_slot::carry);
}

// ---- Execution: a block

Execution::Execution(const LaunchConfiguration& launch, GlobalMemory& global_memory)
    : configuration(launch),
      program(*launch.program),
      memory(global_memory),
      shared(shared_bytes(launch)),
      shared_written(shared.size()),
      shared_shadow(shared.size()),
      warps((launch.block.count() + warp_size - 1) / warp_size),
      counters(launch.program->code.size()) {
  bases[static_cast<std::size_t>(Base::constants)] = const_cast<std::byte*>(program.constants.data());
  bases[static_cast<std::size_t>(Base::block)] = block_area().data();
  std::byte* area = block_area().data();
  const auto fill3 = [area](std::uint32_t offset, const Dim3& value) {
    constexpr std::uint32_t one = warp_size * sizeof(std::uint32_t);
    fill(area, offset, value.x);
    fill(area, offset + one, value.y);
    fill(area, offset + 2 * one, value.z);
  };
  fill3(block_slot::ntid, launch.block);
  fill3(block_slot::nctaid, launch.grid);
  fill(area, block_slot::nwarpid, static_cast<std::uint32_t>(warps.size()));
  fill(area, block_slot::nsmid, 1);
  fill(area, block_slot::dynamic_shared, launch.dynamic_shared_bytes);
  fill(area, block_slot::total_shared, static_cast<std::uint32_t>(shared.size()));
  std::uint32_t first_thread = 0;
  const auto threads = static_cast<std::uint32_t>(launch.block.count());
  for (Warp& started : warps) {
    started.first_thread = first_thread;
    const std::uint32_t lanes = std::min<std::uint32_t>(threads - first_thread, warp_size);
    started.existing = lanes == warp_size ? all_lanes : (1U << lanes) - 1;
    first_thread += warp_size;
  }
}

void Execution::start_warp(Warp& started) {
  started.alive = started.existing;
  started.ready.assign(1, {0, started.existing});
  started.waiting.clear();
  started.last_warp_barrier = 0;
  if (!started.registers.empty()) return;  // of an earlier block: PTX writes registers before it reads them
  started.registers.resize(program.register_bytes);
  started.local.resize(std::size_t{program.local_bytes} * warp_size, std::byte{0xff});
  std::byte* area = started.registers.data();
  const auto put = [area](std::uint32_t offset, std::uint32_t lane, std::uint32_t value) {
    std::memcpy(area + offset + lane * sizeof value, &value, sizeof value);
  };
  put(warp_slot::always, 0, all_lanes);
  fill(area, warp_slot::warpid, started.first_thread / warp_size);
  const Dim3& block = configuration.block;
  for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
    constexpr std::uint32_t one = warp_size * sizeof(std::uint32_t);
    const std::uint32_t thread = started.first_thread + lane;
    put(warp_slot::tid, lane, thread % block.x);
    put(warp_slot::tid + one, lane, thread / block.x % block.y);
    put(warp_slot::tid + 2 * one, lane, thread / block.x / block.y);
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

void Execution::start_block(const Dim3& index) {
  block_index = index;
  std::byte* area = block_area().data();
  constexpr std::uint32_t one = warp_size * sizeof(std::uint32_t);
  fill(area, block_slot::ctaid, index.x);
  fill(area, block_slot::ctaid + one, index.y);
  fill(area, block_slot::ctaid + 2 * one, index.z);
  std::fill(shared.begin(), shared.end(), std::byte{0xff});
  shared_written.clear();
  order_block();
}

void Execution::enter(Warp& entered) {
  warp = &entered;
  bases[static_cast<std::size_t>(Base::warp)] = entered.registers.data();
}

void Execution::run_block(const Dim3& index) {
  start_block(index);
  for (Warp& started : warps) start_warp(started);
  for (;;) {
    bool any_ready = false;
    bool any_waiting = false;
    for (Warp& next : warps) {
      if (!next.ready.empty()) {
        enter(next);
        run_warp();
      }
      any_ready = any_ready || !next.ready.empty();
      any_waiting = any_waiting || !next.waiting.empty();
    }
    if (!any_ready && !any_waiting) return;
    if (any_waiting && !release_barriers() && !any_ready) report_stuck_barrier();
  }
}

// ---- Execution: a warp

void Execution::run_warp() {
  instructions_left = instructions_per_turn;
  for (;;) {
    while (!warp->ready.empty() && instructions_left > 0) {
      const LaneGroup group = warp->ready.back();
      warp->ready.pop_back();
      run_group(group);
    }
    if (!warp->ready.empty() || warp->waiting.empty()) return;
    const auto is_warp_sync = [](const WaitingLanes& waiting) { return !waiting.at_block_barrier; };
    if (std::none_of(warp->waiting.begin(), warp->waiting.end(), is_warp_sync)) return;
    resolve_waiting_warp_syncs();
  }
}

void Execution::run_group(LaneGroup group) {
  const Instruction* const code = program.code.data();
  InstructionCounters* const counted = counters.data();
  const std::byte* const registers = bases[static_cast<std::size_t>(Base::warp)];
  const std::uint32_t stop = warp->ready.empty() ? nowhere : warp->ready.back().pc;
  LaneMask lanes = group.lanes;
  std::uint32_t at = group.pc;
  const std::uint64_t most = instructions_left;
  std::uint64_t executed = 0;
  while (at < stop && executed < most) {
    const Instruction& instruction = code[at];
    ++counted[at].executed;
    ++executed;
    LaneMask predicate = 0;
    std::memcpy(&predicate, registers + instruction.predicate, sizeof predicate);
    const LaneMask active = lanes & (predicate ^ instruction.negate);
    if (instruction.control == Control::none) {
      if (active != 0) {
        pc = at;
        instruction.handler(*this, instruction, active);
      }
      ++at;
      continue;
    }
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
      instructions_left = most - executed;
      warp->add_ready(instruction.target, active);
      warp->add_ready(at + 1, others);
      return;
    }
    pc = at;
    if (instruction.control == Control::warp_sync && others == 0 &&
        complete_lanes(instruction, active) == active) {
      instruction.handler(*this, instruction, active);
      ++at;
      continue;
    }
    instructions_left = most - executed;
    if (others != 0) warp->add_ready(at + 1, others);
    if (instruction.control == Control::exit) {
      warp->alive &= ~active;
    } else if (instruction.control == Control::barrier) {
      arrive_at_barrier(instruction, active);
    } else {
      arrive_at_warp_sync(instruction, active);
    }
    return;
  }
  instructions_left = most - executed;
  warp->add_ready(at, lanes);
}

// ---- Execution: instructions that several lanes execute together

/// Of the arrived lanes those whose whole mask has arrived; lanes that have exited are not waited for.
LaneMask Execution::complete_lanes(const Instruction& instruction, LaneMask arrived) const {
  const Operand& mask = instruction.operands[max_operands - 1];
  const auto* masks = lanes_of<LaneMask>(mask);
  if (mask.base == Base::constants) return (masks[0] & warp->alive & ~arrived) == 0 ? arrived : 0;
  LaneMask complete = 0;
  for_each_lane(arrived, [&](int lane) {
    const LaneMask needed = masks[lane] & warp->alive;
    if ((needed & ~arrived) == 0) complete |= bit(lane);
  });
  return complete;
}

void Execution::arrive_at_warp_sync(const Instruction& instruction, LaneMask lanes) {
  auto here = std::find_if(warp->waiting.begin(), warp->waiting.end(), [this](const WaitingLanes& waiting) {
    return !waiting.at_block_barrier && waiting.pc == pc;
  });
  LaneMask arrived = lanes;
  if (here != warp->waiting.end()) {
    arrived |= here->lanes;
    warp->waiting.erase(here);
  }
  const LaneMask complete = complete_lanes(instruction, arrived);
  if (complete != 0) {
    instruction.handler(*this, instruction, complete);
    warp->add_ready(pc + 1, complete);
  }
  if (arrived != complete) warp->waiting.push_back({pc, arrived & ~complete, false, 0, 0});
}

/// No lane of the warp can go on, and some wait for others of the warp: those others may have exited since.
void Execution::resolve_waiting_warp_syncs() {
  const std::vector<WaitingLanes> all = warp->waiting;
  for (const WaitingLanes& waiting : all) {
    if (waiting.at_block_barrier) continue;
    pc = waiting.pc;
    arrive_at_warp_sync(program.code[pc], 0);
  }
  if (!warp->ready.empty()) return;
  for (const WaitingLanes& waiting : warp->waiting) {
    if (waiting.at_block_barrier) continue;
    pc = waiting.pc;
    const int lane = first_lane(waiting.lanes);
    const auto* masks = lanes_of<LaneMask>(program.code[pc].operands[max_operands - 1]);
    const LaneMask absent = masks[lane] & warp->alive & ~waiting.lanes;
    fault(*this, lane, FaultKind::shuffle,
          "warp-wide operation names " + describe_lanes(absent) +
              ", which wait elsewhere and never come: the mask must name exactly the lanes that take part");
  }
}

// ---- Execution: barriers of the block

void Execution::arrive_at_barrier(const Instruction& instruction, LaneMask lanes) {
  const int lane = first_lane(lanes);
  const std::uint32_t barrier = lanes_of<std::uint32_t>(instruction.operands[0])[lane];
  const std::uint32_t expected = lanes_of<std::uint32_t>(instruction.operands[1])[lane];
  if (barrier >= block_barriers) {
    fault(*this, lane, FaultKind::barrier,
          "there is no barrier " + std::to_string(barrier) + ", only 0 to 15");
  }
  for (WaitingLanes& waiting : warp->waiting) {
    if (waiting.at_block_barrier && waiting.pc == pc && waiting.barrier == barrier) {
      waiting.lanes |= lanes;
      return;
    }
  }
  warp->waiting.push_back({pc, lanes, true, barrier, expected});
}

/// Lets those go on whose barrier everyone has reached. False when there are none.
bool Execution::release_barriers() {
  struct Arrived {
    std::uint32_t threads = 0;
    std::uint32_t expected = 0;
  };
  std::array<Arrived, block_barriers> arrived{};
  std::uint32_t alive = 0;
  for (const Warp& other : warps) {
    alive += static_cast<std::uint32_t>(std::popcount(other.alive));
    for (const WaitingLanes& waiting : other.waiting) {
      if (!waiting.at_block_barrier) continue;
      Arrived& here = arrived.at(waiting.barrier);
      here.threads += static_cast<std::uint32_t>(std::popcount(waiting.lanes));
      here.expected = waiting.expected_threads;
    }
  }
  bool released = false;
  for (std::uint32_t barrier = 0; barrier < block_barriers; ++barrier) {
    const Arrived& here = arrived.at(barrier);
    if (here.threads == 0 || here.threads < (here.expected != 0 ? here.expected : alive)) continue;
    release_barrier(barrier);
    released = true;
  }
  return released;
}

void Execution::release_barrier(std::uint32_t barrier) {
  const auto is_here = [barrier](const WaitingLanes& waiting) {
    return waiting.at_block_barrier && waiting.barrier == barrier;
  };
  // The reduction of barrier.red over the block, and what must hold where all threads are expected.
  std::uint32_t true_threads = 0;
  std::uint32_t threads = 0;
  for (Warp& other : warps) {
    enter(other);
    const WaitingLanes* first = nullptr;
    for (const WaitingLanes& waiting : other.waiting) {
      if (!is_here(waiting)) continue;
      if (first != nullptr && first->pc != waiting.pc) {
        fault_of_thread(*this, waiting.pc,
                        other.first_thread + static_cast<std::uint32_t>(first_lane(waiting.lanes)),
                        FaultKind::barrier,
                        "barrier in divergent code: " + describe_lanes(first->lanes) +
                            " of the same warp wait at another one, at " +
                            program.describe_location(program.location_of[first->pc]));
      }
      first = &waiting;
      const Instruction& instruction = program.code[waiting.pc];
      threads += static_cast<std::uint32_t>(std::popcount(waiting.lanes));
      if (instruction.handler != nullptr) {
        true_threads += static_cast<std::uint32_t>(
            std::popcount(waiting.lanes &
                          (mask_of(instruction.operands[2]) ^ static_cast<LaneMask>(instruction.immediate))));
      }
    }
    const LaneMask exited = other.existing & ~other.alive;
    if (exited == 0) continue;
    for (const Warp& any : warps) {
      for (const WaitingLanes& waiting : any.waiting) {
        if (!is_here(waiting) || waiting.expected_threads != 0) continue;
        fault_of_thread(
            *this, waiting.pc, any.first_thread + static_cast<std::uint32_t>(first_lane(waiting.lanes)),
            FaultKind::barrier,
            "barrier not reached by all threads of the block: " +
                describe_thread(*this, other.first_thread + static_cast<std::uint32_t>(first_lane(exited))) +
                " has returned without it");
      }
    }
  }
  order_block();
  bool counted = false;
  for (Warp& other : warps) {
    enter(other);
    const auto here = std::find_if(other.waiting.begin(), other.waiting.end(), is_here);
    if (here == other.waiting.end()) continue;
    const WaitingLanes waiting = *here;
    other.waiting.erase(here);
    pc = waiting.pc;
    if (!counted) ++counters[pc].lanes;
    counted = true;
    const Instruction& instruction = program.code[pc];
    if (instruction.handler != nullptr) {
      reduced_true_threads = true_threads;
      reduced_threads = threads;
      instruction.handler(*this, instruction, waiting.lanes);
    }
    other.add_ready(pc + 1, waiting.lanes);
  }
}

void Execution::report_stuck_barrier() {
  for (const Warp& other : warps) {
    for (const WaitingLanes& waiting : other.waiting) {
      fault_of_thread(
          *this, waiting.pc, other.first_thread + static_cast<std::uint32_t>(first_lane(waiting.lanes)),
          FaultKind::barrier,
          "barrier " + std::to_string(waiting.barrier) +
              " is never reached by all the threads that it waits for: the others wait at a different one");
    }
  }
  throw Fault{FaultKind::barrier, "no thread of the block can go on"};
}

void execute_unknown(Execution& execution, const Instruction& instruction, LaneMask lanes) {
  fault(execution, first_lane(lanes), FaultKind::unknown_instruction,
        "the simulator does not know the instruction '" +
            execution.program.unknown.at(static_cast<std::size_t>(instruction.immediate)) + "'");
}

void run_grid(Execution& execution) {
  const Dim3& grid = execution.configuration.grid;
  Dim3 index;
  for (index.z = 0; index.z < grid.z; ++index.z) {
    for (index.y = 0; index.y < grid.y; ++index.y) {
      for (index.x = 0; index.x < grid.x; ++index.x) execution.run_block(index);
    }
  }
}

}  // namespace sim
