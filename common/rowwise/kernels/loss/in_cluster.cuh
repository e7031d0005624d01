// From the stage fusion: the loss and the gradient of rows larger than an SM. Persistent clusters draw rows,
// as in forward/tickets.cuh; only the end of a row is different. At bf16 4096 x 128256 this reached 99.1 % of
// the ceiling; one block per row (kept_row) reached 82.1 % (H200).
#pragma once

#include "common/kernel/row_loss.cuh"
#include "common/rowwise/kernels/forward/tickets.cuh"

/// Sends two pieces, because no st.async of a single value has 16 bytes.
__device__ inline void send_to_all([[maybe_unused]] PairAndBelow* place,
                                   [[maybe_unused]] const PairAndBelow& value,
                                   [[maybe_unused]] std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  send_to_all(&place->pair, value.pair, barrier);
  send_to_all(&place->below, value.below, barrier);
#endif
}

/// A thread's pack of the next row takes the place of its pack of this row, as soon as that is written.
template <class Op, class T, int packs_per_thread>
__global__ void __launch_bounds__(1024)
    cluster_gradient(const T* x, const std::int64_t* labels, float* loss, T* dx, Shape shape, int part_packs,
                     TicketCounter* tickets, L2Policy reads) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_of_group = packs_per_thread / copy_groups;
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ ClusterExchange<Op> exchange;
  exchange.start();

  const cg::cluster_group cluster = cg::this_cluster();
  const bool is_first_warp = cluster.block_rank() == 0 && threadIdx.x < 32;
  const bool is_first_thread = is_first_warp && threadIdx.x == 0;
  const unsigned clusters = gridDim.x / cluster.num_blocks();
  const PartOfCluster<N> part(part_packs, shape.cols);
  T* const kept = reinterpret_cast<T*>(buffer);
  const auto request = [&](std::int64_t row, int pack) {
    copy_async(kept + pack * N, x + row * shape.cols + part.first_col + pack * N, reads);
  };
  std::int64_t row = blockIdx.x / cluster.num_blocks();
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    for_own_packs(group * packs_of_group, (group + 1) * packs_of_group, part.num_packs,
                  [&](int pack) { request(row, pack); });
    __pipeline_commit();
  }
  ptx::barrier_cluster_wait();

  for (unsigned round = 0; row < shape.rows; ++round) {
    const std::int64_t label = labels[row];
    std::int64_t next_row = 0;
    if (is_first_thread) next_row = clusters + draw_ticket(tickets, shape.rows);
    typename Op::Own own;
#pragma unroll
    for (int group = 0; group < copy_groups; ++group) {
      __pipeline_wait_prior(copy_groups - 1 - group);
      for_own_packs(group * packs_of_group, (group + 1) * packs_of_group, part.num_packs, [&](int pack) {
        float values[N];
        unpack(load_pack<N>(kept + pack * N), values);
        own.add(values);
      });
    }
    // The ticket and the label were requested before the wait for the row, so they have had that time to
    // arrive.
    if (is_first_warp) {
      next_row = __shfl_sync(0xffffffff, next_row, 0);
      send_to_all(&exchange.next_row[round % 2], next_row, &exchange.received[round % 2]);
    }
    // Note N23: converted at once, because converting it late makes nvcc 13.0 use 38 registers instead of 50,
    // and the kernel slower.
    float x_label = 0;
    if (is_first_thread) x_label = Element<T>(x + row * shape.cols, label, shape.cols).value();
    const typename Op::State state = exchange.merge(own.state(), round, sizeof next_row);
    next_row = exchange.next_row[round % 2];
    if (is_first_thread) loss[row] = loss_of_row<Op>(state, x_label, label, shape.cols);

    const RowGradient<Op> gradient(state, label, static_cast<int>(shape.cols));
    T* const part_dx = dx + row * shape.cols + part.first_col;
#pragma unroll
    for (int group = 0; group < copy_groups; ++group) {
      for_own_packs(group * packs_of_group, (group + 1) * packs_of_group, part.num_packs, [&](int pack) {
        float values[N];
        unpack(load_pack<N>(kept + pack * N), values);
        gradient(values, part.first_col + pack * N);
        store_pack(part_dx + pack * N, make_pack<T>(values));
        if (next_row < shape.rows) request(next_row, pack);
      });
      __pipeline_commit();
    }
    row = next_row;
  }
#endif
}

/// Blocks per row: 2, or more if there are too few rows for three blocks per SM. The parts have at least 2
/// KiB.
inline int blocks_of_few_rows(std::int64_t row_bytes, std::int64_t rows) {
  const std::int64_t blocks = 3 * multiprocessors();
  int size = 2;
  while (size < most_blocks_of_cluster && rows * size < blocks && row_bytes > size * (4 << 10)) size *= 2;
  return size;
}

/// Rows of whole packs that a cluster holds; rows = 0 does nothing. The workspace is 0 before and after.
/// Throws CudaError.
struct InCluster : MakesLossAndGradient {
  static constexpr int packs_per_thread = 8;

  /// Rows whose parts have at most part_bytes bytes.
  static Refusal fits(const Matrix& matrix, std::int64_t part_bytes) {
    return at_most_columns(most_cols_of_parts(part_bytes, most_blocks_of_cluster, matrix), matrix,
                           Why::blocks_of_cluster);
  }
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = has_clusters(gpu)) return refusal;
    if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
    const std::int64_t part_of_threads = std::int64_t{1024} * packs_per_thread * 16;
    if (const Refusal refusal = fits(matrix, min(part_of_threads, gpu.dynamic_bytes()))) return refusal;
    return has_cluster_each(layout(matrix.row_bytes(), matrix.rows), matrix, gpu);
  }
  static Need needs(const Matrix& /*matrix*/) {
    return {.workspace_bytes = sizeof(TicketCounter), .zeroed = true, .clusters = true};
  }

  template <class Op, class T>
  static auto kernel(const RowOnCluster& /*row*/) {
    return cluster_gradient<Op, T, packs_per_thread>;
  }

  /// The smallest cluster whose blocks have parts of 32 KiB, so that many of them share an SM. It is larger
  /// if there are few rows.
  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t rows) {
    int cluster_size = blocks_of_few_rows(row_bytes, rows);
    while (cluster_size < most_blocks_of_cluster && row_bytes > cluster_size * (32 << 10)) cluster_size *= 2;
    const int part_packs = packs_of_part(row_bytes, cluster_size);
    return {.cluster_size = cluster_size,
            .part_packs = part_packs,
            .packs_per_thread = packs_per_thread,
            .shared_bytes = part_packs * 16};
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const RowOnCluster row = layout(tensors.row_bytes(), tensors.shape.rows);
    const auto own_kernel = kernel<Op, T>(row);
    const std::int64_t clusters = min(tensors.shape.rows, std::int64_t{clusters_at_once(own_kernel, row)});
    launch_clusters(own_kernel, row, clusters, stream, tensors.x, tensors.labels, tensors.loss, tensors.dx,
                    tensors.shape, row.part_packs, static_cast<TicketCounter*>(tensors.workspace),
                    policy_of_reads<T>(2, tensors.shape));
  }
};