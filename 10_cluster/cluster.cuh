// Stage 10: rows larger than an SM. The blocks of a cluster share a row: each block keeps its part of the row
// in its shared memory, and the blocks write their pairs (m, d) into each other's shared memory.
//
// Cost: 2 passes, 1 read and 1 write; each block sends 8 bytes to every block of its cluster, once per row.
// The variants differ only in the exchange of the pairs, TwoBarriers or OneWay, and in the cluster's size.
// The kernel, cluster_softmax, follows the exchanges.
// Sources: the CUDA programming guide on clusters and distributed shared memory; quack's softmax, which sends
// its pairs by st.async to an mbarrier in every block.
#pragma once

#include <cooperative_groups.h>
#include <cuda_pipeline.h>

#include <cuda/ptx>
#include <cuda/std/climits>

#include "common/kernel/block_merge.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/pack.cuh"
#include "common/kernel/tensors.h"

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

/// The exchange by two barriers of the cluster: one before the blocks send, the other before they read. Each
/// block has one such object in its shared memory.
template <class Op>
struct TwoBarriers {
  using State = typename Op::State;
  // In shared memory, the braces initialise nothing: the pairs are undefined until they arrive.
  alignas(8) State pairs[most_blocks_of_cluster]{};  ///< pairs[i] is written by block i, all 8 bytes at once

  __device__ void start() {}

  /// Takes the pair of this block's part and returns the pair of the whole row. All threads call it: the
  /// first of them send, and every warp merges the pairs that have arrived.
  __device__ State merge(State own) {
    const cg::cluster_group cluster = cg::this_cluster();
    const unsigned lane = threadIdx.x % 32;
    cluster.sync();  // A block that has not started yet has no shared memory to write to.
    if (threadIdx.x < cluster.num_blocks()) {
      *cluster.map_shared_rank(&pairs[cluster.block_rank()], threadIdx.x) = own;
    }
    cluster.sync();  // All pairs have been written.
    return warp_merge<Op>(lane < cluster.num_blocks() ? pairs[lane] : State{});
  }
};

/// The exchange in which each pair reports its own arrival, so that no barrier has to follow.
template <class Op>
struct OneWay {
  using State = typename Op::State;
  alignas(8) State pairs[most_blocks_of_cluster]{};
  std::uint64_t arrived{};  ///< an mbarrier: its phase 0 ends when the bytes of all pairs have arrived

  /// All threads call it, before their loads: the barrier that begins here completes while the loads are on
  /// their way.
  __device__ void start() {
    // 1. Initialise the mbarrier, for a single arrival (that of thread 0) and the bytes of all pairs.
    if (threadIdx.x == 0) {
      const auto bytes = static_cast<unsigned>(cg::this_cluster().num_blocks() * sizeof(State));
      ptx::mbarrier_init(&arrived, 1);
      // Other blocks see the initialised mbarrier once they have passed the barrier that begins below.
      ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
      // scope_cta: only threads of this block wait for the mbarrier.
      (void)ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &arrived,
                                           bytes);
    }
    // 2. Arrive at the barrier of the cluster. Relaxed: by default, the barrier would also publish all that
    // this thread has written, and that takes time. Other blocks must see only the mbarrier, which the fence
    // has made visible.
    ptx::barrier_cluster_arrive(ptx::sem_relaxed);
  }

  /// Takes the pair of this block's part and returns the pair of the whole row. All threads call it.
  ///
  /// No barrier follows. A block that has received every pair may exit, because nothing else is sent to it.
  /// It must not exit earlier, even if it has no part of the row: the others would wait forever for its pair,
  /// and would write theirs to shared memory that may already belong to another block.
  __device__ State merge(State own) {
    const cg::cluster_group cluster = cg::this_cluster();
    const unsigned lane = threadIdx.x % 32;
    // 3. Wait for the barrier of the cluster.
    ptx::barrier_cluster_wait();  // All blocks have started and have initialised their mbarriers.
    // 4. Send this block's pair to all blocks.
    if (threadIdx.x < cluster.num_blocks()) {
      ptx::st_async(cluster.map_shared_rank(&pairs[cluster.block_rank()], threadIdx.x), own,
                    cluster.map_shared_rank(&arrived, threadIdx.x));
    }
    // 5. Wait for the pairs. The acquire makes the writes of the other blocks visible: the pairs, which are
    // read next.
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrived, 0)) {
    }
    return warp_merge<Op>(lane < cluster.num_blocks() ? pairs[lane] : State{});
  }
};

