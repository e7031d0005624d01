// A warp: its registers, and the places of its lanes. The handlers of instructions take it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/sim/machine/async.h"
#include "common/sim/machine/counting.h"
#include "common/sim/machine/races.h"
#include "common/sim/ptx/program.h"

namespace sim {

class Block;

/// Lanes that stand at the same instruction.
struct LaneGroup {
  std::uint32_t pc = 0;
  LaneMask lanes = 0;
  std::uint32_t frame = 0;  ///< of which call; 0: in the kernel itself
  friend bool operator==(const LaneGroup&, const LaneGroup&) = default;
};

/// A call that lanes are in. Lanes that were called from different places do not meet before they have returned.
struct Frame {
  std::uint32_t parent = 0;
  std::uint32_t return_pc = 0;
  friend bool operator==(const Frame&, const Frame&) = default;
};

enum class WaitFor : std::uint8_t { warp, block_barrier, cluster_barrier };

/// Lanes that wait at an instruction.
struct WaitingLanes {
  std::uint32_t pc = 0;
  LaneMask lanes = 0;
  WaitFor what = WaitFor::warp;
  std::uint32_t barrier = 0;           ///< which of the block's
  std::uint32_t expected_threads = 0;  ///< 0: all of the block
  std::uint32_t frame = 0;
};

class Warp {
 public:
  Warp(Block& of, std::uint32_t first);

  Block& block;
  const Program& program;
  const std::uint32_t first_thread;
  LaneMask existing = 0;    ///< fewer than 32 in the last warp of a block whose size is not a multiple of 32
  LaneMask alive = 0;       ///< existing and not exited
  std::uint32_t pc = 0;     ///< of the instruction that is being executed
  std::uint32_t frame = 0;  ///< and the call that it is in

  // ---- For the handlers

  /// The values of an operand, one per lane.
  template <class T>
  T* lanes_of(const Operand& operand) const {
    return reinterpret_cast<T*>(bases_[static_cast<std::size_t>(operand.base)] + operand.offset);
  }
  /// A predicate operand.
  LaneMask& mask_of(const Operand& operand) const { return *lanes_of<LaneMask>(operand); }
  /// Sets a predicate of these lanes.
  void set_mask(const Operand& operand, LaneMask lanes, LaneMask values) const {
    LaneMask& to = mask_of(operand);
    to = (to & ~lanes) | (values & lanes);
  }
  [[nodiscard]] LaneMask& carry() const;
  std::byte* local_of(int lane) {
    return local_.data() + static_cast<std::size_t>(lane) * program.local_bytes;
  }
  InstructionCounters& counters();

  [[nodiscard]] bool knows_all() const { return unknown_.empty(); }
  /// Lanes whose value of an operand is unknown: a shuffle read it from a lane that took no part.
  [[nodiscard]] LaneMask unknown_lanes_of(const Operand& operand) const;
  /// After a shuffle of `lanes`: `unknown` are those that read an unknown value.
  void shuffled(const Instruction& shuffle, LaneMask lanes, LaneMask unknown);

  /// For instructions by which a warp may be waiting for another one: after some of them the others get a turn.
  void poll();
  /// For those that read: operands[address] of the lanes.
  void poll(const Instruction& reading, std::size_t address, LaneMask lanes);
  /// The place that it read last while it polled: "shared memory at byte 8"; "memory" when it did not read.
  [[nodiscard]] std::string polled() const;
  /// Instructions that the launch has executed: goes on while a warp runs, and means nothing about time.
  [[nodiscard]] std::uint64_t clock() const;
  /// Ends the warp's turn.
  void give_way();

  // ---- Order

  /// Orders everything that the warp's lanes have done before everything that they do from now on.
  void order();
  /// Their accesses so far become known to a thread that reads the next write of one of them, if both are
  /// strong.
  void fence(Scope scope);
  void forget_order();
  [[nodiscard]] Stamp stamp_of(int lane, bool strong) const;
  [[nodiscard]] RaceOrder race_order(const Block* owner_of_shared) const;
  /// The knowledge that a strong write of this scope passes on. It is that of all earlier accesses if the write `releases`, and that
  /// of the accesses before a fence if it does not.
  [[nodiscard]] Knowledge knowledge(bool releases, Scope scope) const;
  Acquired acquired;                      ///< since the block's last barrier
  Stamps4 fence_times{};                  ///< of its last fence that reached so far
  Stamp proxy_fence_time = 0;             ///< of its last fence.proxy.async
  bool waited_for_kernel_before = false;  ///< griddepcontrol.wait
  std::uint64_t cluster_phase = 0;        ///< of the cluster's barrier at which it arrived last; 0: at none

  // ---- Copies that are on their way
  AsyncCopies copies;

  // ---- For the block

