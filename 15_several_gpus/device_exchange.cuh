// One kernel per GPU. It keeps its part of each row in shared memory while it exchanges messages with the
// kernels on the other GPUs, by stores into their memory (mailbox.cuh).
//
// It is the kernel of stage 10: a cluster shares the part, each of its blocks keeps a piece of it, and they
// merge their pairs by OneWay. The loops over packs are functions of stage 09. (A whole row belongs to all
// GPUs, a part to one GPU, a piece to one block.)
// Two steps are new: a cluster draws its row at the beginning (take_turn), and the GPUs exchange messages
// after the merge (exchange_messages).
//
// Cost: 2 passes, 1 read and 1 write (the loss 1 read), and 16 bytes per row to each other GPU. A message
// takes about two microseconds. Other clusters on the SM hide this time if they read or write meanwhile.
//
// The kernels wait for each other, but not for ever, because all GPUs begin their rows in the same order: see
// the lesson.
#pragma once

#include "09_async_copy/own_packs.cuh"
#include "10_cluster/cluster.cuh"
#include "15_several_gpus/mailbox.cuh"
#include "common/kernel/cluster_launch.cuh"

/// A cluster's row. Clusters start in an order that CUDA does not promise, so each draws the number of its
/// row from a counter when it starts: a ticket. `launch` is the number of this launch.
struct Turn {
  unsigned row;
  unsigned launch;
};

/// Returns the next row and the number of the launch; skip the body at a first reading. draw_ticket adds 1 to
/// the counter `tickets`, and sets it back to 0 after the last row. The thread with the last ticket adds 1 to
/// the number of the launch; by then, all others have read it.
__device__ inline Turn take_turn(TicketCounter* tickets, unsigned* launch, std::int64_t rows) {
  const cuda::atomic_ref<unsigned, cuda::thread_scope_device> number(*launch);
  // Acquire: the number is read before the ticket is drawn.
  Turn turn{.row = 0, .launch = number.load(cuda::memory_order_acquire)};
  turn.row = draw_ticket(tickets, rows);
  if (turn.row == rows - 1) number.store(turn.launch + 1, cuda::memory_order_relaxed);
  return turn;
}

/// One cluster per row. piece_packs: the packs of a block's piece; the last piece may have fewer.
template <class Op, class T>
__global__ void __launch_bounds__(1024)
    exchange_parts(Part<T> part, int piece_packs, Mail mail, TicketCounter* tickets) {
#if __CUDA_ARCH__ >= 900
  constexpr int N = elements_per_16_bytes<T>;
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ MaxSum pairs_of_warps[32];
  __shared__ OneWay<Op> exchange;
  __shared__ Turn turn_of_cluster;  // in the first block
  __shared__ MaxSum total;          // the pair of the whole row
  const cg::cluster_group cluster = cg::this_cluster();
  const bool is_first = cluster.block_rank() == 0;
  if (is_first && threadIdx.x == 0) turn_of_cluster = take_turn(tickets, mail.launch, part.shape.rows);
  cluster.sync();
  const Turn turn = *cluster.map_shared_rank(&turn_of_cluster, 0);
  const std::int64_t row = turn.row;
  exchange.start();

  // first_col and num_packs of this block's piece, as stage 10 computes them.
  const PartOfCluster<N> piece(piece_packs, part.shape.cols);
  const T* piece_x = part.x + row * part.shape.cols + piece.first_col;
  T* kept = reinterpret_cast<T*>(buffer);
  request_row(kept, piece_x, piece.num_packs);
  Message<Op> message{};
  if constexpr (is_loss<Op>) {
    if (is_first && threadIdx.x < 32) message.x_label = part.at_label(row, 0, part.shape.cols);
  }
  __pipeline_wait_prior(0);
  const MaxSum own = reduce_packs<Op>(kept, piece.num_packs);
  message.pair = exchange.merge(block_merge_once<Op>(own, pairs_of_warps));

  // Now each block has the pair of this GPU's part. The first block sends it to the other GPUs; every block
  // waits for theirs. The loss needs only the first block.
  if (is_loss<Op> && !is_first) return;
  if (threadIdx.x < 32) {
    const Message<Op> of_row = exchange_messages<Op>(mail, message, is_first, row, turn.launch);
    if (threadIdx.x == 0) total = of_row.pair;
    if constexpr (is_loss<Op>) {
      if (threadIdx.x == 0) part.write_loss(row, of_row.pair, of_row.x_label);
    }
  }
  if constexpr (!is_loss<Op>) {
    __syncthreads();
    T* piece_y = part.y + row * part.shape.cols + piece.first_col;
    write_packs(piece_y, kept, piece.num_packs, RowResult<Op>(total));
  }
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
            .packs_per_thread = piece_packs <= 8 * 1024 ? 8 : 16,  // a block has at most 1024 threads
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
    launch_clusters(exchange_parts<Op, T>, row, rows, stream, part, row.part_packs, mail,
                    static_cast<TicketCounter*>(workspace));
  }
};
