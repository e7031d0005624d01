// One exchange instead of two: each GPU reduces its part of the rows to pairs, NCCL gathers the pairs of all
// GPUs, and each GPU merges them and writes its part.
//
// The two kernels are the two kernels of stage 07, whose blocks share a row: each block has a piece of the
// part and sends a pair of its own. The only difference is that the second kernel merges the pairs of all
// ranks. With several chunks of rows, the idea is in launch_gathered(), which overlaps exchanges and reads.
//
// Cost: 3 passes, 2 reads and 1 write (the loss 1 read). In chunks of rows, the second read hits the L2,
// which still holds the chunk from the first read, and the exchange of a chunk overlaps the first read of the
// next: closer to 2 passes from memory.
#pragma once

#include "07_split_row/split_row.cuh"
#include "15_several_gpus/part.cuh"
#include "15_several_gpus/ranks.h"
#include "common/harness/cuda_handles.h"

/// First kernel: a message about each piece of each row. blockIdx.x: the piece, blockIdx.y: the row.
/// messages: rows x gridDim.x.
template <class Op, class T, int pack_size>
__global__ void __launch_bounds__(split_block_size)
    messages_of_part(Part<T> part, DirectLoad<T> load, Message<Op>* messages, std::int64_t piece_cols) {
  __shared__ MaxSum storage[32];
  const PartOfRow piece(piece_cols, part.shape.cols);
  for (std::int64_t row = blockIdx.y; row < part.shape.rows; row += gridDim.y) {
    MaxSum pair{};
    const auto add_to_pair = [&](const float(&values)[pack_size], std::int64_t) { Op::add(pair, values); };
    for_each_pack<pack_size>(DirectLoad<T>{load.x + piece.first_col, load.cols}, row, piece.cols,
                             add_to_pair);
    pair = block_merge<Op>(pair, storage);
    if (threadIdx.x > 0) continue;
    Message<Op> message{pair};
    if constexpr (is_loss<Op>) {
      message.x_label = part.at_label(row, piece.first_col, piece.first_col + piece.cols);
    }
    messages[row * gridDim.x + blockIdx.x] = message;
  }
}

/// Second kernel: every block merges the messages about all pieces of its row, from all ranks, in the same
/// order, and writes its piece. messages: ranks x rows x gridDim.x.
template <class Op, class T, int pack_size>
__global__ void __launch_bounds__(split_block_size)
    write_results(Part<T> part, DirectLoad<T> load, DirectStore<T> store, const Message<Op>* messages,
                  int ranks, std::int64_t piece_cols) {
  __shared__ MaxSum storage[32];
  const PartOfRow piece(piece_cols, part.shape.cols);
  const int pieces = static_cast<int>(gridDim.x);
  for (std::int64_t row = blockIdx.y; row < part.shape.rows; row += gridDim.y) {
    MaxSum total{};
    for (int i = static_cast<int>(threadIdx.x); i < ranks * pieces; i += split_block_size) {
      const std::int64_t row_of_rank = i / pieces * part.shape.rows + row;
      total = Op::merge(total, messages[row_of_rank * pieces + i % pieces].pair);
    }
    total = block_merge<Op>(total, storage);
    const auto write_result = [&, result = RowResult<Op>(total)](float(&values)[pack_size],
                                                                 std::int64_t col) {
#pragma unroll
      for (float& value : values) value = result(value);
      store.template store<pack_size>(values, row, piece.first_col + col);
    };
    for_each_pack<pack_size>(DirectLoad<T>{load.x + piece.first_col, load.cols}, row, piece.cols,
                             write_result);
  }
}

/// Second kernel for the loss: one warp per row merges all messages about it.
template <class T>
__global__ void __launch_bounds__(32)
    merge_losses(Part<T> part, const Message<CrossEntropy>* messages, int ranks, int pieces) {
  for (std::int64_t row = blockIdx.x; row < part.shape.rows; row += gridDim.x) {
    Message<CrossEntropy> total{};
    for (int i = static_cast<int>(threadIdx.x); i < ranks * pieces; i += 32) {
      const std::int64_t row_of_rank = i / pieces * part.shape.rows + row;
      const Message<CrossEntropy> message = messages[row_of_rank * pieces + i % pieces];
      total = {merge(total.pair, message.pair), total.x_label + message.x_label};
    }
    const MaxSum pair = warp_merge<CrossEntropy>(total.pair);
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) total.x_label += shuffle_xor(total.x_label, mask);
    if (threadIdx.x == 0) part.write_loss(row, pair, total.x_label);
  }
}