  void start();
  /// Runs until no lane can go on, or the turn is over.
  void run(std::uint64_t instructions);
  [[nodiscard]] bool is_ready() const { return !ready_.empty(); }
  /// Whether its turn ended because it seems to wait.
  [[nodiscard]] bool was_polling() const { return polls_ >= polls_per_turn; }
  [[nodiscard]] const std::vector<LaneGroup>& ready() const { return ready_; }
  [[nodiscard]] const std::vector<WaitingLanes>& waiting() const { return waiting_; }
  /// Takes one out of those that wait; false when there is none.
  template <class Predicate>
  bool take_waiting(Predicate predicate, WaitingLanes& taken);
  /// Makes lanes ready; joins those that are there.
  void add_ready(const LaneGroup& lanes);
  /// Whether it comes back to exactly its present state, and would do so for ever unless another warp changes
  /// memory.
  [[nodiscard]] bool goes_round(std::uint64_t most_instructions);

 private:
  static constexpr std::uint32_t polls_per_turn = 32;
  /// A register whose values in these lanes come from the shuffle at that place.
  struct Unknown {
    std::uint32_t offset = 0;
    LaneMask lanes = 0;
    std::uint32_t shuffle = 0;
  };

  /// Runs lanes until they wait, have exited, are split, or reach the program counter of other lanes.
  void run_group(LaneGroup group);
  /// Runs them up to `stop`, the end of the turn, or an instruction that is more than a call of its handler. Gives where.
  template <bool follows_unknown>
  std::uint32_t run_straight(std::uint32_t at, std::uint32_t stop, LaneMask lanes);
  /// Before an instruction other than a shuffle: its results are unknown in lanes whose operands are unknown. Storing them
  /// is suspicious. Comparisons with them are not followed: code may look at them before it knows that they are of no use.
  void follow_unknown(const Instruction& instruction, LaneMask lanes);
  /// Without lanes where all is known.
  [[nodiscard]] Unknown unknown_of(const Operand& operand) const;
  void set_unknown_lanes(const Operand& operand, LaneMask written, const Unknown& now);
  /// Those of the lanes whose predicate is true.
  [[nodiscard]] LaneMask lanes_that_execute(const Instruction& instruction, LaneMask lanes) const {
    const LaneMask predicate = *reinterpret_cast<const LaneMask*>(registers_ + instruction.predicate);
    return lanes & (predicate ^ instruction.negate);
  }
  /// The frame of a call from `parent`.
  std::uint32_t enter(std::uint32_t parent, std::uint32_t return_pc);
  /// Forgets a frame that no lane is in any more.
  void leave(std::uint32_t left);
  void copy_local(const std::vector<Call::Copy>& copies, LaneMask lanes);
  [[nodiscard]] const Frame& frame_of(std::uint32_t number) const { return frames_[number - 1]; }
  /// In the order of the text as if each call were replaced by the function's body.
  [[nodiscard]] bool comes_before(const LaneGroup& a, const LaneGroup& b) const;
  /// The place at which lanes of a frame, which come before all ready lanes, would pass the next of the ready
  /// lanes.
  [[nodiscard]] std::uint32_t stop_in(std::uint32_t of_frame) const;
  /// At an instruction that needs all lanes of a mask together: runs it for those that are complete, and lets the
  /// others wait.
  void arrive_at_warp_sync(const Instruction& instruction, LaneMask lanes);
  [[nodiscard]] LaneMask complete_lanes(const Instruction& instruction, LaneMask arrived) const;
  void resolve_waiting_warp_syncs();
  void arrive_at_barrier(const Instruction& instruction, LaneMask lanes);

  std::array<std::byte*, 3> bases_{};  ///< by Base
  std::vector<LaneGroup> ready_;       ///< descending by place: the last one runs next
  std::vector<Frame> frames_;          ///< the first has the number 1; parents have lower numbers
  std::vector<WaitingLanes> waiting_;
  std::uint64_t turn_ = 0;               ///< instructions of the turn, at most ...
  std::uint64_t instructions_left_ = 0;  ///< ... and those that are left
  std::uint32_t polls_ = 0;              ///< in this turn
  std::uint64_t polled_address_ = 0;
  MemorySpace polled_space_ = MemorySpace::local;  ///< local: it did not read
  Stamp last_warp_barrier_ = 0;
  std::byte* registers_;
  std::vector<std::byte> local_;
  std::vector<Unknown> unknown_;
};

template <class Predicate>
bool Warp::take_waiting(Predicate predicate, WaitingLanes& taken) {
  for (auto here = waiting_.begin(); here != waiting_.end(); ++here) {
    if (!predicate(*here)) continue;
    taken = *here;
    waiting_.erase(here);
    return true;
  }
  return false;
}

/// The handler of an instruction that is in no table.
void execute_unknown(Warp& warp, const Instruction& instruction, LaneMask lanes);

}  // namespace sim
