// From the stage cross_entropy: the loss alone, of a row that is read once and not kept. Beyond the stage's
// one_read, rows are cut at boundaries of packs, and drawn_rows loads the next row while it merges this one.
// At bf16 4096 x 50257, one_read reached 92.6 % of the ceiling and drawn_rows 97.7 %; the stage's one_read,
// which loads single elements there, reached 39.9 % (H200).
#pragma once

#include "common/kernel/async_copy.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/persistent_blocks.cuh"
#include "common/rowwise/kernels/loss/turn.cuh"

namespace rowwise {

/// blockDim.x threads per row. If they are one warp, the block has blockDim.y rows, whose warps never
/// synchronise.
template <class Op, int packs_per_turn, class T>
__global__ void __launch_bounds__(1024)
    one_read_loss(const T* x, const std::int64_t* labels, float* loss, Shape shape, unsigned boundary) {
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    const T* row_x = x + row * shape.cols;
    std::int64_t label = 0;
    if (threadIdx.x == 0) label = labels[row];  // used late, when it has arrived
    const auto own = reduce_elements<Op, packs_per_turn>(row_x, static_cast<int>(shape.cols), boundary);
    const Element<T> x_label(row_x, label, threadIdx.x == 0 ? shape.cols : 0);  // the L2 still has it
    const typename Op::State state = merge_threads_of_row<Op>(own.state());
    if (threadIdx.x == 0) loss[row] = loss_of_row<Op>(state, x_label.value(), label, shape.cols);
  }
}

/// Persistent blocks draw rows. A thread loads its next iteration, even of the next row, before it adds up
/// this one, so that loads are in flight also while the threads synchronise.
template <class Op, int packs_per_turn, class T>
__global__ void __launch_bounds__(1024) drawn_rows_loss(const T* x, const std::int64_t* labels, float* loss,
                                                        Shape shape, TicketCounter* tickets) {
  constexpr int N = elements_per_16_bytes<T>;
  // There are two of each, for alternate rows: each is written again only after the other's barrier.
  __shared__ typename Op::State storage[2][32];
  __shared__ unsigned drawn[2];
  const auto cut_of = [&](const T* row_x, unsigned row) {
    return Cut<N>(row_x, row < shape.rows ? static_cast<int>(shape.cols) : 0, line_bytes);
  };
  unsigned row = blockIdx.x;
  unsigned next = row + gridDim.x;
  const T* row_x = x + row * shape.cols;
  Cut<N> cut = cut_of(row_x, row);
  // These belong to the iteration that is loaded ahead.
  const T* ahead_x = row_x;
  Cut<N> ahead_cut = cut;
  Turn<T, packs_per_turn> ahead;
  ahead.fetch(ahead_x, ahead_cut, 0);
  for (int parity = 0; row < shape.rows; parity = 1 - parity) {
    unsigned ticket = 0;
    std::int64_t label = 0;
    if (threadIdx.x == 0) {
      ticket = draw_ticket(tickets, shape.rows);
      label = labels[row];
    }
    typename Op::Own own;
    bool is_last = false;
    for (int pack = 0; !is_last; pack += ahead.step()) {
      const Turn<T, packs_per_turn> turn = ahead;
      is_last = pack + ahead.step() >= cut.num_packs;
      if (is_last) {
        ahead_x = x + next * shape.cols;
        ahead_cut = cut_of(ahead_x, next);
      }
      ahead.fetch(ahead_x, ahead_cut, is_last ? 0 : pack + ahead.step());
      turn.template add_to<Op>(own, cut, pack);
    }
    const Element<T> x_label(row_x, label, threadIdx.x == 0 ? shape.cols : 0);
    if (threadIdx.x == 0) drawn[parity] = 2 * gridDim.x + ticket;
    const typename Op::State state = block_merge_once<Op>(own.state(), storage[parity]);
    if (threadIdx.x == 0) loss[row] = loss_of_row<Op>(state, x_label.value(), label, shape.cols);
    row = next;
    row_x = ahead_x;
    cut = ahead_cut;
    next = drawn[parity];
  }
}

// ---- The launchers of the loss, for any width up to 2^30 columns at any address; rows = 0 does nothing.
// They throw CudaError.

struct OneRead : MakesLoss {
  static constexpr int packs_per_turn = 4;
  /// Blocks are small: while the threads of one synchronise, other blocks of the SM read.
  static constexpr int most_threads = 256;

  /// A row that two iterations of a warp can read gets one warp, and a block has four of them.
  static dim3 block(std::int64_t row_bytes) {
    if (row_bytes / 16 <= 2 * 32 * packs_per_turn) return {32, 4};
    return threads_of_turns(row_bytes, packs_per_turn, most_threads);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const dim3 threads = block(tensors.row_bytes());
    const unsigned blocks = grid_for(divide_up(tensors.shape.rows, threads.y));
    // The boundary is a line of the cache, unless there could then be more single elements than a warp has
    // lanes.
    const unsigned boundary = threads.x == 32 ? 16 : line_bytes;
    one_read_loss<Op, packs_per_turn>
        <<<blocks, threads, 0, stream>>>(tensors.x, tensors.labels, tensors.loss, tensors.shape, boundary);
    CUDA_CHECK(cudaGetLastError());
  }
};

/// workspace: a TicketCounter, which is 0 before and after.
struct DrawnRows : MakesLoss {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = DrawsRows::refuses(matrix, gpu)) return refusal;
    return MakesLoss::refuses(matrix, gpu);
  }
  static Need needs(const Matrix& matrix) { return DrawsRows::needs(matrix); }

  static constexpr int packs_per_turn = 4;
  static constexpr int warps_of_sm = 32;  ///< with 64 registers per thread

  /// Chooses the number of threads that needs the fewest iterations for all rows. A last iteration that is
  /// nearly empty costs as much as a full one; and because blocks do not end together, half a row is added to
  /// each block's share. With fewer than four iterations per row, synchronising takes too much of the time.
  static int threads(std::int64_t row_bytes, std::int64_t rows, std::int64_t sms) {
    const std::int64_t packs = divide_up(row_bytes, 16);
    int best = 4;
    double fewest_turns = INFINITY;
    for (int warps = best; warps <= warps_of_sm; ++warps) {
      const std::int64_t turns_of_row = divide_up(packs, std::int64_t{32} * warps * packs_per_turn);
      const double rows_of_block = static_cast<double>(rows) / static_cast<double>(warps_of_sm / warps * sms);
      const double turns = static_cast<double>(turns_of_row) * (rows_of_block + 0.5);
      if (turns_of_row < 4 || turns > fewest_turns) continue;
      best = warps;
      fewest_turns = turns;
    }
    return 32 * best;
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const auto kernel = drawn_rows_loss<Op, packs_per_turn, T>;
    const int block_size = threads(tensors.row_bytes(), tensors.shape.rows, multiprocessors());
    const unsigned blocks = blocks_that_stay(kernel, block_size, 0, tensors.shape.rows);
    kernel<<<blocks, block_size, 0, stream>>>(tensors.x, tensors.labels, tensors.loss, tensors.shape,
                                              static_cast<TicketCounter*>(tensors.workspace));
    CUDA_CHECK(cudaGetLastError());
  }
};

}  // namespace rowwise
