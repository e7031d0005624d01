// One exchange instead of two: each GPU reduces its part of the rows to pairs, NCCL gathers the pairs of all
// GPUs, and each GPU merges them and writes its part.
//
// The two kernels are the two kernels of stage 07, whose blocks share a row: each block has a piece of the
// part and sends a pair of its own. The only difference is that the second kernel merges the pairs of all
// ranks.
//
// Cost: 3 passes, 2 reads and 1 write (the loss 1 read).
#pragma once

#include "07_split_row/split_row.cuh"
#include "15_several_gpus/part.cuh"
#include "15_several_gpus/ranks.h"

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

/// rows = 0 does nothing. workspaces: one per rank of this process, for its own messages and, after them, for
/// the messages of all ranks. All GPUs need the same `split`. Throws CudaError, or std::runtime_error of NCCL.
struct HostCollectives {
  /// The pieces of the widest part. Several blocks share a row if one block per row would leave SMs idle. They
  /// also share rows of more than 32 KiB: at the end of a kernel most SMs are idle until the last blocks have
  /// finished, and small pieces finish sooner.
  static Split split(Shape widest, std::int64_t element_bytes) {
    widest.rows = max(widest.rows, std::int64_t{1});
    const std::int64_t pieces = TwoKernels<Dependence::complete>::split(widest).parts;
    const std::int64_t row_bytes = widest.cols * element_bytes;
    return split_columns(widest.cols, max(pieces, divide_up(row_bytes, std::int64_t{32 << 10})));
  }
  /// The size of the messages that one GPU has.
  template <class Op>
  static std::size_t message_bytes(std::int64_t rows, const Split& split) {
    return static_cast<std::size_t>(rows * split.parts) * sizeof(Message<Op>);
  }

  /// world: the number of ranks in all processes.
  template <class Op, class T>
  static void launch(const std::vector<Rank>& ranks, int world, const std::vector<Part<T>>& parts,
                     const std::vector<void*>& workspaces, const Split& split, const Streams& streams) {
    const std::int64_t rows = parts.front().shape.rows;
    if (rows == 0) return;
    const auto own = [&](std::size_t i) { return static_cast<Message<Op>*>(workspaces[i]); };
    const auto gathered = [&](std::size_t i) { return own(i) + rows * split.parts; };
    const auto stream = [&](std::size_t i) { return streams[static_cast<int>(i)]; };
    on_each(ranks,
            [&](const Rank&, std::size_t i) { launch_messages<Op>(parts[i], split, own(i), stream(i)); });
    as_group(ranks, [&](const Rank& rank, std::size_t i) {
      check_nccl(ncclAllGather(own(i), gathered(i), message_bytes<Op>(rows, split) / sizeof(float), ncclFloat,
                               rank.comm.get(), stream(i)),
                 "ncclAllGather");
    });
    on_each(ranks, [&](const Rank&, std::size_t i) {
      launch_results<Op>(parts[i], split, gathered(i), world, stream(i));
    });
  }

 private:
  static dim3 grid(const Split& split, std::int64_t rows) {
    return {static_cast<unsigned>(split.parts), static_cast<unsigned>(min(rows, max_grid_rows))};
  }

  template <class Op, class T>
  static void launch_messages(const Part<T>& part, const Split& split, Message<Op>* messages,
                              cudaStream_t stream) {
    with_widest_packs(part.load(), part.load(), [&]<int pack_size>() {
      messages_of_part<Op, T, pack_size><<<grid(split, part.shape.rows), split_block_size, 0, stream>>>(
          part, part.load(), messages, split.part_cols);
      CUDA_CHECK(cudaGetLastError());
    });
  }

  template <class Op, class T>
  static void launch_results(const Part<T>& part, const Split& split, const Message<Op>* messages, int ranks,
                             cudaStream_t stream) {
    if constexpr (is_loss<Op>) {
      merge_losses<T><<<grid_for(part.shape.rows), 32, 0, stream>>>(part, messages, ranks,
                                                                    static_cast<int>(split.parts));
    } else {
      with_widest_packs(part.load(), part.store(), [&]<int pack_size>() {
        write_results<Op, T, pack_size><<<grid(split, part.shape.rows), split_block_size, 0, stream>>>(
            part, part.load(), part.store(), messages, ranks, split.part_cols);
      });
    }
    CUDA_CHECK(cudaGetLastError());
  }
};
