#include "common/sim/machine/block.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/sim/machine/cluster.h"
#include "common/sim/machine/faults.h"
#include "common/sim/machine/lanes.h"
#include "common/sim/machine/registers.h"

namespace sim {
namespace {

/// A warp that runs this long without waiting gives the others a turn.
constexpr std::uint64_t instructions_per_turn = 1'000'000;

/// By chance as often a few instructions as hundreds: a race that shows only where a block stops between two accesses needs
/// short turns, and a kernel long ones.
std::uint64_t turn_length(Launch& launch) {
  if (!launch.random) return instructions_per_turn;
  const std::uint64_t most = std::uint64_t{2} << (*launch.random)() % 10;
  return 1 + (*launch.random)() % most;
}

/// The number of rounds without any change after which the warps of a block are checked for endless loops.
constexpr std::uint64_t idle_rounds_before_a_look = 8;

void fill(std::byte* area, std::uint32_t offset, std::uint32_t value) {
  for (std::size_t lane = 0; lane < warp_size; ++lane) {
    std::memcpy(area + offset + lane * sizeof value, &value, sizeof value);
  }
}
void fill3(std::byte* area, std::uint32_t offset, const Dim3& value) {
  constexpr std::uint32_t one = warp_size * sizeof(std::uint32_t);
  fill(area, offset, value.x);
  fill(area, offset + one, value.y);
  fill(area, offset + 2 * one, value.z);
}

}  // namespace

Block::Block(Launch& of)
    : launch(of),
      shared_bytes(of.shared_bytes()),
      // Not next to it, so that accesses past the end are seen.
      reserved_shared((shared_bytes + 2 * reserved_shared_bytes) / reserved_shared_bytes *
                      reserved_shared_bytes),
      shared(of.program.uses_reserved_shared ? reserved_shared + reserved_shared_bytes : shared_bytes),
      shared_written(shared.size()),
      shared_shadow(shared.size()),
      in_flight(shared.size()),
      being_sent(shared.size()),
      area_(block_slot::bytes) {
  const LaunchConfiguration& configuration = launch.configuration;
  const std::uint64_t most_warps = (configuration.block.count() + warp_size - 1) / warp_size;
  registers_ = launch.memory.scratch.take(most_warps * launch.program.register_bytes + register_align);
  for (std::uint32_t first = 0; first < configuration.block.count(); first += warp_size) {
    warps.emplace_back(*this, first);
  }
  fill3(area(), block_slot::ntid, configuration.block);
  fill3(area(), block_slot::nctaid, configuration.grid);
  fill(area(), block_slot::nwarpid, static_cast<std::uint32_t>(warps.size()));
  fill(area(), block_slot::nsmid, 1);
  fill(area(), block_slot::dynamic_shared, configuration.dynamic_shared_bytes);
  fill(area(), block_slot::total_shared, static_cast<std::uint32_t>(shared_bytes));
  fill(area(), block_slot::reserved_shared, static_cast<std::uint32_t>(reserved_shared));
  fill(area(), block_slot::grid_workspace, static_cast<std::uint32_t>(configuration.grid_workspace >> 32U));
  fill(area(), block_slot::grid_workspace + warp_size * sizeof(std::uint32_t),
       static_cast<std::uint32_t>(configuration.grid_workspace));
}

std::byte* Block::registers_of(const Warp& warp) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(registers_.data.get());
  const std::size_t unaligned = begin % register_align;
  const std::size_t aligned = unaligned == 0 ? 0 : register_align - unaligned;
  const std::size_t number = warp.first_thread / warp_size;
  return registers_.data.get() + aligned + number * launch.program.register_bytes;
}

void Block::start(std::uint64_t block_number, Cluster& of_cluster, std::uint32_t rank_in_cluster) {
  number = block_number;
  id = launch.first_block_id + number;
  index = launch.index_of(number);
  cluster = &of_cluster;
  rank = rank_in_cluster;
  done = false;
  first_turn_begin = 0;
  read_by_others = false;
  initialised.clear();
  fenced.clear();
  unseen_by_copies.clear();
  in_flight.clear();
  being_sent.clear();
  flights = 0;
  arrivals.clear();
  const Dim3 size = launch.cluster_size();
  const auto put3 = [this](std::uint32_t which, const Dim3& value) {
    constexpr std::uint32_t three = sizeof(std::uint32_t) * warp_size * 3;
    fill3(area(), block_slot::cluster + which * three, value);
  };
  const Dim3& grid = launch.configuration.grid;
  put3(0, {index.x / size.x, index.y / size.y, index.z / size.z});
  put3(1, {grid.x / size.x, grid.y / size.y, grid.z / size.z});
  put3(2, {index.x % size.x, index.y % size.y, index.z % size.z});
  put3(3, size);
  fill(area(), block_slot::cluster_ctarank, rank);
  fill(area(), block_slot::cluster_nctarank, static_cast<std::uint32_t>(size.count()));
  fill3(area(), block_slot::ctaid, index);
  std::fill(shared.begin(), shared.end(), std::byte{0xff});
  shared_written.clear();
  if (launch.program.uses_reserved_shared) {  // a GPU has set it to 0
    std::fill_n(shared.begin() + static_cast<std::ptrdiff_t>(reserved_shared), reserved_shared_bytes,
                std::byte{0});
    shared_written.add(reserved_shared, reserved_shared_bytes);
  }
  acquired.clear();
  for (const std::uint32_t knowledge : launch.knows) acquired.add(knowledge);
  fence_times = {};
  arrived.fill(0);
  for (Warp& warp : warps) warp.start();
  order();
  begin = last_barrier;
}

