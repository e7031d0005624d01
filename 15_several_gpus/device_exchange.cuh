// One kernel on each GPU, which keeps its part of a row on chip while it exchanges messages with the others, by stores into their
// memory. It is the library's tickets.cuh, with one more step between merge and write.
//
// Cost: 2 passes, 1 read and 1 write (the loss 1 read), and 16 bytes per row to each other GPU. A message
// takes about two microseconds. That time is hidden if other clusters of an SM read or write in the meantime,
// and because a thread requests its packs of the next row as soon as it has written those of this one.
//
// Kernels that wait for each other must not keep each other from running. Each GPU draws its rows in the same order. Take
// the first row that some GPU has not sent yet. There it is drawn already, by a cluster that runs and has only earlier
// rows to finish, which all have sent; or it is drawn by the next cluster that finishes one of those. Either way it will be
// sent. No GPU has to hold more than one cluster for that, nor as many as another one.
#pragma once

#include "15_several_gpus/mailbox.cuh"
#include "common/rowwise/kernels/forward/tickets.cuh"

/// So many that a block has few threads: then registers allow as many blocks on an SM as shared memory does.
constexpr int exchange_packs_per_thread = 16;

/// Note N16: without the minimum of 1 block, the compiler takes fewer registers than the 64 that 1024 threads
/// may have, and the kernel is slower.
template <class Op, class T>
__global__ void __launch_bounds__(1024, 1)
    exchange_parts(Part<T> part, int piece_packs, Mail mail, TicketCounter* tickets) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_of_group = exchange_packs_per_thread / copy_groups;
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ ClusterExchange<Op> exchange;
  __shared__ MaxSum total;
  // Read before any block draws the last ticket, which changes it to the number of the next launch.
  const cuda::atomic_ref<unsigned, cuda::thread_scope_device> launch(*mail.launch);
  const unsigned number = launch.load(cuda::memory_order_acquire);
  exchange.start();

  const auto [rows, cols] = part.shape;
  const cg::cluster_group cluster = cg::this_cluster();
  const bool is_first = cluster.block_rank() == 0;
  const unsigned clusters = gridDim.x / cluster.num_blocks();
  const PartOfCluster<N> piece(piece_packs, cols);
  T* const kept = reinterpret_cast<T*>(buffer);
  const auto request = [&](std::int64_t row, int pack) {
    __pipeline_memcpy_async(kept + pack * N, part.x + row * cols + piece.first_col + pack * N, 16);
  };
  const auto for_packs_of = [&](int group, auto use) {
    for_own_packs(group * packs_of_group, (group + 1) * packs_of_group, piece.num_packs, use);
  };
  std::int64_t row = blockIdx.x / cluster.num_blocks();
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    for_packs_of(group, [&](int pack) { request(row, pack); });
    __pipeline_commit();
  }
  ptx::barrier_cluster_wait();

  for (unsigned round = 0; row < rows; ++round) {
    const bool draws = is_first && threadIdx.x < 32;
    std::int64_t next_row = 0;
    Message<Op> message{};
    if (draws && threadIdx.x == 0) {
      const unsigned ticket = draw_ticket(tickets, rows);
      if (ticket == rows - 1) launch.store(number + 1, cuda::memory_order_relaxed);
      next_row = std::int64_t{clusters} + ticket;
    }
    if constexpr (is_loss<Op>) {
      if (draws) message.x_label = part.at_label(row, 0, cols);
    }
    typename Op::State own{};
#pragma unroll
    for (int group = 0; group < copy_groups; ++group) {
      __pipeline_wait_prior(copy_groups - 1 - group);
      for_packs_of(group, [&](int pack) {
        float values[N];
        unpack(load_pack<N>(kept + pack * N), values);
        Op::add(own, values);
      });
    }
    if (draws) {
      next_row = __shfl_sync(0xffffffff, next_row, 0);
      send_to_all(&exchange.next_row[round % 2], next_row, &exchange.received[round % 2]);
    }
    message.pair = exchange.merge(own, round, sizeof next_row);
    next_row = exchange.next_row[round % 2];
    // The first block sends the cluster's message; each block waits for the messages of all GPUs.
    if (threadIdx.x < 32 && (!is_loss<Op> || is_first)) {
      const Message<Op> of_row = exchange_messages<Op>(mail, message, is_first, row, number);
      if (threadIdx.x == 0) total = of_row.pair;
      if constexpr (is_loss<Op>) {
        if (threadIdx.x == 0) part.write_loss(row, of_row.pair, of_row.x_label);
      }
    }
    if constexpr (!is_loss<Op>) __syncthreads();

    const RowResult<std::conditional_t<is_loss<Op>, Softmax, Op>> result(total);  // of a loss not used
    T* const piece_y = part.y + row * cols + piece.first_col;
#pragma unroll
    for (int group = 0; group < copy_groups; ++group) {
      for_packs_of(group, [&](int pack) {
        if constexpr (!is_loss<Op>) {
          float values[N];
          unpack(load_pack<N>(kept + pack * N), values);
#pragma unroll
          for (float& value : values) value = result(value);
          store_pack(piece_y + pack * N, make_pack<T>(values));
        }
        if (next_row < rows) request(next_row, pack);
      });
      __pipeline_commit();
    }
    row = next_row;
  }
  // Blocks that write wait for all GPUs in each row. Blocks of a loss do not, except for the first: the
  // others leave together with it.
  if constexpr (is_loss<Op>) cluster.sync();
#endif
}

/// For parts of whole aligned packs; rows = 0 does nothing. workspaces: a TicketCounter of each rank of this process, 0 before and
/// after. Throws CudaError.
struct DeviceExchange {
  template <class Op>
  static std::size_t message_bytes(std::int64_t rows, int ranks) {
    return static_cast<std::size_t>(rows * ranks) * sizeof(Letter<Op>);
  }

  /// Two blocks of a cluster keep most of a GPU's SMs busy, sixteen leave some empty. But an SM should hold several: while
  /// one exchanges, others read and write.
  static RowOnCluster layout(std::int64_t part_bytes) {
    constexpr int most_packs_wanted = 80 * 1024 / 16;
    int cluster_size = 2;
    while (cluster_size < most_blocks_of_cluster &&
           packs_of_part(part_bytes, cluster_size) > most_packs_wanted) {
      cluster_size *= 2;
    }
    const int piece_packs = packs_of_part(part_bytes, cluster_size);
    return {.cluster_size = cluster_size,
            .part_packs = piece_packs,
            .packs_per_thread = exchange_packs_per_thread,
            .shared_bytes = piece_packs * 16};
  }

  /// How many clusters the current GPU holds at a time. To be called on each before the first launch on any: it loads the kernel,
  /// which may have to wait for kernels that run, and those may already wait for this GPU.
  template <class Op, class T>
  static int clusters(std::int64_t cols) {
    return clusters_at_once(exchange_parts<Op, T>, layout(cols * std::int64_t{sizeof(T)}));
  }

  template <class Op, class T>
  static void launch(const Part<T>& part, const Mail& mail, void* workspace, cudaStream_t stream) {
    const auto [rows, cols] = part.shape;
    if (rows == 0) return;
    const RowOnCluster row = layout(cols * std::int64_t{sizeof(T)});
    const std::int64_t at_once = min(rows, std::int64_t{clusters<Op, T>(cols)});
    launch_clusters(exchange_parts<Op, T>, row, at_once, stream, part, row.part_packs, mail,
                    static_cast<TicketCounter*>(workspace));
  }
};
