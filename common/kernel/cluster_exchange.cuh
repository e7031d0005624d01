// From the stage cluster, for rows larger than an SM: the blocks of a cluster share a row. Each block holds a
// part of the row in its shared memory, and the blocks send each other their pairs (m, d), directly into each
// other's shared memory. Beyond the stage's OneWay, a cluster may have several rows, one after the other.
//
// Cost: 2 passes, 1 read and 1 write. For each row, every block of a cluster sends 8 bytes to every block.
// That is one trip from SM to SM; in the stage split_row the pairs go through the L2.
// Sources: quack's softmax sends the pairs of a cluster's blocks by st.async to an mbarrier of each; the CUDA
// programming guide describes clusters and distributed shared memory.
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

/// Sends a value to the same place in each block of the cluster: lane i of a warp sends to block i. The bytes
/// complete a phase of the barrier there.
template <class Value>
__device__ void send_to_all(Value* place, const Value& value, std::uint64_t* barrier) {
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned lane = threadIdx.x % 32;
  if (lane >= cluster.num_blocks()) return;
  ptx::st_async(cluster.map_shared_rank(place, lane), value, cluster.map_shared_rank(barrier, lane));
}

/// Waits until a phase of the barrier is over: the first has parity 0, the next 1, and so on. Afterwards the
/// values from other blocks can be read. That takes an acquire with the scope of the cluster.
template <class Barrier>
__device__ void wait_for_cluster(Barrier* barrier, unsigned parity) {
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, barrier, parity)) {
  }
}

/// In shared memory: the values that the blocks of a cluster send this one, row after row.
///
/// There are two copies of everything that comes from other blocks, used alternately by successive rows. Two
/// are enough. A block sends something for row i only after it has received the pairs of row i - 1 from all
/// blocks. Each block sent its pair of row i - 1 after a barrier of its threads, when these had finished with
/// the values of row i - 2. So no block overwrites a value that another still has to read, and no bytes count
/// towards a phase before the previous phase is over.
///
/// Round r is phase r / 2 of the barrier received[r % 2], so its parity is r / 2 % 2: 0, 0, 1, 1, 0, and so
/// on. Its bytes may arrive before this block announces them (expect_tx), because the phase cannot end before
/// this block's own arrival, which comes with the announcement.
///
/// No block exits while another one still sends to it: it waits for the pairs of its last row, and nothing is
/// sent after those. A block may exit while its own pair is on its way, because the pair is in registers
/// until it arrives in the memory of a block that waits.
template <class Op>
struct ClusterExchange {
  using State = typename Op::State;

  // In shared memory, the braces initialise nothing.
  alignas(8) State pairs[2][most_blocks_of_cluster]{};
  State pairs_of_warps[32]{};
  State total{};
  std::int64_t next_row[2]{};   ///< sent by the first block, if it draws tickets
  std::uint64_t received[2]{};  ///< one arrival each, by this block, and the bytes of all

  /// All threads call it. ptx::barrier_cluster_wait() must come between it and the first merge(): no block
  /// may send to another one before that one has started and has initialised its barriers.
  __device__ void start() {
    if (threadIdx.x == 0) {
      ptx::mbarrier_init(&received[0], 1);
      ptx::mbarrier_init(&received[1], 1);
      ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    // Other blocks have to know only of the fence above. A release of everything would wait for the memory.
    ptx::barrier_cluster_arrive(ptx::sem_relaxed);
  }

  /// Merges the pairs of all threads of the cluster; each thread gets the result. round: the number of
  /// earlier calls. more_bytes: the number of other bytes that each block is sent in this round.
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

/// The packs of a row that one block of a cluster has.
template <int N>
struct PartOfCluster {
  int first_col;
  int num_packs;  ///< at most part_packs; 0 or negative if the row ends before this part

  __device__ PartOfCluster(int part_packs, std::int64_t cols) {
    const auto first_pack = static_cast<int>(cg::this_cluster().block_rank()) * part_packs;
    first_col = first_pack * N;
    num_packs = min(part_packs, static_cast<int>(cols / N) - first_pack);
  }
};

/// Calls use(pack) for this thread's packs `begin` to `end`. A thread has every blockDim.x-th pack of its
/// block.
template <class Use>
__device__ void for_own_packs(int begin, int end, int num_packs, Use use) {
#pragma unroll
  for (int i = begin; i < end; ++i) {
    const int pack = i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
    if (pack < num_packs) use(pack);
  }
}
