// A cluster: blocks that are there together, share their shared memory, and have a barrier of their own.
#pragma once

#include <cstdint>
#include <deque>

#include "common/sim/machine/block.h"
#include "common/sim/machine/launch.h"

namespace sim {

/// Addresses of shared memory have the rank of the block that they belong to in the upper bits, plus 1; without it they
/// are the block's own.
inline constexpr std::uint32_t cluster_rank_shift = 24;

class Cluster {
 public:
  explicit Cluster(Launch& launch);

  std::deque<Block> blocks;  // by rank; they stay where they are

  /// Begins anew as the cluster of that number.
  void start(std::uint64_t number);

  // ---- Its barrier
  /// `releases`: what the lanes did so far is known to all who pass the barrier.
  void arrive(Warp& warp, LaneMask lanes, bool releases);
  [[nodiscard]] bool has_passed(const Warp& warp) const { return phase_ != warp.cluster_phase; }
  /// Completes the phase if all threads that have not returned have arrived.
  void complete_barrier();
  void forget_order();

  [[noreturn]] void report_endless() const;

 private:
  /// All blocks know of each other what came before the last barrier, or at least that they have started.
  void make_known(bool releases);

  std::uint64_t phase_ = 1;
  std::uint64_t arrived_ = 0;  ///< threads
  bool releases_ = true;
};

}  // namespace sim
