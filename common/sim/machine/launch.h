// A launch of a kernel: its blocks, of which those that wait for one another are there together.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "common/sim/machine/counting.h"
#include "common/sim/machine/faults.h"
#include "common/sim/machine/memory.h"
#include "common/sim/machine/races.h"
#include "common/sim/ptx/program.h"

namespace sim {

struct Access;
class Block;
class Cluster;

struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
  [[nodiscard]] std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

inline constexpr std::uint32_t dynamic_shared_align = 16;

struct LaunchConfiguration {
  const Program* program = nullptr;
  Dim3 grid;
  Dim3 block;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;
  Dim3 cluster;                       ///< of blocks
  bool dependent = false;             ///< may start before the kernel before it has ended
  std::uint64_t resident_blocks = 1;  ///< that the simulated GPU holds at a time
  std::uint64_t grid_workspace = 0;   ///< of a cooperative launch: the address of its barrier
  Check check = Check::stop;
};

/// Sees every access to global and shared memory that is within bounds, before it is made.
class AccessObserver {
 public:
  AccessObserver() = default;
  AccessObserver(const AccessObserver&) = delete;
  AccessObserver& operator=(const AccessObserver&) = delete;
  virtual ~AccessObserver() = default;
  virtual void see(const Access& access) = 0;
};

class Launch {
 public:
  Launch(const LaunchConfiguration& of, GlobalMemory& global_memory);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch();

  /// Runs all blocks. Throws Fault. The counters are complete up to there.
  void run();
  /// Runs these blocks, one after the other. False when one of them waits for something, or seems to for ever.
  bool run_alone(std::uint64_t first, std::uint64_t end, const std::atomic<bool>& given_up);

  const LaunchConfiguration& configuration;
  const Program& program;
  GlobalMemory& memory;
  std::vector<InstructionCounters> counters;  ///< one per instruction
  std::vector<std::unique_ptr<AccessObserver>> observers;
  LaunchOrder order;
  std::uint64_t instructions = 0;              ///< executed by warps whose turn has ended: what %clock counts
  std::uint64_t patience = ~std::uint64_t{0};  ///< so many may there be before a block's turn ends
  std::uint64_t progress = 0;   ///< goes on when something happened that others may be waiting for
  Block* running = nullptr;     ///< the block that has its turn
  std::vector<Fault> warnings;  ///< with Check::warn, each once for an instruction ...
  std::set<std::pair<FaultKind, std::size_t>> warned;  ///< ... of these
  /// With SIM_SEED: in which order blocks and warps have their turns, and how long these are.
  std::optional<std::mt19937_64> random;

  /// The next moment, after all that happened.
  Stamp next_time();

  [[nodiscard]] std::size_t shared_bytes() const;
  [[nodiscard]] Dim3 index_of(std::uint64_t block) const;
  [[nodiscard]] const Dim3& cluster_size() const { return configuration.cluster; }

 private:
  std::unique_ptr<Cluster> start(std::uint64_t number);
  /// Gives each block of one of the live clusters a turn; true when all of them have ended.
  bool take_turn(std::size_t index);
  void begin();
  [[nodiscard]] std::uint64_t executed() const;
  /// After the first block. False, and nothing done, when these have to run in order.
  bool run_rest_on_threads();

  std::vector<std::unique_ptr<Cluster>> live_;  // most often a cluster is one block
  std::vector<std::unique_ptr<Cluster>> spare_;
  bool forgot_ = false;  ///< time began anew
};

}  // namespace sim