void Block::order() {
  last_barrier = launch.next_time();
  for (Warp& warp : warps) {
    acquired.add(warp.acquired);
    warp.acquired.clear();
  }
  // Every block that learns from this one gets the list, at each of many barriers.
  constexpr std::size_t long_list = 64;
  if (const auto& list = acquired.list(); list.size() > long_list) {
    acquired.replace(launch.order.add(Knowledge::until(id, last_barrier, list)));
  }
}

void Block::begin_turn(Stamp now) {
  turn_begin = now;
  launch.order.begin_turn(id, now);
}

void Block::forget_order() {
  turn_begin = launch.memory.now();
  begin = turn_begin;
  last_barrier = turn_begin;
  fence_times = {};
  shared_shadow.clear();
  acquired.clear();
  launch.order.begin_turn(id, turn_begin);
  for (Warp& warp : warps) warp.forget_order();
  for (Arrival& arrival : arrivals) arrival.sender = LaunchOrder::none;
}

void Block::pass_cluster_barrier() {
  for (Warp& warp : warps) {
    WaitingLanes waiting;
    while (cluster->has_passed(warp) &&
           warp.take_waiting([](const WaitingLanes& any) { return any.what == WaitFor::cluster_barrier; },
                             waiting)) {
      warp.add_ready({waiting.pc + 1, waiting.lanes, waiting.frame});
    }
  }
}

void Block::finish() {
  done = true;
  cluster->complete_barrier();
  if (launch.order.has_several_devices()) {
    for (const Warp& warp : warps) acquired.add(warp.acquired);
    launch.learned.insert(launch.learned.end(), acquired.list().begin(), acquired.list().end());
  }
  if (!read_by_others) return;
  const Warp& warp = warps.front();
  RaceOrder order_of_end = warp.race_order(this);
  order_of_end.turn_begin = turn_begin;
  const Stamp other = shared_shadow.find_other(order_of_end);
  if (other == 0) return;
  fault_of_thread(
      *this, warp.pc, 0, FaultKind::race,
      "a block returns while another one of its cluster, " +
          describe_point(launch.index_of(launch.order.block_at(other) - launch.first_block_id)) +
          ", may still have access to its shared memory (a cluster barrier before the end is missing)");
}

bool Block::run() {
  launch.running = this;
  const bool has_ended = take_turn();
  launch.running = nullptr;
  return has_ended;
}

bool Block::take_turn() {
  begin_turn(launch.next_time());
  if (first_turn_begin == 0) first_turn_begin = turn_begin;
  std::vector<Warp*> turns;
  for (Warp& warp : warps) turns.push_back(&warp);
  std::uint64_t idle_rounds = 0;
  for (;;) {
    if (launch.random) std::shuffle(turns.begin(), turns.end(), *launch.random);
    if (launch.instructions > launch.patience) return false;
    const std::uint64_t before = launch.progress;
    pass_cluster_barrier();
    bool any_ready = false;
    bool any_waiting = false;
    bool any_in_cluster = false;
    bool all_poll = true;
    for (Warp* warp : turns) {
      if (warp->is_ready()) {
        warp->run(turn_length(launch));
        all_poll = all_poll && (!warp->is_ready() || warp->was_polling());
      }
      any_ready = any_ready || warp->is_ready();
      for (const WaitingLanes& waiting : warp->waiting()) {
        any_in_cluster = any_in_cluster || waiting.what == WaitFor::cluster_barrier;
        any_waiting = true;
      }
    }
    if (!any_ready && !any_waiting) {
      finish();
      return true;
    }
    if (any_waiting && release_barriers()) {
      ++launch.progress;
      continue;
    }
    if (!any_ready && !any_in_cluster) report_stuck_barrier();
    if (any_in_cluster && launch.progress != before) continue;
    if (all_poll) return false;
    if (launch.random && (*launch.random)() % 4 == 0) return false;
    idle_rounds = launch.progress == before ? idle_rounds + 1 : 0;
    if (idle_rounds == idle_rounds_before_a_look && std::all_of(turns.begin(), turns.end(), [](Warp* warp) {
          return !warp->is_ready() || warp->goes_round(instructions_per_turn);
        })) {
      report_endless(false);
    }
  }
}