/// The rows of a part from `first` to first + count.
template <class T>
Part<T> rows_of(Part<T> part, std::int64_t first, std::int64_t count) {
  const auto from = [first](auto* pointer, std::int64_t cols) {
    return pointer == nullptr ? nullptr : pointer + first * cols;
  };
  part.x = from(part.x, part.shape.cols);
  part.y = from(part.y, part.shape.cols);
  part.labels = from(part.labels, 1);
  part.loss = from(part.loss, 1);
  part.shape.rows = count;
  return part;
}

/// How the matrix is cut, the same on all GPUs: into chunks of rows, and each row of a part into pieces.
struct Cutting {
  std::int64_t chunk_rows;
  Split split;  ///< the pieces of the widest part
  /// The size of the messages that one GPU has about that many rows.
  template <class Op>
  [[nodiscard]] std::size_t message_bytes(std::int64_t rows) const {
    return static_cast<std::size_t>(rows * split.parts) * sizeof(Message<Op>);
  }
};

/// Launches the first kernel for the rows of `part` on one GPU; launch_results() launches the second.
template <class Op, class T>
void launch_messages(const Part<T>& part, const Split& split, Message<Op>* messages, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(split.parts),
                  static_cast<unsigned>(min(part.shape.rows, max_grid_rows)));
  with_widest_packs(part.load(), part.load(), [&]<int pack_size>() {
    messages_of_part<Op, T, pack_size>
        <<<grid, split_block_size, 0, stream>>>(part, part.load(), messages, split.part_cols);
    CUDA_CHECK(cudaGetLastError());
  });
}

template <class Op, class T>
void launch_results(const Part<T>& part, const Split& split, const Message<Op>* messages, int ranks,
                    cudaStream_t stream) {
  if constexpr (is_loss<Op>) {
    merge_losses<T>
        <<<grid_for(part.shape.rows), 32, 0, stream>>>(part, messages, ranks, static_cast<int>(split.parts));
  } else {
    const dim3 grid(static_cast<unsigned>(split.parts),
                    static_cast<unsigned>(min(part.shape.rows, max_grid_rows)));
    with_widest_packs(part.load(), part.store(), [&]<int pack_size>() {
      write_results<Op, T, pack_size><<<grid, split_block_size, 0, stream>>>(
          part, part.load(), part.store(), messages, ranks, split.part_cols);
    });
  }
  CUDA_CHECK(cudaGetLastError());
}

/// A second stream per GPU, in which exchanges run while kernels run in the first. Events order the two
/// streams. (They also make the second stream part of a CUDA graph that records the first one.)
class ExchangeStreams {
 public:
  explicit ExchangeStreams(const std::vector<Rank>& ranks) {
    on_each(ranks, [&](const Rank&, std::size_t) {
      own_.push_back({make_stream(), make_event(), {make_event(), make_event()}});
    });
  }
  [[nodiscard]] cudaStream_t stream(std::size_t i) const { return own_[i].stream.get(); }
  /// Work that is enqueued on the second stream from here on waits for all work on `from` so far.
  void begin(std::size_t i, cudaStream_t from) const {
    CUDA_CHECK(cudaEventRecord(own_[i].said.get(), from));
    CUDA_CHECK(cudaStreamWaitEvent(stream(i), own_[i].said.get(), 0));
  }
  /// To be called when the exchange of this chunk has been enqueued.
  void end(std::size_t i, std::int64_t chunk) const {
    CUDA_CHECK(cudaEventRecord(own_[i].gathered[chunk % 2].get(), stream(i)));
  }
  /// Work that is enqueued on `to` from here on waits for the exchange of this chunk. The exchange of the
  /// next chunk may already be enqueued: it has an event of its own, so there are two.
  void join(std::size_t i, std::int64_t chunk, cudaStream_t to) const {
    CUDA_CHECK(cudaStreamWaitEvent(to, own_[i].gathered[chunk % 2].get(), 0));
  }

