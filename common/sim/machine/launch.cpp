#include "common/sim/machine/launch.h"

#include <algorithm>
#include <cstdlib>

#include "common/sim/machine/access.h"
#include "common/sim/machine/block.h"
#include "common/sim/machine/cluster.h"

namespace sim {
namespace {

/// So often may all blocks have a turn, and so many turns in all, in which they only poll and nothing changes, before
/// nothing is taken to change any more. (Polling loops count and wait longer each time, so that it cannot be proven.)
constexpr std::uint64_t most_idle_rounds = 10;
constexpr std::uint64_t most_idle_turns = 2'000;

std::optional<std::mt19937_64> seeded() {
  const char* seed = std::getenv("SIM_SEED");
  if (seed == nullptr || *seed == '\0') return std::nullopt;
  return std::mt19937_64(std::strtoull(seed, nullptr, 10));
}

}  // namespace

Launch::Launch(const LaunchConfiguration& of, GlobalMemory& global_memory)
    : configuration(of),
      program(*of.program),
      memory(global_memory),
      counters(of.program->code.size()),
      observers(access_observers()),
      random(seeded()) {}

Launch::~Launch() = default;

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
  const Stamp before = memory.now();
  const Stamp now = memory.next_time();
  if (now < before) {  // time has begun anew: what came before is forgotten
    order.begin_launch(now, now);
    for (const auto& cluster : live_) {
      for (Block& block : cluster->blocks) block.forget_order();
    }
  }
  return now;
}

std::unique_ptr<Cluster> Launch::start(std::uint64_t number) {
  std::unique_ptr<Cluster> cluster;
  if (spare_.empty()) {
    cluster = std::make_unique<Cluster>(*this);
  } else {
    cluster = std::move(spare_.back());
    spare_.pop_back();
  }
  cluster->start(number);
  return cluster;
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

void Launch::run() {
  memory.begin_launch();
  order.begin_launch(memory.launch_begin(),
                     configuration.dependent ? memory.launch_before() : memory.launch_begin());
  const std::uint64_t size = configuration.cluster.count();
  const std::uint64_t clusters = configuration.grid.count() / size;
  std::uint64_t started = 0;
  std::uint64_t idle_rounds = 0;
  // A block runs until it waits for others, and only then the next ones are there beside it, as many again as there are:
  // most launches need no more memory than for one. With a seed many are there from the start, in any order.
  constexpr std::uint64_t mixed_blocks = 16;
  const std::uint64_t most = std::max<std::uint64_t>(configuration.resident_blocks / size, 1);
  while (started < clusters || !live_.empty()) {
    const std::uint64_t before = progress;
    for (std::size_t index = 0; index < live_.size();) {
      if (random) std::swap(live_[index], live_[index + (*random)() % (live_.size() - index)]);
      if (!take_turn(index)) ++index;
    }
    idle_rounds = progress == before ? idle_rounds + 1 : 0;
    std::uint64_t starting = std::max<std::uint64_t>(live_.size(), random ? mixed_blocks : 1);
    for (; starting > 0 && started < clusters && live_.size() < most; --starting) {
      live_.push_back(start(started++));
      idle_rounds = 0;
      if (!random) take_turn(live_.size() - 1);
    }
    if (idle_rounds > most_idle_rounds && idle_rounds * live_.size() > most_idle_turns)
      live_.front()->report_endless();
  }
}

}  // namespace sim
