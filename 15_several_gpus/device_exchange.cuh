// One kernel per GPU. It keeps its part of a row in shared memory while it exchanges messages with the
// kernels on the other GPUs, by stores into their memory (mailbox.cuh).
//
// As in stage 10, a cluster shares the part, and each of its blocks keeps a piece of it. (A whole row belongs
// to all GPUs, a part to one GPU, a piece to one block.) exchange_messages() is the only new step: it comes
// after the merge over the cluster. At a first reading, follow the steps of the loop over rows and skip their
// details. The rest is as in the library's tickets.cuh, which does two things that stage 10 does not:
// - Clusters are persistent. The grid has only as many as the GPU holds, and a cluster that has finished a
//   row draws a ticket: it adds 1 to a counter in global memory, and gets the number of its next row.
// - Loads of the next row begin early. As soon as a thread has written a pack of this row, it requests the
//   same pack of the next row, into the same place in shared memory.
//
// Cost: 2 passes, 1 read and 1 write (the loss 1 read), and 16 bytes per row to each other GPU. A message
// takes about two microseconds. Other clusters on the SM hide this time if they read or write meanwhile.
//
// The kernels wait for each other, but not for ever, because all GPUs draw their rows in the same order: see
// the lesson. One cluster per GPU is enough for that, and GPUs may hold different numbers of them.
#pragma once

#include "15_several_gpus/mailbox.cuh"
#include "common/rowwise/kernels/forward/tickets.cuh"

/// With 16 packs per thread, a block has few threads. Then registers allow as many blocks on an SM as shared
/// memory does.
constexpr int exchange_packs_per_thread = 16;

