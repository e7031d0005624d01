#include "common/sim/machine/launch.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <system_error>
#include <thread>

#include "common/sim/machine/access.h"
#include "common/sim/machine/block.h"
#include "common/sim/machine/cluster.h"

namespace sim {
namespace {

/// The limits on rounds, and on turns in all, in which blocks only poll and nothing changes: after them, nothing
/// is expected to change any more. (Polling loops count and wait longer each time, so that it cannot be proven.)
constexpr std::uint64_t most_idle_rounds = 10;
constexpr std::uint64_t most_idle_turns = 2'000;

std::optional<std::mt19937_64> seeded() {
  const char* seed = std::getenv("SIM_SEED");
  if (seed == nullptr || *seed == '\0') return std::nullopt;
  return std::mt19937_64(std::strtoull(seed, nullptr, 10));
}

unsigned wanted_threads() {
  constexpr unsigned most = 64;
  const char* text = std::getenv("SIM_THREADS");
  const unsigned wanted = text == nullptr || *text == '\0'
                              ? std::thread::hardware_concurrency()
                              : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
  return std::clamp(wanted, 1U, most);
}

/// Some blocks of a launch, on a thread of their own.
struct Share {
  Share(LaunchConfiguration of, const GlobalMemory& whole) : configuration(std::move(of)), memory(&whole) {
    if (configuration.check == Check::warn) configuration.check = Check::stop;  // said when it comes again
  }
  LaunchConfiguration configuration;
  GlobalMemory memory;
  Launch launch{configuration, memory};
};

}  // namespace

Stamp DeviceWorks::next_time(GlobalMemory& memory) {
  const Stamp before = memory.now();
  const Stamp now = memory.next_time();
  if (now < before) {
    order.forget_turns(now);
    for (Launch* launch : launches) launch->forget_order(now);
    // All have begun at this moment; from now on only the launch that has its turn acts.
    for (Launch* launch : launches) {
      if (launch->running != nullptr) launch->running->begin_turn(memory.next_time());
    }
  }
  return memory.now();
}

std::uint64_t DeviceWorks::begin(DeviceWork work, GlobalMemory& memory) {
  if (launches.empty() && order.is_known(work.before)) order.clear();
  work.begin = next_time(memory);
  return order.begin_work(std::move(work));
}

std::uint64_t DeviceWorks::see(std::uint64_t block, Allocation& allocation, std::size_t offset,
                               std::size_t bytes, bool writes, GlobalMemory& memory) {
  RaceShadow* shadow = allocation.shadow();
  if (shadow == nullptr || bytes == 0) return LaunchOrder::no_block;
  const Stamp now = next_time(memory);
  order.begin_turn(block, now);
  const DeviceWork& work = order.work_of(block);
  Acquired acquired;
  for (const std::uint32_t knowledge : work.before.knowledge(order.generation())) acquired.add(knowledge);
  const RaceOrder own{&order, block, 1, order.begin_of(work, work.begin), now, 0, 0, &acquired, &acquired};
  bool other_wrote = false;
  const Stamp other =
      writes ? shadow->write(offset, bytes, now, own, other_wrote) : shadow->read(offset, bytes, now, own);
  return other == 0 ? LaunchOrder::no_block : order.block_at(other);
}

Launch::Launch(const LaunchConfiguration& of, GlobalMemory& global_memory, DeviceWorks* of_several_devices)
    : configuration(of),
      program(*of.program),
      memory(global_memory),
      executed(of.program->code.size()),
      counters(of.program->code.size()),
      observers(access_observers()),
      order(of_several_devices != nullptr ? of_several_devices->order : own_order_),
      random(seeded()),
      several_devices_(of_several_devices) {}

Launch::~Launch() {
  if (several_devices_ != nullptr) std::erase(several_devices_->launches, this);
}

std::size_t Launch::shared_bytes() const {
  constexpr std::size_t align = dynamic_shared_align;
  const std::size_t before_dynamic = (program.static_shared_bytes + align - 1) / align * align;
  return before_dynamic + configuration.dynamic_shared_bytes;
}

Dim3 Launch::index_of(std::uint64_t block) const {
  const Dim3& grid = configuration.grid;
  return {static_cast<std::uint32_t>(block % grid.x), static_cast<std::uint32_t>(block / grid.x % grid.y),
          static_cast<std::uint32_t>(block / grid.x / grid.y)};
}

Stamp Launch::next_time() {
  if (several_devices_ != nullptr) return several_devices_->next_time(memory);
  const Stamp before = memory.now();
  const Stamp now = memory.next_time();
  if (now < before) {  // time has restarted: earlier accesses are forgotten
    order.clear();
    forget_order(now);
    if (running != nullptr) running->begin_turn(memory.next_time());
  }
  return memory.now();
}

void Launch::forget_order(Stamp now) {
  forgot_ = true;
  order_begin = now;
  dependent_begin = now;
  knows.clear();
  learned.clear();
  for (const auto& cluster : live_) cluster->forget_order();
  for (const auto& cluster : spare_) {
    for (Block& block : cluster->blocks) block.shared_shadow.clear();
  }
}

void Launch::start(std::uint64_t number) {
  if (spare_.empty()) {
    live_.push_back(std::make_unique<Cluster>(*this));
  } else {
    live_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  live_.back()->start(number);  // it is live already: time may begin anew here
}

bool Launch::take_turn(std::size_t index) {
  bool done = true;
  for (Block& block : live_[index]->blocks) done = (block.done || block.run()) && done;
  if (!done) return false;
  spare_.push_back(std::move(live_[index]));
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
  ++progress;
  return true;
}

bool Launch::run_alone(std::uint64_t first, std::uint64_t end, const std::atomic<bool>& given_up) {
  constexpr std::uint64_t most_instructions_of_block = 10'000'000;
  begin();
  for (std::uint64_t number = first; number < end && !given_up; ++number) {
    patience = instructions + most_instructions_of_block;
    start(number);
    if (!take_turn(0) || forgot_) return false;
  }
  return true;
}

/// Independent blocks can run at the same time. Whether they are independent is checked afterwards: each thread has
/// its own view of memory, and if one wrote bytes that another one read or wrote, or if anything was wrong, all of
/// it is discarded and the blocks run in order, on one thread. So the result does not depend on the threads.
bool Launch::run_rest_on_threads() {
  if (program.blocks_meet || random || configuration.dependent || configuration.grid_workspace != 0 ||
      configuration.cluster.count() != 1) {
    return false;
  }
  constexpr std::uint64_t least_of_thread = 8'000;  // instructions; below, a thread costs more than it brings
  const std::uint64_t blocks = configuration.grid.count();
  const std::uint64_t left =
      std::accumulate(executed.begin(), executed.end(), std::uint64_t{0}) * (blocks - 1);
  const std::uint64_t threads =
      std::min({std::uint64_t{wanted_threads()}, blocks - 1, left / least_of_thread});
  if (threads < 2) return false;
  std::deque<Share> shares;
  std::vector<GlobalMemory*> views;
  for (std::uint64_t i = 0; i < threads; ++i) {
    shares.emplace_back(configuration, memory);
    views.push_back(&shares.back().memory);
  }
  std::atomic<bool> given_up = false;
  const auto run_share = [&](std::uint64_t i) {
    const auto bound = [&](std::uint64_t share) { return 1 + (blocks - 1) * share / threads; };
    try {
      if (!shares[i].launch.run_alone(bound(i), bound(i + 1), given_up)) given_up = true;
    } catch (...) {  // whatever it is comes again, in order
      given_up = true;
    }
  };
  try {
    std::vector<std::jthread> others;
    for (std::uint64_t i = 1; i < threads; ++i) others.emplace_back(run_share, i);
    run_share(0);
  } catch (const std::system_error&) {  // no more threads
    given_up = true;
  }
  if (given_up || !memory.join(views)) {
    program.blocks_meet = true;
    return false;
  }
  for (const Share& share : shares) {
    for (std::size_t pc = 0; pc < counters.size(); ++pc) {
      executed[pc] += share.launch.executed[pc];
      counters[pc] += share.launch.counters[pc];
    }
    for (std::uint32_t moment = share.memory.moments(); moment > 0; --moment) next_time();
  }
  return true;
}

void Launch::run() {
  begin();
  while (take_round()) {
    if (started_ == 1 && live_.empty() && run_rest_on_threads()) return;
    if (is_idle()) report_endless();
  }
}

void Launch::begin() {
  memory.begin_launch();
  order_begin = memory.launch_begin();
  dependent_begin = configuration.dependent ? memory.launch_before() : order_begin;
  order.set_grid({configuration.grid, configuration.cluster});
}

void Launch::begin(DeviceWork work) {
  begin();
  work.what = program.demangled;
  work.device = configuration.device;
  work.grid = {configuration.grid, configuration.cluster};
  first_block_id = several_devices_->begin(std::move(work), memory);
  several_devices_->launches.push_back(this);
  const DeviceWork& begun = order.work_of(first_block_id);
  order_begin = order.begin_of(begun, begun.begin);
  dependent_begin = order_begin;
  alone = order_begin == begun.begin;
  if (!alone) knows = begun.before.knowledge(order.generation());
}

void Launch::teach(Clock& clock) {
  std::sort(learned.begin(), learned.end());
  learned.erase(std::unique(learned.begin(), learned.end()), learned.end());
  if (!learned.empty())
    clock.learn(order.generation(), order.add(Knowledge::until(first_block_id, 0, std::move(learned))));
}

bool Launch::is_idle() const {
  return idle_rounds_ > most_idle_rounds && idle_rounds_ * live_.size() > most_idle_turns;
}

bool Launch::seems_idle() const {
  constexpr std::uint64_t enough_idle_rounds = 2;
  return idle_rounds_ > enough_idle_rounds;
}

void Launch::report_endless() {
  live_.front()->report_endless();
}

bool Launch::take_round() {
  const std::uint64_t size = configuration.cluster.count();
  const std::uint64_t clusters = configuration.grid.count() / size;
  // A block runs until it waits for others, and only then the next ones are started, doubling the number each time:
  // most launches need memory for only one block. With a seed, many blocks exist from the start, in any order.
  constexpr std::uint64_t mixed_blocks = 16;
  const std::uint64_t most = std::max<std::uint64_t>(configuration.resident_blocks / size, 1);
  const std::uint64_t before = progress;
  for (std::size_t index = 0; index < live_.size();) {
    if (random) std::swap(live_[index], live_[index + (*random)() % (live_.size() - index)]);
    if (!take_turn(index)) ++index;
  }
  idle_rounds_ = progress == before ? idle_rounds_ + 1 : 0;
  std::uint64_t starting = std::max<std::uint64_t>(live_.size(), random ? mixed_blocks : 1);
  for (; starting > 0 && started_ < clusters && live_.size() < most; --starting) {
    start(started_++);
    idle_rounds_ = 0;
    if (!random) take_turn(live_.size() - 1);
  }
  return started_ < clusters || !live_.empty();
}

}  // namespace sim
