// From the stage cluster: a cluster for each row, which is in shared memory in the matrix's own type. Each
// thread requests its packs at once, by copies that need no registers, and reads the same packs twice.
// Beyond the stage's kernel, a thread merges its first packs while the later ones still arrive, and reads
// carry the hint for the L2 if the matrices are large (Note N12). At f32 1024 x 262144, cluster_16 reached
// 100.1 % of the copy's speed; the stage's one_way_16 reached 96.4 % (H200).
#pragma once

#include "common/kernel/async_copy.cuh"
#include "common/kernel/cluster_exchange.cuh"
#include "common/kernel/cluster_launch.cuh"
#include "common/kernel/l2_policy.cuh"

namespace rowwise {

/// Each row has a cluster.
template <class Op, class T, int packs_per_thread>
__global__ void __launch_bounds__(1024)
    cluster_row_softmax(const T* x, T* y, Shape shape, int part_packs, L2Policy reads) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_of_group = packs_per_thread / copy_groups;
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ ClusterExchange<Op> exchange;
  exchange.start();

  const PartOfCluster<N> part(part_packs, shape.cols);
  const std::int64_t row = ptx::get_sreg_clusterid_x();
  const T* part_x = x + row * shape.cols + part.first_col;
  T* part_y = y + row * shape.cols + part.first_col;
  // The buffer begins as far past a line of 128 bytes as the part does in global memory. Note N15:
  // asynchronous copies across lines are slower.
  T* kept = reinterpret_cast<T*>(buffer + reinterpret_cast<std::uintptr_t>(part_x) % 128);
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    for_own_packs(group * packs_of_group, (group + 1) * packs_of_group, part.num_packs,
                  [&](int pack) { copy_async(kept + pack * N, part_x + pack * N, reads); });
    __pipeline_commit();
  }
  ptx::barrier_cluster_wait();

  typename Op::State own{};
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    __pipeline_wait_prior(copy_groups - 1 - group);
    for_own_packs(group * packs_of_group, (group + 1) * packs_of_group, part.num_packs, [&](int pack) {
      float values[N];
      unpack(load_pack<N>(kept + pack * N), values);
      Op::add(own, values);
    });
  }
  const RowResult<Op> result(exchange.merge(own, 0));

  for_own_packs(0, packs_per_thread, part.num_packs, [&](int pack) {
    float values[N];
    unpack(load_pack<N>(kept + pack * N), values);
#pragma unroll
    for (float& value : values) value = result(value);
    store_pack(part_y + pack * N, make_pack<T>(values));
  });
#endif
}

/// Softmax (or log-softmax) of each row; rows = 0 does nothing. Throws CudaError.
template <int cluster_size_>
struct ClusterRow {
  static constexpr int cluster_size = cluster_size_;

  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    return fits_shared_memory_of_cluster<ClusterRow>(matrix, gpu);
  }
  static Need needs(const Matrix& /*matrix*/) { return {.clusters = true}; }

  /// Small parts make small blocks. Several of them share an SM: while one exchanges or writes, others read.
  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t /*element_bytes*/) {
    const int part_packs = packs_of_part(row_bytes, cluster_size);
    return {.cluster_size = cluster_size,
            .part_packs = part_packs,
            .packs_per_thread = part_packs <= 8 * 1024 ? 8 : 16,
            .shared_bytes = part_packs * 16 + 128};
  }

  /// Calls use(kernel) with the kernel for that layout.
  template <class Op, class T, class Use>
  static auto with_kernel(const RowOnCluster& layout, Use use) {
    return layout.packs_per_thread == 8 ? use(cluster_row_softmax<Op, T, 8>)
                                        : use(cluster_row_softmax<Op, T, 16>);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    launch_cluster_per_row<ClusterRow, Op>(tensors, stream, policy_of_reads<T>(2, tensors.shape));
  }
};

}  // namespace rowwise
