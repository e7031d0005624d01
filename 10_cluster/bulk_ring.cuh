// Tickets again; but one thread of a block requests the part of a row in one piece, and three rows lie in shared memory: one
// that is read and written, two on their way.
#pragma once

#include "common/rowwise/kernels/forward/tickets.cuh"

constexpr int slots_of_ring = 3;

template <class Op, class T>
__global__ void __launch_bounds__(1024)
    bulk_ring_softmax(const T* x, T* y, Shape shape, int part_packs, TicketCounter* tickets) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_per_thread = 8;
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ ClusterExchange<Op> exchange;
  __shared__ MemoryBarrier full[slots_of_ring];  // a mbarrier each: one arrival, and the bytes of a part
  if (threadIdx.x == 0) {
#pragma unroll
    for (MemoryBarrier& slot : full) ptx::mbarrier_init(&slot, 1);
  }
  exchange.start();  // has the fence that the barriers above need, too
  __syncthreads();

  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned clusters = gridDim.x / cluster.num_blocks();
  const PartOfCluster<N> part(part_packs, shape.cols);
  const auto slot_of = [&](unsigned round) {
    return reinterpret_cast<T*>(buffer) + round % slots_of_ring * part_packs * N;
  };
  const auto request = [&](std::int64_t row, unsigned round) {
    if (threadIdx.x != 0 || row >= shape.rows || part.num_packs <= 0) return;
    const auto bytes = static_cast<unsigned>(16 * part.num_packs);
    copy_bulk_async(slot_of(round), x + row * shape.cols + part.first_col, bytes,
                    &full[round % slots_of_ring]);
  };
  std::int64_t rows[slots_of_ring + 1];  // of this round and those after it
#pragma unroll
  for (unsigned round = 0; round < slots_of_ring; ++round) {
    rows[round] = blockIdx.x / cluster.num_blocks() + round * std::int64_t{clusters};
    request(rows[round], round);
  }
  ptx::barrier_cluster_wait();

  for (unsigned round = 0; rows[0] < shape.rows; ++round) {
    const bool draws = cluster.block_rank() == 0 && threadIdx.x < 32;
    std::int64_t drawn = 0;
    if (draws && threadIdx.x == 0)
      drawn = slots_of_ring * std::int64_t{clusters} + draw_ticket(tickets, shape.rows);
    const T* const kept = slot_of(round);
    typename Op::State own{};
    if (part.num_packs > 0) wait_for_phase(&full[round % slots_of_ring], round / slots_of_ring % 2);
    for_own_packs(0, packs_per_thread, part.num_packs, [&](int pack) {
      float values[N];
      unpack(load_pack<N>(kept + pack * N), values);
      Op::add(own, values);
    });
    if (draws) {
      drawn = __shfl_sync(0xffffffff, drawn, 0);
      send_to_all(&exchange.next_row[round % 2], drawn, &exchange.received[round % 2]);
    }
    const RowResult<Op> result(exchange.merge(own, round, sizeof drawn));
    rows[slots_of_ring] = exchange.next_row[round % 2];
    // The barrier in merge() was behind the threads' last look at the row before: its slot is free.
    if (round > 0) request(rows[slots_of_ring - 1], round + slots_of_ring - 1);

    T* const part_y = y + rows[0] * shape.cols + part.first_col;
    for_own_packs(0, packs_per_thread, part.num_packs, [&](int pack) {
      float values[N];
      unpack(load_pack<N>(kept + pack * N), values);
#pragma unroll
      for (float& value : values) value = result(value);
      store_pack(part_y + pack * N, make_pack<T>(values));
    });
#pragma unroll
    for (int i = 0; i < slots_of_ring; ++i) rows[i] = rows[i + 1];
  }
#endif
}

/// As Tickets.
struct BulkRing {
  static constexpr int cluster_size = 16;
  static constexpr int slots = slots_of_ring;

  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    return fits_shared_memory_of_cluster<BulkRing>(matrix, gpu);
  }
  static Need needs(const Matrix& /*matrix*/) {
    return {.workspace_bytes = sizeof(TicketCounter), .zeroed = true, .clusters = true};
  }

  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t /*element_bytes*/) {
    const int part_packs = packs_of_part(row_bytes, cluster_size);
    return {.cluster_size = cluster_size,
            .part_packs = part_packs,
            .packs_per_thread = 8,
            .shared_bytes = slots_of_ring * part_packs * 16};
  }

  template <class Op, class T, class Use>
  static auto with_kernel(const RowOnCluster& /*layout*/, Use use) {
    return use(bulk_ring_softmax<Op, T>);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const RowOnCluster row = layout(tensors.row_bytes(), sizeof(T));
    with_kernel<Op, T>(row, [&](auto kernel) {
      const std::int64_t clusters = min(tensors.shape.rows, std::int64_t{clusters_at_once(kernel, row)});
      launch_clusters(kernel, row, clusters, stream, tensors.x, tensors.y, tensors.shape, row.part_packs,
                      static_cast<TicketCounter*>(tensors.workspace));
    });
  }
};
