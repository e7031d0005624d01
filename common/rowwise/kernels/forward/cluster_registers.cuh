// From the stage cluster (`registers` of the dispatch): a cluster for each row, which stays in registers, as
// `fused` of the stage online keeps it in one block. Each element costs one exponential, and there is no
// barrier of a block: every warp sends its pair to every block, and every warp merges all of them. At f32 64
// x 32000 this reached 86.4 % of the copy's speed; the best cluster with the row in shared memory reached
// 81.2 % (H200).
#pragma once

#include "common/kernel/cluster_exchange.cuh"
#include "common/kernel/cluster_launch.cuh"
#include "common/rowwise/kernels/forward/online.cuh"

namespace rowwise {

/// In shared memory: the pairs of all warps of a cluster, for one row.
template <class Op, int warps>
struct PairsOfWarps {
  using State = typename Op::State;

  // In shared memory, the braces initialise nothing.
  alignas(8) State pairs[most_blocks_of_cluster * warps]{};
  std::uint64_t received{};  ///< one arrival, by this block, and the bytes of all

  /// Works as ClusterExchange::start().
  __device__ void start() {
    if (threadIdx.x == 0) {
      ptx::mbarrier_init(&received, 1);
      ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    ptx::barrier_cluster_arrive(ptx::sem_relaxed);
  }

  /// Merges the pairs of all threads of the cluster, after ptx::barrier_cluster_wait(); each thread gets the
  /// result.
  __device__ State merge(State own) {
    const cg::cluster_group cluster = cg::this_cluster();
    const unsigned num_pairs = cluster.num_blocks() * warps;
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &received,
                                     num_pairs * static_cast<unsigned>(sizeof(State)));
    }
    const unsigned warp = cluster.block_rank() * warps + threadIdx.x / 32;
    send_to_all(&pairs[warp], warp_merge<Op>(own), &received);
    wait_for_cluster(&received, 0);
    State total{};
    for (unsigned i = threadIdx.x % 32; i < num_pairs; i += 32) {
      total = Op::merge(total, pairs[i]);
    }
    return warp_merge<Op>(total);
  }
};

/// Each row has a cluster.
template <class Op, BlockTile tile, class T>
__global__ void __launch_bounds__(tile.block_size)
    cluster_registers_softmax(const T* x, T* y, Shape shape, int part_packs) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = elements_per_16_bytes<T>;
  __shared__ PairsOfWarps<Op, tile.block_size / 32> exchange;
  const PartOfCluster<N> part(part_packs, shape.cols);
  const std::int64_t row = ptx::get_sreg_clusterid_x();
  RowInRegisters<Op, tile, N> held(DirectLoad<T>{x + part.first_col, shape.cols}, row, part.num_packs * N);
  exchange.start();  // while the row is in flight
  const auto own = held.reduce();
  ptx::barrier_cluster_wait();
  held.finish(exchange.merge(own), DirectStore<T>{y + part.first_col, shape.cols}, row);
#endif
}

/// Softmax (or log-softmax) of each row; rows = 0 does nothing. Throws CudaError.
struct ClusterRegisters {
  static constexpr int cluster_size = 8;  ///< or 16, if 8 would need more packs per thread
  static constexpr int block_size = 256;
  static constexpr int most_packs_per_thread = 8;
  static constexpr std::int64_t most_row_bytes =
      std::int64_t{most_blocks_of_cluster} * block_size * most_packs_per_thread * 16;

  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = has_clusters(gpu)) return refusal;
    if (const Refusal refusal = has_packs_for_each_lane(matrix, cluster_size)) return refusal;
    return fits_cluster<ClusterRegisters>(matrix, gpu, most_row_bytes / matrix.element_bytes,
                                          Why::registers_of_16_blocks);
  }
  static Need needs(const Matrix& /*matrix*/) { return {.clusters = true}; }

  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t /*element_bytes*/) {
    constexpr int most_part_packs = block_size * most_packs_per_thread;
    const int size =
        packs_of_part(row_bytes, cluster_size) <= most_part_packs ? cluster_size : 2 * cluster_size;
    const int part_packs = packs_of_part(row_bytes, size);
    return {.cluster_size = size,
            .part_packs = part_packs,
            .packs_per_thread = part_packs <= 2 * block_size   ? 2
                                : part_packs <= 4 * block_size ? 4
                                                               : most_packs_per_thread,
            .shared_bytes = 0,
            .least_block_size = block_size};
  }

  /// Calls use(kernel) with the kernel for that layout.
  template <class Op, class T, class Use>
  static auto with_kernel(const RowOnCluster& layout, Use use) {
    constexpr auto tile = [](int packs) { return BlockTile{block_size, packs * elements_per_16_bytes<T>}; };
    switch (layout.packs_per_thread) {
      case 2:
        return use(cluster_registers_softmax<Op, tile(2), T>);
      case 4:
        return use(cluster_registers_softmax<Op, tile(4), T>);
      default:
        return use(cluster_registers_softmax<Op, tile(most_packs_per_thread), T>);
    }
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    launch_cluster_per_row<ClusterRegisters, Op>(tensors, stream);
  }
};

}  // namespace rowwise
