// The code around asynchronous copies from global to shared memory: the order in which packs are requested,
// and tickets for rows.
#pragma once

#include <cuda_pipeline.h>

#include "common/kernel/grid.cuh"
#include "common/kernel/limits.h"

// ---- cp.async, in groups. __pipeline_commit() closes a group of a thread's copies, and
// __pipeline_wait_prior(n) waits until at most the n latest groups are still on their way. So a thread can
// use the packs of group 0 after __pipeline_wait_prior(3), while groups 1 to 3 arrive, and then those of
// group 1.

constexpr int copy_groups = 4;

/// Calls use(pack) for each pack of this thread in a group. The copy_groups groups have num_packs packs
/// together: a group has up to `turns` packs per thread.
template <class Use>
__device__ void for_each_pack_of_group(int group, int num_packs, Use use) {
  const int threads = static_cast<int>(blockDim.x);
  const int turns = (num_packs + copy_groups * threads - 1) / (copy_groups * threads);  // in 32 bits
  const int packs_of_group = turns * threads;
  const int end = min((group + 1) * packs_of_group, num_packs);
  for (int pack = group * packs_of_group + static_cast<int>(threadIdx.x); pack < end; pack += threads) {
    use(pack);
  }
}

// ---- Tickets: a block that has finished a row draws the number of its next one. So a fast block gets more.

using TicketCounter = unsigned;

/// Returns the next of the tickets 0 to count - 1. A launch draws each ticket once. With the last one,
/// atomicInc sets the counter back to 0, so a launch can be replayed. The result arrives only after a memory
/// latency: use it late.
__device__ inline unsigned draw_ticket(TicketCounter* counter, std::int64_t count) {
  return atomicInc(counter, static_cast<unsigned>(count - 1));
}
/// The limits that all launchers with tickets share. A row number has 32 bits. That includes the few numbers
/// past the last row that a block draws.
struct DrawsRows {
  static constexpr std::int64_t most_rows = std::int64_t{1} << 31;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return at_most_rows(most_rows, matrix, Why::tickets);
  }
  static Need needs(const Matrix& /*matrix*/) {
    return {.workspace_bytes = sizeof(TicketCounter), .zeroed = true};
  }
};