/// piece_packs: the packs of a piece; the last ones may have fewer. tickets: 0 before and after.
///
/// Note N16: without the minimum of 1 block, the compiler uses fewer registers than the 64 that each of 1024
/// threads may have, and the kernel is slower.
template <class Op, class T>
__global__ void __launch_bounds__(1024, 1)
    exchange_parts(Part<T> part, int piece_packs, Mail mail, TicketCounter* tickets) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = elements_per_16_bytes<T>;
  // A thread requests its packs in copy_groups groups (see common/kernel/async_copy.cuh), of 4 packs each.
  constexpr int packs_of_group = exchange_packs_per_thread / copy_groups;
  extern __shared__ __align__(128) unsigned char buffer[];
  // This is OneWay of stage 10, for one row after the other (see common/kernel/cluster_exchange.cuh). Each
  // block receives in it the pairs of all blocks and the number of the next row. It has two copies of each,
  // which successive rows use alternately.
  __shared__ ClusterExchange<Op> exchange;
  __shared__ MaxSum total;  // the pair of the whole row
  // The number of this launch. The cluster that draws the last ticket adds 1 for the next launch. By then,
  // all threads have read the number: they read it before the cluster's barrier below, and every cluster
  // draws a ticket, but only after that barrier.
  const cuda::atomic_ref<unsigned, cuda::thread_scope_device> launch(*mail.launch);
  const unsigned number = launch.load(cuda::memory_order_acquire);
  exchange.start();

  const auto [rows, cols] = part.shape;
  const cg::cluster_group cluster = cg::this_cluster();
  const bool is_first = cluster.block_rank() == 0;
  const unsigned clusters = gridDim.x / cluster.num_blocks();
  const PartOfCluster<N> piece(piece_packs, cols);  // the columns of this block
  T* const kept = reinterpret_cast<T*>(buffer);
  // Requests a pack of this block's piece of a row, by an asynchronous copy into shared memory.
  const auto request = [&](std::int64_t row, int pack) {
    __pipeline_memcpy_async(kept + pack * N, part.x + row * cols + piece.first_col + pack * N, 16);
  };
  // Calls use(pack) for this thread's packs of a group. As in stage 10, these are blockDim.x packs apart:
  // group 0 has the packs threadIdx.x + i * blockDim.x of the piece for i = 0 to 3, group 1 those for i = 4
  // to 7. for_own_packs() leaves out packs past the end of the piece.
  const auto for_packs_of = [&](int group, auto use) {
    for_own_packs(group * packs_of_group, (group + 1) * packs_of_group, piece.num_packs, use);
  };
  // The first row of a cluster is that of its own number: no ticket is needed for it.
  std::int64_t row = blockIdx.x / cluster.num_blocks();
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    for_packs_of(group, [&](int pack) { request(row, pack); });
    __pipeline_commit();  // closes the group
  }
  ptx::barrier_cluster_wait();  // All blocks have started and have initialised their mbarriers.

  // round: how many rows this cluster has finished.
  for (unsigned round = 0; row < rows; ++round) {
    // The first warp of the cluster's first block draws the next row. The ticket is used only after the packs
    // of this row have arrived, so it arrives in the meantime.
    const bool draws = is_first && threadIdx.x < 32;
    std::int64_t next_row = 0;
    Message<Op> message{};
    if (draws && threadIdx.x == 0) {
      // Ticket t stands for row clusters + t, because the first rows have no ticket. A cluster draws one
      // ticket for each row that it works on; the last one stands for a row past the end. So the clusters
      // draw `rows` tickets in all, from 0 on, and draw_ticket() sets the counter back to 0.
      const unsigned ticket = draw_ticket(tickets, rows);
      if (ticket == rows - 1) launch.store(number + 1, cuda::memory_order_relaxed);
      next_row = std::int64_t{clusters} + ticket;
    }
    if constexpr (is_loss<Op>) {
      if (draws) message.x_label = part.at_label(row, 0, cols);
    }
    // Each thread merges its packs into a pair, group by group, as the groups arrive.
    typename Op::State own{};
#pragma unroll
    for (int group = 0; group < copy_groups; ++group) {
      // Waits for this group; the later ones may still be on their way.
      __pipeline_wait_prior(copy_groups - 1 - group);
      for_packs_of(group, [&](int pack) {
        float values[N];
        unpack(load_pack<N>(kept + pack * N), values);
        Op::add(own, values);
      });
    }
    // __shfl_sync broadcasts lane 0's number of the next row to the warp, and lane i sends it to block i.
    // merge() waits for these bytes as for the pairs.
    if (draws) {
      next_row = __shfl_sync(0xffffffff, next_row, 0);
      send_to_all(&exchange.next_row[round % 2], next_row, &exchange.received[round % 2]);
    }
    message.pair = exchange.merge(own, round, sizeof next_row);
    next_row = exchange.next_row[round % 2];
    // Now each block has the pair of this GPU's part. The first block sends it to the other GPUs, and the
    // first warp of each block waits for the messages of all GPUs. (For the loss, only the first block does.)
    if (threadIdx.x < 32 && (!is_loss<Op> || is_first)) {
      const Message<Op> of_row = exchange_messages<Op>(mail, message, is_first, row, number);
      if (threadIdx.x == 0) total = of_row.pair;
      if constexpr (is_loss<Op>) {
        if (threadIdx.x == 0) part.write_loss(row, of_row.pair, of_row.x_label);
      }
    }
    // After this barrier, all threads can read `total`. merge() has barriers, too, so `total` is not written
    // again before all threads have read it.
    if constexpr (!is_loss<Op>) __syncthreads();

    // Each thread writes its packs, and requests those of the next row into their places.
    const RowResult<std::conditional_t<is_loss<Op>, Softmax, Op>> result(total);  // a loss does not use it
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
  // For softmax, every block has waited for all GPUs. For the loss, only the first block of a cluster has,
  // and the others leave together with it.
  if constexpr (is_loss<Op>) cluster.sync();
#endif
}

/// For parts of whole aligned packs; rows = 0 does nothing. The workspace is a TicketCounter per rank of this
/// process, 0 before and after. Throws CudaError.
struct DeviceExchange {
  /// The size of all letters that a rank may receive in a launch: one per row and rank.
  template <class Op>
  static std::size_t message_bytes(std::int64_t rows, int ranks) {
    return static_cast<std::size_t>(rows * ranks) * sizeof(Letter<Op>);
  }

  /// The smallest cluster whose pieces have at most 80 KiB, or else the largest. Small clusters leave fewer
  /// SMs idle than clusters of sixteen (stage 10). But an SM should hold at least two pieces: while one block
  /// waits for messages, the others read and write.
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

  /// How many clusters the current GPU holds at a time. Call it for each GPU before the first launch on any,
  /// because it also loads the kernel. Loading may wait for kernels that are running, and these may already
  /// wait for messages of this GPU: that would be a deadlock.
  template <class Op, class T>
  static int clusters(std::int64_t cols) {
    return clusters_at_once(exchange_parts<Op, T>, layout(cols * std::int64_t{sizeof(T)}));
  }

  /// Launches the kernel of one GPU. The host calls it for each of them, without waiting in between.
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
