// From the stage backward: forward/cluster_row.cuh with both rows in the shared memory of a cluster, for rows
// larger than half an SM. The blocks exchange their sums instead of pairs. At f32 1024 x 131072 this reached
// 100.0 % of the ceiling (H200).
#pragma once

#include "common/kernel/cluster_exchange.cuh"
#include "common/kernel/cluster_launch.cuh"
#include "common/kernel/row_gradient.cuh"

namespace rowwise {

constexpr int gradient_packs_per_thread = 8;

/// blockIdx.x / cluster size is the row.
template <class Op, class T>
__global__ void __launch_bounds__(1024)
    cluster_backward(const T* y, const T* dy, T* dx, Shape shape, int part_packs, L2Policy reads) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_of_group = gradient_packs_per_thread / copy_groups;
  extern __shared__ __align__(128) unsigned char buffer[];  // the part of y, then the part of dy
  __shared__ ClusterExchange<Op> exchange;
  exchange.start();

  const PartOfCluster<N> part(part_packs, shape.cols);
  const std::int64_t row = blockIdx.x / cg::this_cluster().num_blocks();
  const std::int64_t first = row * shape.cols + part.first_col;
  T* const kept_y = reinterpret_cast<T*>(buffer);
  T* const kept_dy = kept_y + part_packs * N;
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    for_own_packs(group * packs_of_group, (group + 1) * packs_of_group, part.num_packs, [&](int pack) {
      copy_async(kept_y + pack * N, y + first + pack * N, reads);
      copy_async(kept_dy + pack * N, dy + first + pack * N, reads);
    });
    __pipeline_commit();
  }
  ptx::barrier_cluster_wait();

  typename Op::State sum{};
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    __pipeline_wait_prior(copy_groups - 1 - group);
    for_own_packs(group * packs_of_group, (group + 1) * packs_of_group, part.num_packs, [&](int pack) {
      add_packs<Op>(sum, load_pack<N>(kept_y + pack * N), load_pack<N>(kept_dy + pack * N));
    });
  }
  sum = exchange.merge(sum, 0);

  for_own_packs(0, gradient_packs_per_thread, part.num_packs, [&](int pack) {
    const Pack<T, N> result =
        finish_packs<Op>(sum, load_pack<N>(kept_y + pack * N), load_pack<N>(kept_dy + pack * N));
    store_pack(dx + first + pack * N, result);
  });
#endif
}

/// Every row of the three matrices begins at a multiple of 16 bytes and is a multiple of 16 bytes long.
struct Cluster {
  using Operations = BackwardOperations;
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = has_clusters(gpu)) return refusal;
    if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
    return fits_cluster<Cluster>(matrix, gpu,
                                 most_cols_of_parts(gpu.dynamic_bytes() / 2, most_blocks_of_cluster, matrix),
                                 Why::shared_memory_of_cluster_for_two);
  }
  static Need needs(const Matrix& /*matrix*/) { return {.clusters = true}; }

  template <class Op, class T>
  static constexpr auto kernel = cluster_backward<Op, T>;

  /// The smallest cluster whose blocks can share an SM, three at a time: each has 64 KiB for its part of both
  /// rows.
  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t /*element_bytes*/) {
    int cluster_size = 2;
    while (cluster_size < most_blocks_of_cluster && 2 * row_bytes > cluster_size * (64 << 10)) {
      cluster_size *= 2;
    }
    const int part_packs = packs_of_part(row_bytes, cluster_size);
    return {.cluster_size = cluster_size,
            .part_packs = part_packs,
            .packs_per_thread = gradient_packs_per_thread,
            .shared_bytes = 2 * part_packs * 16};
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const RowOnCluster row = layout(tensors.row_bytes(), sizeof(T));
    launch_clusters(kernel<Op, T>, row, tensors.shape.rows, stream, tensors.y, tensors.dy, tensors.dx,
                    tensors.shape, row.part_packs, policy_of_reads<T>(3, tensors.shape));
  }
};

}  // namespace rowwise
