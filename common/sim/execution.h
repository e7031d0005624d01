// The interpreter's state: one block of one launch at a time, one warp of it at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/sim/byte_set.h"
#include "common/sim/counting.h"
#include "common/sim/memory.h"
#include "common/sim/program.h"
#include "common/sim/races.h"

namespace sim {

struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
  [[nodiscard]] std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

inline constexpr std::uint32_t dynamic_shared_align = 16;
inline constexpr std::size_t block_barriers = 16;

/// Lanes that stand at the same instruction.
struct LaneGroup {
  std::uint32_t pc = 0;
  LaneMask lanes = 0;
};

/// Lanes that wait at an instruction.
struct WaitingLanes {
  std::uint32_t pc = 0;
  LaneMask lanes = 0;
  bool at_block_barrier = false;
  std::uint32_t barrier = 0;           ///< which of the block's
  std::uint32_t expected_threads = 0;  ///< 0: all of the block
};

struct Warp {
  std::uint32_t first_thread = 0;
  LaneMask existing = 0;         ///< fewer than 32 in the last warp of a block that is no multiple of 32
  LaneMask alive = 0;            ///< existing and not exited
  std::vector<LaneGroup> ready;  ///< descending by pc: the last one runs next
  std::vector<WaitingLanes> waiting;
  Stamp last_warp_barrier = 0;
  std::vector<std::byte> registers;
  std::vector<std::byte> local;

  /// Makes lanes ready at pc; joins those that are there.
  void add_ready(std::uint32_t pc, LaneMask lanes);
};

struct LaunchConfiguration {
  const Program* program = nullptr;
  Dim3 grid;
  Dim3 block;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;
};

/// What the handlers see.
struct Execution {
  Execution(const LaunchConfiguration& launch, GlobalMemory& global_memory);

  const LaunchConfiguration& configuration;
  const Program& program;
  GlobalMemory& memory;

  // ---- The current warp and its current instruction.
  std::array<std::byte*, 3> bases{};  ///< by Base
  Warp* warp = nullptr;
  std::uint32_t pc = 0;

  // ---- The current block.
  Dim3 block_index;
  std::vector<std::byte> shared;
  ByteSet shared_written;
  RaceShadow shared_shadow;
  std::vector<Warp> warps;
  Stamp now = 0;  ///< time only
  Stamp last_block_barrier = 0;
  std::uint32_t reduced_threads = 0;  ///< of the barrier.red that is being released: how many threads ...
  std::uint32_t reduced_true_threads = 0;  ///< ... and how many of them had a true predicate
  std::uint64_t instructions_left = 0;     ///< of the current warp's turn

  std::vector<InstructionCounters> counters;  ///< one per instruction

  /// The values of an operand, one per lane.
  template <class T>
  T* lanes_of(const Operand& operand) const {
    return reinterpret_cast<T*>(bases[static_cast<std::size_t>(operand.base)] + operand.offset);
  }
  /// A predicate operand.
  LaneMask& mask_of(const Operand& operand) const { return *lanes_of<LaneMask>(operand); }
  LaneMask& carry() const;
  std::byte* local_of(int lane) const {
    return warp->local.data() + static_cast<std::size_t>(lane) * program.local_bytes;
  }

  InstructionCounters& current_counters() { return counters[pc]; }
  [[nodiscard]] RaceOrder race_order() const { return {last_block_barrier, warp->last_warp_barrier}; }
  [[nodiscard]] Stamp stamp_of(int lane) const;

  // ---- Running
  void run_block(const Dim3& index);

  /// Everything that every thread of the block did so far comes before what any of them does from now on.
  void order_block();
  void order_warp();

 private:
  void start_block(const Dim3& index);
  void start_warp(Warp& started);
  void enter(Warp& entered);
  void run_warp();
  /// Runs lanes until they wait, have exited, are split, or reach the program counter of other lanes.
  void run_group(LaneGroup group);
  /// At an instruction that needs all lanes of a mask together: runs it for those that are complete, and lets
  /// the others wait. Gives the lanes that went on.
  void arrive_at_warp_sync(const Instruction& instruction, LaneMask lanes);
  [[nodiscard]] LaneMask complete_lanes(const Instruction& instruction, LaneMask arrived) const;
  void resolve_waiting_warp_syncs();
  void arrive_at_barrier(const Instruction& instruction, LaneMask lanes);
  bool release_barriers();
  void release_barrier(std::uint32_t barrier);
  [[noreturn]] void report_stuck_barrier();
};

/// The handler of an instruction that is in no table.
void execute_unknown(Execution& execution, const Instruction& instruction, LaneMask lanes);

/// Runs all blocks, one after the other. Throws Fault. The counters are complete up to there.
void run_grid(Execution& execution);

/// Time as the race shadows know it; begins anew when it has run out of bits.
Stamp next_time(GlobalMemory& memory);

}  // namespace sim
