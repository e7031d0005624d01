// The loss alone: a row is read once, and kept nowhere.
#pragma once

#include "07_split_row/split_row.cuh"
#include "08_unaligned_rows/head_and_tail.cuh"
#include "09_async_copy/own_packs.cuh"
#include "12_fusion/row_loss.cuh"
#include "common/harness/cuda_check.h"

// A candidate: two bf16 of a word by a shift and a mask.
template <class P, int N>
__device__ void unpack_words(const P& pack, float (&values)[N]) {
  if constexpr (N == 8) {
    const unsigned* words = reinterpret_cast<const unsigned*>(&pack.word);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[2 * i] = __uint_as_float(words[i] << 16);
      values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  } else {
    unpack(pack, values);
  }
}

/// What a thread reads of some elements in one turn. That many loads are under way before it uses the first.
template <class T, int packs_per_turn, int by_pack = 0>
class Turn {
 public:
  static constexpr int N = elements_per_16_bytes<T>;

  /// The turn of the block that begins with first_pack. In the first one a thread has one of the single elements, too.
  __device__ void fetch(const T* elements, const Cut<N>& cut, int first_pack) {
    const int pack = first_pack + first_pack_of_thread<packs_per_turn>();
    const T* const address = elements + cut.col_of_pack(pack);
#pragma unroll
    for (int i = 0; i < packs_per_turn; ++i) {
      if (pack + 32 * i < cut.num_packs) packs_[i] = load_pack<N>(address + 32 * i * N);
    }
    if (has_single(cut, first_pack)) {
      single_ = load_pack<1>(elements + cut.col_of_single(static_cast<int>(threadIdx.x)));
    }
  }

  /// Two packs at once, so that a sum is rescaled once for both: the registers have no room for more.
  template <class Op>
  __device__ void add_to(typename Op::State& own, const Cut<N>& cut, int first_pack) const {
    const int pack = first_pack + first_pack_of_thread<packs_per_turn>();
    constexpr int at_once = by_pack == 1 ? 1 : 2;
#pragma unroll
    for (int i = 0; i < packs_per_turn; i += at_once) {
      float values[at_once * N];
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        if constexpr (by_pack == 2) {
          unpack_words(packs_[i + j], part_of<N>(values, j));
        } else {
          unpack(packs_[i + j], part_of<N>(values, j));
        }
      }
      if (pack + 32 * (i + at_once - 1) < cut.num_packs) {
        Op::add(own, values);
      } else if (pack + 32 * i < cut.num_packs) {
        Op::add(own, part_of<N>(values, 0));
      }
    }
    if (!has_single(cut, first_pack)) return;
    float value[1];
    unpack(single_, value);
    Op::add(own, value);
  }

  /// result(values, col) makes of elements from column col on what is written.
  template <class Result>
  __device__ void write(T* elements, const Cut<N>& cut, int first_pack, const Result& result) const {
    const int pack = first_pack + first_pack_of_thread<packs_per_turn>();
    const auto write_pack = [&](const auto& packed, auto& values, int col) {
      unpack(packed, values);
      result(values, col);
      store_pack(elements + col, make_pack<T>(values));
    };
#pragma unroll
    for (int i = 0; i < packs_per_turn; ++i) {
      float values[N];
      if (pack + 32 * i < cut.num_packs) write_pack(packs_[i], values, cut.col_of_pack(pack + 32 * i));
    }
    float value[1];
    if (has_single(cut, first_pack)) {
      write_pack(single_, value, cut.col_of_single(static_cast<int>(threadIdx.x)));
    }
  }

  /// Packs of the block in a turn.
  static __device__ int step() {
    return packs_per_turn * static_cast<int>(blockDim.x);
  }

 private:
  static __device__ bool has_single(const Cut<N>& cut, int first_pack) {
    return first_pack == 0 && static_cast<int>(threadIdx.x) < cut.num_singles();
  }

  Pack<T, N> packs_[packs_per_turn];
  Pack<T, 1> single_;
};

/// What this thread has of `count` elements, reduced.
template <class Op, int packs_per_turn, int by_pack = 0, class T>
__device__ typename Op::State reduce_elements(const T* elements, int count, unsigned boundary = line_bytes) {
  const Cut<elements_per_16_bytes<T>> cut(elements, count, boundary);
  typename Op::State own{};
  Turn<T, packs_per_turn, by_pack> turn;
  int pack = 0;
  do {  // once also where there are no packs
    turn.fetch(elements, cut, pack);
    turn.template add_to<Op>(own, cut, pack);
    pack += turn.step();
  } while (pack < cut.num_packs);
  return own;
}