/// Lets those go on whose barrier everyone has reached. False when there are none.
bool Block::release_barriers() {
  struct Arrived {
    std::uint32_t threads = 0;
    std::uint32_t expected = 0;
  };
  std::array<Arrived, block_barriers> here{};
  std::uint32_t alive = 0;
  for (const Warp& warp : warps) {
    alive += count_lanes(warp.alive);
    for (const WaitingLanes& waiting : warp.waiting()) {
      if (waiting.what != WaitFor::block_barrier) continue;
      here.at(waiting.barrier).threads += count_lanes(waiting.lanes);
      here.at(waiting.barrier).expected = waiting.expected_threads;
    }
  }
  bool released = false;
  for (std::uint32_t barrier = 0; barrier < block_barriers; ++barrier) {
    const auto [threads, expected] = here.at(barrier);
    if (threads == 0 || threads + arrived.at(barrier) < (expected != 0 ? expected : alive)) continue;
    release_barrier(barrier);
    released = true;
  }
  return released;
}

void Block::release_barrier(std::uint32_t barrier) {
  const auto is_here = [barrier](const WaitingLanes& waiting) {
    return waiting.what == WaitFor::block_barrier && waiting.barrier == barrier;
  };
  // The reduction of barrier.red over the block, and what must hold where all threads are expected.
  reduced_true_threads = 0;
  reduced_threads = 0;
  for (const Warp& warp : warps) {
    const WaitingLanes* first = nullptr;
    for (const WaitingLanes& waiting : warp.waiting()) {
      if (!is_here(waiting)) continue;
      if (first != nullptr && (first->pc != waiting.pc || first->frame != waiting.frame)) {
        fault_of_thread(*this, waiting.pc,
                        warp.first_thread + static_cast<std::uint32_t>(first_lane(waiting.lanes)),
                        FaultKind::barrier,
                        "barrier in divergent code: " + describe_lanes(first->lanes) +
                            " of the same warp wait at another one, at " +
                            launch.program.describe_location(launch.program.location_of[first->pc]));
      }
      first = &waiting;
      const Instruction& instruction = launch.program.code[waiting.pc];
      reduced_threads += count_lanes(waiting.lanes);
      if (instruction.handler != nullptr) {
        reduced_true_threads += static_cast<std::uint32_t>(
            std::popcount(waiting.lanes & (warp.mask_of(instruction.operands[2]) ^
                                           static_cast<LaneMask>(instruction.immediate))));
      }
    }
    const LaneMask exited = warp.existing & ~warp.alive;
    if (exited == 0) continue;
    for (const Warp& any : warps) {
      for (const WaitingLanes& waiting : any.waiting()) {
        if (!is_here(waiting) || waiting.expected_threads != 0) continue;
        suspect_thread(
            *this, waiting.pc, any.first_thread + static_cast<std::uint32_t>(first_lane(waiting.lanes)),
            FaultKind::barrier,
            "barrier not reached by all threads of the block: " +
                describe_thread(*this, warp.first_thread + static_cast<std::uint32_t>(first_lane(exited))) +
                " has returned without it");
      }
    }
  }
  order();
  arrived.at(barrier) = 0;
  bool counted = false;
  for (Warp& warp : warps) {
    WaitingLanes waiting;
    if (!warp.take_waiting(is_here, waiting)) continue;
    warp.pc = waiting.pc;
    if (!counted) ++warp.counters().lanes;
    counted = true;
    const Instruction& instruction = launch.program.code[waiting.pc];
    if (instruction.handler != nullptr) instruction.handler(warp, instruction, waiting.lanes);
    warp.add_ready({waiting.pc + 1, waiting.lanes, waiting.frame});
  }
}

void Block::report_stuck_barrier() const {
  for (const Warp& warp : warps) {
    for (const WaitingLanes& waiting : warp.waiting()) {
      const std::string why = waiting.what == WaitFor::cluster_barrier
                                  ? "the cluster's barrier is never reached by all of its threads"
                                  : "barrier " + std::to_string(waiting.barrier) +
                                        " is never reached by all the threads that it waits for: the others "
                                        "wait at a different one";
      fault_of_thread(*this, waiting.pc,
                      warp.first_thread + static_cast<std::uint32_t>(first_lane(waiting.lanes)),
                      FaultKind::barrier, why);
    }
  }
  throw Fault{FaultKind::barrier, "no thread of the block can go on"};
}

void Block::report_endless(bool waits) const {
  for (const Warp& warp : warps) {
    if (!warp.is_ready()) continue;
    const LaneGroup& group = warp.ready().back();
    const std::uint32_t thread = warp.first_thread + static_cast<std::uint32_t>(first_lane(group.lanes));
    fault_of_thread(
        *this, group.pc, thread, FaultKind::endless,
        waits
            ? "waits for ever: it reads " + warp.polled() + " again and again, which nobody writes any more" +
                  std::string(launch.configuration.grid_workspace == 0
                                  ? launch.order.has_several_devices()
                                        ? " (is it waiting for a block that has not started, or for a "
                                          "kernel that has not been launched?)"
                                        : " (is it waiting for a block that has not started?)"
                                  : "")
            : "endless loop: it comes back to the same instruction with the same registers");
  }
  report_stuck_barrier();
}

}  // namespace sim
