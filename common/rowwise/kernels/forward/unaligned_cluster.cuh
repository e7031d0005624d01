// From the stage cluster: a cluster for each row of any width at any address. It is row_in_flight.cuh, one
// level up: a block's part is a row that begins at another offset in a line. At bf16 4096 x 65536 this
// reached 99.6 % of the copy's speed, as much as cluster_4, which needs whole packs (H200).
#pragma once

#include "common/kernel/cluster_exchange.cuh"
#include "common/kernel/cluster_launch.cuh"
#include "common/rowwise/kernels/forward/row_in_flight.cuh"

namespace rowwise {

/// Each row has a cluster, and each block keeps all of its part. If the row is narrow, the last blocks have
/// nothing.
template <class Op, class T>
__global__ void __launch_bounds__(1024)
    unaligned_cluster_softmax(const T* x, T* y, Shape shape, int part_packs, L2Policy reads) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = elements_per_16_bytes<T>;
  extern __shared__ __align__(line_bytes) unsigned char buffer[];
  __shared__ ClusterExchange<Op> exchange;
  exchange.start();

  const int part_cols = part_packs * N;
  const int first_col = static_cast<int>(cg::this_cluster().block_rank()) * part_cols;
  const int cols = max(min(part_cols, static_cast<int>(shape.cols) - first_col), 0);
  const std::int64_t first = ptx::get_sreg_clusterid_x() * shape.cols + first_col;
  const T* part_x = x + first;
  T* part_y = y + first;
  T* kept = place_in(buffer, part_x);
  const Cut<N> in(part_x, cols, line_bytes);
  request_packs(kept, part_x, in, in.num_packs, reads);

  typename Op::State own{};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < in.num_singles()) {
    const int col = in.col_of_single(thread);
    const T element = part_x[col];
    kept[col] = element;
    const float single[1] = {static_cast<float>(element)};
    Op::add(own, single);
  }
  ptx::barrier_cluster_wait();
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    __pipeline_wait_prior(copy_groups - 1 - group);
    for_each_pack_of_group(group, in.num_packs, [&](int pack) {
      float values[N];
      unpack(load_pack<N>(kept + in.col_of_pack(pack)), values);
      Op::add(own, values);
    });
  }
  const RowResult<Op> result(exchange.merge(own, 0));

  const Cut<N> out(part_y, cols, line_bytes);  // y may have another offset than x
  const auto write = [&](auto& values, int col) {
    read_neighbours(kept + col, values);
#pragma unroll
    for (float& value : values) value = result(value);
    store_pack(part_y + col, make_pack<T>(values));
  };
#pragma unroll 4
  for (int pack = thread; pack < out.num_packs; pack += static_cast<int>(blockDim.x)) {
    float values[N];
    write(values, out.col_of_pack(pack));
  }
  float single[1];
  if (thread < out.num_singles()) write(single, out.col_of_single(thread));
#endif
}

/// Softmax (or log-softmax) of each row; rows = 0 does nothing. Throws CudaError.
struct UnalignedClusterRow {
  static constexpr int cluster_size = most_blocks_of_cluster;  ///< at most
  static constexpr std::int64_t wanted_part_bytes = 32 << 10;

  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = has_clusters(gpu)) return refusal;
    const std::int64_t most_cols = most_cols_of_parts(gpu.dynamic_bytes() - 128, cluster_size, matrix);
    return fits_cluster<UnalignedClusterRow>(matrix, gpu, most_cols, Why::shared_memory_of_cluster);
  }
  static Need needs(const Matrix& /*matrix*/) { return {.clusters = true}; }

  /// Blocks are so small that an SM holds several, as long as the cluster can still grow.
  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t element_bytes) {
    int size = 2;
    while (size < cluster_size && row_bytes > size * wanted_part_bytes) size *= 2;
    const int part_packs = packs_of_part(round_up(row_bytes, 16), size);
    // Note N28: floats are faster with twice the threads, 16-bit types are slower.
    int packs_per_thread = element_bytes == 4 ? 4 : 8;
    while (part_packs > packs_per_thread * 1024) packs_per_thread *= 2;
    return {.cluster_size = size,
            .part_packs = part_packs,
            .packs_per_thread = packs_per_thread,
            .shared_bytes = static_cast<int>(bytes_with_place(part_packs * std::int64_t{16}))};
  }

  template <class Op, class T, class Use>
  static auto with_kernel(const RowOnCluster& /*layout*/, Use use) {
    return use(unaligned_cluster_softmax<Op, T>);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    launch_cluster_per_row<UnalignedClusterRow, Op>(tensors, stream, policy_of_reads<T>(2, tensors.shape));
  }
};

}  // namespace rowwise