/// A block of blockDim.x threads for each row; where that is one warp, blockDim.y rows a block, which never meet.
template <class Op, int packs_per_turn, int by_pack, class T>
__global__ void __launch_bounds__(1024)
    one_read_loss(const T* x, const std::int64_t* labels, float* loss, Shape shape, unsigned boundary) {
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    const T* row_x = x + row * shape.cols;
    std::int64_t label = 0;
    if (threadIdx.x == 0) label = labels[row];  // used late, when it has come
    const auto own =
        reduce_elements<Op, packs_per_turn, by_pack>(row_x, static_cast<int>(shape.cols), boundary);
    float x_label = 0;
    if (threadIdx.x == 0) x_label = element_at(row_x, label, shape.cols);  // the L2 still has it
    const typename Op::State state = merge_threads_of_row<Op>(own);
    if (threadIdx.x == 0) loss[row] = loss_of_row<Op>(state, x_label, label, shape.cols);
  }
}

/// Blocks that stay and draw rows. A thread fetches its next turn, be it of the next row, before it adds up this one: loads are
/// under way also while the threads meet.
template <class Op, int block_size, int packs_per_turn, int by_pack, class T>
__global__ void __launch_bounds__(block_size, 1024 / block_size)
    drawn_rows_loss(const T* x, const std::int64_t* labels, float* loss, Shape shape,
                    TicketCounter* tickets) {
  constexpr int N = elements_per_16_bytes<T>;
  // Two of each, for rows in turn: each is written again only after the other's barrier.
  __shared__ typename Op::State storage[2][32];
  __shared__ unsigned drawn[2];
  const auto cut_of = [&](const T* row_x, unsigned row) {
    return Cut<N>(row_x, row < shape.rows ? static_cast<int>(shape.cols) : 0, line_bytes);
  };
  unsigned row = blockIdx.x;
  unsigned next = row + gridDim.x;
  const T* row_x = x + row * shape.cols;
  Cut<N> cut = cut_of(row_x, row);
  // Of the turn that is fetched ahead.
  const T* ahead_x = row_x;
  Cut<N> ahead_cut = cut;
  Turn<T, packs_per_turn, by_pack> ahead;
  ahead.fetch(ahead_x, ahead_cut, 0);
  for (int parity = 0; row < shape.rows; parity = 1 - parity) {
    unsigned ticket = 0;
    std::int64_t label = 0;
    if (threadIdx.x == 0) {
      ticket = draw_ticket(tickets, shape.rows);
      label = labels[row];
    }
    typename Op::State own{};
    bool is_last = false;
    for (int pack = 0; !is_last; pack += ahead.step()) {
      const Turn<T, packs_per_turn, by_pack> turn = ahead;
      is_last = pack + ahead.step() >= cut.num_packs;
      if (is_last) {
        ahead_x = x + next * shape.cols;
        ahead_cut = cut_of(ahead_x, next);
      }
      ahead.fetch(ahead_x, ahead_cut, is_last ? 0 : pack + ahead.step());
      turn.template add_to<Op>(own, cut, pack);
    }
    float x_label = 0;
    if (threadIdx.x == 0) {
      x_label = element_at(row_x, label, shape.cols);
      drawn[parity] = 2 * gridDim.x + ticket;
    }
    const typename Op::State state = block_merge_once<Op>(own, storage[parity]);
    if (threadIdx.x == 0) loss[row] = loss_of_row<Op>(state, x_label, label, shape.cols);
    row = next;
    row_x = ahead_x;
    cut = ahead_cut;
    next = drawn[parity];
  }
}

// ---- The launchers of the loss: any width up to 2^30 columns at any place; rows = 0 does nothing. They throw CudaError.

/// Threads for a row of so many bytes: one pack for each load of a turn, and at least as many as a row has single elements.
inline unsigned threads_of_turns(std::int64_t row_bytes, int packs_per_turn, std::int64_t most_threads) {
  const std::int64_t threads = round_up(divide_up(row_bytes, 16 * packs_per_turn), 32);
  return static_cast<unsigned>(min(max(threads, std::int64_t{128}), most_threads));
}

/// As few threads as read a row of so many bytes in as many turns as the most threads would: turns of equal size.
inline unsigned threads_of_equal_turns(std::int64_t row_bytes, int packs_per_turn,
                                       std::int64_t most_threads) {
  const std::int64_t loads = divide_up(row_bytes, 16 * packs_per_turn);  // of all threads, one in each turn
  const std::int64_t turns = divide_up(loads, most_threads);
  return static_cast<unsigned>(max(round_up(divide_up(loads, turns), 32), std::int64_t{128}));
}

