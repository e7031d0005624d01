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
  /// `releases`: the lanes' accesses so far become known to all that pass the barrier.
  void arrive(Warp& warp, LaneMask lanes, bool releases);
  [[nodiscard]] bool has_passed(const Warp& warp) const { return phase_ != warp.cluster_phase; }
  /// Completes the phase if all threads that have not returned have arrived.
  void complete_barrier();
  void forget_order();

  [[noreturn]] void report_endless() const;

 private:
  /// All blocks learn each other's accesses before the last barrier, or at least that the others have
  /// started.
  void make_known(bool releases);

  std::uint64_t phase_ = 1;
  std::uint64_t arrived_ = 0;  ///< threads
  bool releases_ = true;
};

}  // namespace sim
