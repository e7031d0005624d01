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
class Launch;

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
  unsigned device = 0;
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

/// The work of several devices, of which some may be under way together.
struct DeviceWorks {
  LaunchOrder order;
  std::vector<Launch*> launches;  ///< that are under way

  Stamp next_time(GlobalMemory& memory);
  /// Gives the number of its first block.
  std::uint64_t begin(DeviceWork work, GlobalMemory& memory);
  /// Records an access of a copy, whose only block this is. Gives the block of an access that it races with,
  /// or LaunchOrder::no_block.
  std::uint64_t see(std::uint64_t block, Allocation& allocation, std::size_t offset, std::size_t bytes,
                    bool writes, GlobalMemory& memory);
};

class Launch {
 public:
  /// `of_several_devices`: null where there is one device.
  Launch(const LaunchConfiguration& of, GlobalMemory& global_memory,
         DeviceWorks* of_several_devices = nullptr);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch();

  /// Runs all blocks. Throws Fault. The counters are complete up to there.
  void run();
  /// Runs these blocks, one after the other. False when one of them waits for something, or seems to for ever.
  bool run_alone(std::uint64_t first, std::uint64_t end, const std::atomic<bool>& given_up);
  /// The same in parts, between which other launches may have their turns: begin(), then take_round() until it is false.
  void begin();
  /// With several devices: `work` has its place in the order.
  void begin(DeviceWork work);
  /// At its end: adds the knowledge that its blocks have acquired to the clock.
  void teach(Clock& clock);
  bool take_round();
  /// All that it has done for a while is to poll: reason enough to lay it aside until others have done something ...
  [[nodiscard]] bool seems_idle() const;
  /// ... or for so long that nothing will change any more ...
  [[nodiscard]] bool is_idle() const;
  /// ... which may be over: another launch has done something.
  void wake() { idle_rounds_ = 0; }
  [[noreturn]] void report_endless();

  const LaunchConfiguration& configuration;
  const Program& program;
  GlobalMemory& memory;
  // One per instruction. The numbers of executions are apart from the other counters, so that the data that
  // every instruction touches is small.
  std::vector<std::uint64_t> executed;
  std::vector<InstructionCounters> counters;
  std::vector<std::unique_ptr<AccessObserver>> observers;
  LaunchOrder& order;
  Stamp order_begin = 0;                       ///< older stamps came before
  Stamp dependent_begin = 0;                   ///< order_begin before griddepcontrol.wait
  bool alone = true;                           ///< everything that is older than its begin came before
  std::vector<std::uint32_t> knows;            ///< before its first block begins
  std::vector<std::uint32_t> learned;          ///< by blocks that have ended
  std::uint64_t first_block_id = 0;            ///< see LaunchOrder::begin_work()
  std::uint64_t instructions = 0;              ///< executed by warps whose turn has ended: what %clock counts
  std::uint64_t patience = ~std::uint64_t{0};  ///< the number of instructions at which a block's turn ends
  std::uint64_t progress = 0;   ///< goes on when something happened that others may be waiting for
  Block* running = nullptr;     ///< the block that has its turn
  std::vector<Fault> warnings;  ///< with Check::warn, each once for an instruction ...
  std::set<std::pair<FaultKind, std::size_t>> warned;  ///< ... of these
  /// With SIM_SEED: in which order blocks and warps have their turns, and how long these are.
  std::optional<std::mt19937_64> random;

  /// The next moment, after all that happened.
  Stamp next_time();
  [[nodiscard]] bool is_of_several_devices() const { return several_devices_ != nullptr; }

  [[nodiscard]] std::size_t shared_bytes() const;
  [[nodiscard]] Dim3 index_of(std::uint64_t block) const;
  [[nodiscard]] const Dim3& cluster_size() const { return configuration.cluster; }
  /// Orders everything that any launch did before this moment before everything that follows.
  void forget_order(Stamp now);

 private:
  /// A cluster that then is the last of the live ones.
  void start(std::uint64_t number);
  /// Gives each block of one of the live clusters a turn; true when all of them have ended.
  bool take_turn(std::size_t index);
  /// After the first block. False, and nothing done, when these have to run in order.
  bool run_rest_on_threads();

  std::vector<std::unique_ptr<Cluster>> live_;  // most often a cluster is one block
  std::vector<std::unique_ptr<Cluster>> spare_;
  std::uint64_t started_ = 0;
  std::uint64_t idle_rounds_ = 0;
  bool forgot_ = false;  ///< time began anew
  LaunchOrder own_order_;
  DeviceWorks* several_devices_;
};

}  // namespace sim