template <int most_threads, int packs_per_turn, int by_pack = 0, bool balanced = false>
struct OneRead {
  /// A warp for a row that two turns of it read, four of them a block.
  static dim3 block(std::int64_t row_bytes) {
    if (row_bytes <= 2 * 32 * packs_per_turn * 16) return {32, 4};
    if (balanced) return threads_of_equal_turns(row_bytes, packs_per_turn, most_threads);
    return threads_of_turns(row_bytes, packs_per_turn, most_threads);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& of, cudaStream_t stream) {
    if (of.shape.rows == 0) return;
    const dim3 threads = block(of.row_bytes());
    const unsigned blocks = grid_for(divide_up(of.shape.rows, threads.y));
    // A line of the cache, unless it makes more single elements than a warp has lanes.
    const unsigned boundary = threads.x == 32 ? 16 : line_bytes;
    one_read_loss<Op, packs_per_turn, by_pack>
        <<<blocks, threads, 0, stream>>>(of.x, of.labels, of.loss, of.shape, boundary);
    CUDA_CHECK(cudaGetLastError());
  }
};

/// workspace: a TicketCounter, 0 before and after.
template <int block_size, int packs_per_turn, bool balanced = false, int by_pack = 0>
struct DrawnRows {
  template <class Op, class T>
  static void launch(const Tensors<T>& of, cudaStream_t stream) {
    if (of.shape.rows == 0) return;
    const auto kernel = drawn_rows_loss<Op, block_size, packs_per_turn, by_pack, T>;
    const unsigned threads =
        balanced ? threads_of_equal_turns(of.row_bytes(), packs_per_turn, block_size) : block_size;
    const unsigned blocks = blocks_that_stay(kernel, static_cast<int>(threads), 0, of.shape.rows);
    kernel<<<blocks, threads, 0, stream>>>(of.x, of.labels, of.loss, of.shape,
                                           static_cast<TicketCounter*>(of.workspace));
    CUDA_CHECK(cudaGetLastError());
  }
};

// ---- Few rows: each is shared by many blocks, as stage 07 cuts it.

/// First kernel: the state of each part of each row. states: rows x gridDim.x.
template <class Op, class T>
__global__ void __launch_bounds__(split_block_size)
    states_of_parts(const T* x, typename Op::State* states, Shape shape, std::int64_t part_cols) {
  __shared__ typename Op::State storage[32];
  const PartOfRow part(part_cols, shape.cols);
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    const T* const part_x = x + row * shape.cols + part.first_col;
    const auto own = reduce_elements<Op, 4>(part_x, static_cast<int>(part.cols));
    const typename Op::State state = block_merge<Op>(own, storage);
    if (threadIdx.x == 0) states[row * gridDim.x + blockIdx.x] = state;
  }
}

/// Second kernel: a warp for each row.
template <class Op, class T>
__global__ void __launch_bounds__(32)
    loss_of_parts(const T* x, const std::int64_t* labels, const typename Op::State* states, float* loss,
                  Shape shape, int parts) {
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t label = labels[row];
    const float x_label = element_at(x + row * shape.cols, label, shape.cols);
    typename Op::State state{};
    for (int i = static_cast<int>(threadIdx.x); i < parts; i += 32) {
      state = Op::merge(state, states[row * parts + i]);
    }
    state = warp_merge<Op>(state);
    if (threadIdx.x == 0) loss[row] = loss_of_row<Op>(state, x_label, label, shape.cols);
  }
}

/// workspace: see workspace_bytes.
struct SplitLoss {
  static Split split(Shape shape) { return TwoKernels<Dependence::complete>::split(shape); }
  static std::size_t workspace_bytes(Shape shape) {
    return static_cast<std::size_t>(shape.rows * split(shape).parts) * sizeof(PairAndTotal);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& of, cudaStream_t stream) {
    const Shape shape = of.shape;
    if (shape.rows == 0) return;
    auto* const states = static_cast<typename Op::State*>(of.workspace);
    const auto [parts, part_cols] = split(shape);
    const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(min(shape.rows, max_grid_rows)));
    states_of_parts<Op><<<grid, split_block_size, 0, stream>>>(of.x, states, shape, part_cols);
    CUDA_CHECK(cudaGetLastError());
    loss_of_parts<Op><<<grid_for(shape.rows), 32, 0, stream>>>(of.x, of.labels, states, of.loss, shape,
                                                               static_cast<int>(parts));
    CUDA_CHECK(cudaGetLastError());
  }
};