/// One cluster per row. Block i of the cluster keeps up to part_packs packs, from pack i * part_packs on.
template <class Op, class Exchange, class T>
__global__ void __launch_bounds__(1024) cluster_softmax(const T* x, T* y, Shape shape, int part_packs) {
#if __CUDA_ARCH__ >= 900  // Older GPUs have no clusters.
  constexpr int N = elements_per_16_bytes<T>;
  extern __shared__ __align__(128) unsigned char buffer[];  // begins at a line: copies are faster
  __shared__ typename Op::State pairs_of_warps[32];
  __shared__ Exchange exchange;
  exchange.start();

  const cg::cluster_group cluster = cg::this_cluster();
  const std::int64_t row = blockIdx.x / cluster.num_blocks();  // neighbouring blocks form a cluster
  const int first_pack = static_cast<int>(cluster.block_rank()) * part_packs;
  // If the row ends before this part begins, num_packs is negative, and the loops below do nothing.
  const int num_packs = min(part_packs, static_cast<int>(shape.cols / N) - first_pack);
  const T* part_x = x + row * shape.cols + std::int64_t{first_pack} * N;
  T* part_y = y + row * shape.cols + std::int64_t{first_pack} * N;
  T* kept = reinterpret_cast<T*>(buffer);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);

#pragma unroll 1  // unrolled, lanes with fewer packs would request them by themselves
  for (int pack = thread; pack < num_packs; pack += threads) {
    __pipeline_memcpy_async(kept + pack * N, part_x + pack * N, 16);
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);

  // Each thread reads only packs that it copied itself, so no barrier is needed between copy and use.
  typename Op::State own{};
  for (int pack = thread; pack < num_packs; pack += threads) {
    float values[N];
    unpack(load_pack<N>(kept + pack * N), values);
    Op::add(own, values);
  }
  const RowResult<Op> result(exchange.merge(block_merge_once<Op>(own, pairs_of_warps)));

#pragma unroll 1
  for (int pack = thread; pack < num_packs; pack += threads) {
    float values[N];
    unpack(load_pack<N>(kept + pack * N), values);
#pragma unroll
    for (float& value : values) value = result(value);
    store_pack(part_y + pack * N, make_pack<T>(values));
  }
#endif
}

/// Softmax (or log-softmax) of each row; rows = 0 does nothing. A row must consist of whole packs of 16
/// bytes, and fit in the shared memory of cluster_size blocks. Throws CudaError.
template <template <class> class Exchange, int cluster_size>
struct ClusterRow {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (gpu.compute_capability < 9) return {Why::clusters};
    if (cluster_size > gpu.largest_cluster) return {Why::cluster_size, cluster_size};
    if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
    if (const Refusal refusal = at_most_rows(INT_MAX / cluster_size, matrix, Why::grid)) return refusal;
    const std::int64_t most_cols = gpu.dynamic_bytes() / 16 * 16 * cluster_size / matrix.element_bytes;
    return at_most_columns(most_cols, matrix, Why::shared_memory_of_cluster);
  }
  static Need needs(const Matrix& /*matrix*/) { return {.clusters = true}; }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const auto [rows, cols] = tensors.shape;
    if (rows == 0) return;
    const auto kernel = cluster_softmax<Op, Exchange<Op>, T>;
    const std::int64_t part_packs = divide_up(cols / elements_per_16_bytes<T>, cluster_size);
    // Eight packs per thread: a small part gets a small block, so that several blocks share an SM.
    const std::int64_t threads = round_up(divide_up(part_packs, 8), 32);
    const int part_bytes = static_cast<int>(part_packs * 16);
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, part_bytes));
    // Every GPU with clusters supports 8 blocks per cluster. For more, a kernel must opt in.
    CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, cluster_size > 8));

    cudaLaunchAttribute size{};
    size.id = cudaLaunchAttributeClusterDimension;
    size.val.clusterDim.x = cluster_size;
    size.val.clusterDim.y = 1;
    size.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = static_cast<unsigned>(rows * cluster_size);
    config.blockDim = static_cast<unsigned>(min(max(threads, std::int64_t{128}), std::int64_t{1024}));
    config.dynamicSmemBytes = static_cast<std::size_t>(part_bytes);
    config.stream = stream;
    config.attrs = &size;
    config.numAttrs = 1;
    CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, tensors.x, tensors.y, tensors.shape,
                                  static_cast<int>(part_packs)));
  }
};
