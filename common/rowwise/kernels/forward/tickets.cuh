// From the stage cluster: persistent clusters, as many as the GPU holds, draw a ticket for each row. A
// cluster that is free takes the next row, so SMs that are slower, or get less of the memory's bandwidth, get
// fewer rows. At bf16 256 x 1048576 this reached 86.9 % of the copy's speed; cluster_16, without tickets,
// reached 75.7 % (H200).
#pragma once

#include "common/rowwise/kernels/forward/cluster_row.cuh"

namespace rowwise {

/// The minimum of blocks per SM, for __launch_bounds__. Before compute capability 9.0 the kernel is empty,
/// and an SM may hold only 1024 threads.
constexpr int ticket_blocks_per_sm(int packs_per_thread) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  return 1;
#else
  return packs_per_thread == 4 ? 3 : 1;
#endif
}

/// A thread's pack of the next row takes the place of its pack of this row, as soon as that is written.
template <class Op, class T, int packs_per_thread>
__global__ void __launch_bounds__(packs_per_thread == 4 ? 512 : 1024, ticket_blocks_per_sm(packs_per_thread))
    ticket_softmax(const T* x, T* y, Shape shape, int part_packs, TicketCounter* tickets, L2Policy reads) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_of_group = packs_per_thread / copy_groups;
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ ClusterExchange<Op> exchange;
  exchange.start();

  const cg::cluster_group cluster = cg::this_cluster();
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
    const bool draws = cluster.block_rank() == 0 && threadIdx.x < 32;
    std::int64_t next_row = 0;
    if (draws && threadIdx.x == 0) next_row = clusters + draw_ticket(tickets, shape.rows);
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
    // The ticket was requested before the wait for the row, so it has had that time to arrive.
    if (draws) {
      next_row = __shfl_sync(0xffffffff, next_row, 0);
      send_to_all(&exchange.next_row[round % 2], next_row, &exchange.received[round % 2]);
    }
    const RowResult<Op> result(exchange.merge(own, round, sizeof next_row));
    next_row = exchange.next_row[round % 2];

    T* const part_y = y + row * shape.cols + part.first_col;
#pragma unroll
    for (int group = 0; group < copy_groups; ++group) {
      for_own_packs(group * packs_of_group, (group + 1) * packs_of_group, part.num_packs, [&](int pack) {
        float values[N];
        unpack(load_pack<N>(kept + pack * N), values);
#pragma unroll
        for (float& value : values) value = result(value);
        store_pack(part_y + pack * N, make_pack<T>(values));
        if (next_row < shape.rows) request(next_row, pack);
      });
      __pipeline_commit();
    }
    row = next_row;
  }
#endif
}

/// Rows as for ClusterRow. The workspace is 0 before and after.
struct Tickets {
  static constexpr int cluster_size = 16;

  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    return fits_shared_memory_of_cluster<Tickets>(matrix, gpu);
  }
  static Need needs(const Matrix& /*matrix*/) {
    return {.workspace_bytes = sizeof(TicketCounter), .zeroed = true, .clusters = true};
  }

  /// Four packs per thread, as long as three such blocks fit on an SM. Note N28: 16-bit types take more time
  /// per pack, and eight are faster.
  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t element_bytes) {
    const int part_packs = packs_of_part(row_bytes, cluster_size);
    return {.cluster_size = cluster_size,
            .part_packs = part_packs,
            .packs_per_thread = element_bytes == 4 && part_packs <= 4 * 512 ? 4
                                : part_packs <= 8 * 1024                    ? 8
                                                                            : 16,
            .shared_bytes = part_packs * 16};
  }

  template <class Op, class T, class Use>
  static auto with_kernel(const RowOnCluster& layout, Use use) {
    if constexpr (sizeof(T) == 4) {
      if (layout.packs_per_thread == 4) return use(ticket_softmax<Op, T, 4>);
    }
    return layout.packs_per_thread == 8 ? use(ticket_softmax<Op, T, 8>) : use(ticket_softmax<Op, T, 16>);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const RowOnCluster row = layout(tensors.row_bytes(), sizeof(T));
    with_kernel<Op, T>(row, [&](auto kernel) {
      const std::int64_t clusters = min(tensors.shape.rows, std::int64_t{clusters_at_once(kernel, row)});
      launch_clusters(kernel, row, clusters, stream, tensors.x, tensors.y, tensors.shape, row.part_packs,
                      static_cast<TicketCounter*>(tensors.workspace), policy_of_reads<T>(2, tensors.shape));
    });
  }
};

}  // namespace rowwise
