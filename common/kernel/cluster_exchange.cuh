// Stage 10: rows larger than an SM. The blocks of a cluster share a row: each holds a part of it in its shared memory, and
// they send each other their pairs (m, d), straight into each other's shared memory.
//
// Cost: 2 passes, 1 read and 1 write, and 8 bytes from each block of a cluster to each other for a row. That is one trip
// from SM to SM, where stage 07 goes through the L2.
// Sources: quack's softmax sends the pairs of a cluster's blocks by st.async to a mbarrier of each; the CUDA programming
// guide describes clusters and distributed shared memory.
#pragma once

#include <cooperative_groups.h>

#include <cuda/ptx>

#include "common/kernel/async_copy.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/pack.cuh"
#include "common/kernel/shape.h"

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

/// The most that a GPU can be asked for; more than 8 only where a kernel says so.

/// Sends a value to the same place in each block of the cluster, lane i of a warp to block i. Its bytes complete a phase of
/// the barrier there.
template <class Value>
__device__ void send_to_all(Value* place, const Value& value, std::uint64_t* barrier) {
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned lane = threadIdx.x % 32;
  if (lane >= cluster.num_blocks()) return;
  ptx::st_async(cluster.map_shared_rank(place, lane), value, cluster.map_shared_rank(barrier, lane));
}

/// Waits until a phase of the barrier is over: the first has parity 0, the next 1, and so on. What other blocks sent can be
/// read then: for that it takes an acquire that reaches as far as they are, the cluster.
template <class Barrier>
__device__ void wait_for_cluster(Barrier* barrier, unsigned parity) {
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, barrier, parity)) {
  }
}

/// In shared memory: what the blocks of a cluster send this one, row after row.
///
/// What comes from others is there twice, for rows by turns, and that is enough. A block sends something of row i after it has
/// received the pairs of row i - 1, from all. Each block sent its own of row i - 1 behind a barrier of its threads, when these
/// were done with what they received of row i - 2. So nobody overwrites what somebody still has to read, and nobody counts
/// bytes towards a phase before the last one.
///
/// No block leaves while another one still sends it something: it waits for the pairs of its last row, the last that are
/// sent. Its own are out of its hands by then: they are in registers until they are in the memory of one that waits.
template <class Op>
struct ClusterExchange {
  using State = typename Op::State;

  // {} for the compiler: nothing is set in shared memory.
  alignas(8) State pairs[2][most_blocks_of_cluster]{};
  State pairs_of_warps[32]{};
  State total{};
  std::int64_t next_row[2]{};   ///< from the first block, where it draws tickets
  MemoryBarrier received[2]{};  ///< one arrival each, of this block, and the bytes of all

  /// All threads call it. Between it and the first merge() comes ptx::barrier_cluster_wait(): before another block has
  /// started, and its barriers are set up, nothing may be sent to it.
  __device__ void start() {
    if (threadIdx.x == 0) {
      ptx::mbarrier_init(&received[0], 1);
      ptx::mbarrier_init(&received[1], 1);
      ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    // The fence above is all that others have to know of. A release of everything would wait for the memory.
    ptx::barrier_cluster_arrive(ptx::sem_relaxed);
  }

  /// Merges the pairs of all threads of the cluster; each gets the result. round: how many there were before.
  /// more_bytes: what else is sent to each block in this round.
  __device__ State merge(State own, unsigned round, unsigned more_bytes = 0) {
    const cg::cluster_group cluster = cg::this_cluster();
    const unsigned turn = round % 2;
    const unsigned lane = threadIdx.x % 32;
    own = warp_merge<Op>(own);
    if (lane == 0) pairs_of_warps[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x < 32) {
      own = warp_merge<Op>(lane < blockDim.x / 32 ? pairs_of_warps[lane] : State{});
      if (lane == 0) {
        ptx::mbarrier_arrive_expect_tx(
            ptx::sem_release, ptx::scope_cta, ptx::space_shared, &received[turn],
            cluster.num_blocks() * static_cast<unsigned>(sizeof(State)) + more_bytes);
      }
      send_to_all(&pairs[turn][cluster.block_rank()], own, &received[turn]);
      wait_for_cluster(&received[turn], round / 2 % 2);
      own = warp_merge<Op>(lane < cluster.num_blocks() ? pairs[turn][lane] : State{});
      if (lane == 0) total = own;
    }
    __syncthreads();
    return total;
  }
};

/// The packs of a row that a block of a cluster has.
template <int N>
struct PartOfCluster {
  int first_col;
  int num_packs;  ///< at most part_packs; none, or less than none, where the row ends before this part

  __device__ PartOfCluster(int part_packs, std::int64_t cols) {
    const auto first_pack = static_cast<int>(cg::this_cluster().block_rank()) * part_packs;
    first_col = first_pack * N;
    num_packs = min(part_packs, static_cast<int>(cols / N) - first_pack);
  }
};

/// Calls use(pack) for packs `begin` to `end` of this thread: it has one in blockDim.x of those of the block.
template <class Use>
__device__ void for_own_packs(int begin, int end, int num_packs, Use use) {
#pragma unroll
  for (int i = begin; i < end; ++i) {
    const int pack = i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
    if (pack < num_packs) use(pack);
  }
}