 private:
  struct OfRank {
    Stream stream;
    Event said;
    Event gathered[2];
  };
  std::vector<OfRank> own_;
};

/// Cuts the rows of the widest part into chunks of at most chunk_bytes. All GPUs must get the same result.
/// Several blocks share a row if one block per row would leave SMs idle. They also share rows of more than 32
/// KiB: at the end of a kernel most SMs are idle until the last blocks have finished, and small pieces finish
/// sooner.
inline Cutting cut_rows(Shape widest, std::size_t element_bytes, std::size_t chunk_bytes) {
  const std::int64_t row_bytes = widest.cols * static_cast<std::int64_t>(element_bytes);
  const auto rows =
      max(static_cast<std::int64_t>(chunk_bytes / static_cast<std::size_t>(row_bytes)), std::int64_t{1});
  const std::int64_t chunk_rows = min(rows, max(widest.rows, std::int64_t{1}));
  const std::int64_t pieces = TwoKernels<Dependence::complete>::split({chunk_rows, widest.cols}).parts;
  return {chunk_rows, split_columns(widest.cols, max(pieces, divide_up(row_bytes, std::int64_t{32 << 10})))};
}

/// Enqueues everything for all ranks of this process. In iteration `chunk`, it enqueues the first kernel and
/// the exchange of that chunk, and then the second kernel of the chunk before it. So with a second stream,
/// the kernels of a GPU run in the order first 0, first 1, second 0, first 2, second 1, ...: while the pairs
/// of chunk 0 are exchanged, the first kernel reads chunk 1.
///
/// world: the number of ranks in all processes. exchange: the second streams, or nullptr if there is only one
/// chunk. workspaces: one per rank of this process, for its own messages and, after them, for the messages of
/// all ranks.
template <class Op, class T>
void launch_gathered(const std::vector<Rank>& ranks, int world, const std::vector<Part<T>>& parts,
                     const std::vector<void*>& workspaces, const Cutting& cutting,
                     const ExchangeStreams* exchange, const Streams& streams) {
  const std::int64_t rows = parts.front().shape.rows;
  const std::int64_t chunks = divide_up(rows, cutting.chunk_rows);
  const auto first_row = [&](std::int64_t chunk) { return chunk * cutting.chunk_rows; };
  const auto rows_in = [&](std::int64_t chunk) { return min(cutting.chunk_rows, rows - first_row(chunk)); };
  const auto own = [&](std::size_t i, std::int64_t chunk) {
    return static_cast<Message<Op>*>(workspaces[i]) + first_row(chunk) * cutting.split.parts;
  };
  const auto gathered = [&](std::size_t i, std::int64_t chunk) {
    return static_cast<Message<Op>*>(workspaces[i]) + (rows + world * first_row(chunk)) * cutting.split.parts;
  };
  const auto stream = [&](std::size_t i) { return streams[static_cast<int>(i)]; };
  for (std::int64_t chunk = 0; chunk <= chunks; ++chunk) {
    if (chunk < chunks) {
      on_each(ranks, [&](const Rank&, std::size_t i) {
        launch_messages<Op>(rows_of(parts[i], first_row(chunk), rows_in(chunk)), cutting.split, own(i, chunk),
                            stream(i));
        if (exchange != nullptr) exchange->begin(i, stream(i));
      });
      as_group(ranks, [&](const Rank& rank, std::size_t i) {
        const std::size_t floats = cutting.message_bytes<Op>(rows_in(chunk)) / sizeof(float);
        check_nccl(ncclAllGather(own(i, chunk), gathered(i, chunk), floats, ncclFloat, rank.comm.get(),
                                 exchange != nullptr ? exchange->stream(i) : stream(i)),
                   "ncclAllGather");
      });
    }
    on_each(ranks, [&](const Rank&, std::size_t i) {
      if (exchange != nullptr && chunk < chunks) exchange->end(i, chunk);
      // The second kernel works on the chunk before.
      const std::int64_t done = chunk - 1;
      if (done < 0) return;
      if (exchange != nullptr) exchange->join(i, done, stream(i));
      launch_results<Op>(rows_of(parts[i], first_row(done), rows_in(done)), cutting.split, gathered(i, done),
                         world, stream(i));
    });
  }
}
