// From the stage cross_entropy: the loss, if the blocks of a cluster share a row. No part of the row is
// kept. Each warp sends its state to the first block and exits: only the warp that merges waits, and a block
// frees its resources for the next one while others still read. At bf16 4096 x 50257, cluster_registers
// reached 98.9 % of the ceiling; drawn_rows reached 98.1 % (H200).
#pragma once

#include "common/kernel/cluster_exchange.cuh"
#include "common/kernel/cluster_launch.cuh"
#include "common/rowwise/kernels/loss/packs_in_registers.cuh"
#include "common/rowwise/kernels/loss/row_loss.cuh"
#include "common/rowwise/kernels/loss/turn.cuh"

namespace rowwise {

/// Loads this thread's share of `count` elements, packs_per_thread packs and one single element, before it
/// uses the first. Note N27: the packs of a warp are contiguous, because dealing them out to the warps in
/// rotation was slower.
template <class Op, int packs_per_thread, class T>
__device__ typename Op::Own reduce_at_once(const T* elements, int count) {
  constexpr int N = elements_per_16_bytes<T>;
  // The boundary is a line of the cache, unless there could then be more single elements than threads.
  const Cut<N> cut(elements, count, blockDim.x < 96 ? 16 : line_bytes);
  const int first_pack = first_pack_of_thread<packs_per_thread>();
  const auto exists = [&](int i) { return first_pack + 32 * i < cut.num_packs; };
  const T* const address = elements + cut.col_of_pack(first_pack);
  Pack<T, N> packs[packs_per_thread];
#pragma unroll
  for (int i = 0; i < packs_per_thread; ++i) {
    packs[i] = exists(i) ? load_pack<N>(address + 32 * i * N) : missing_pack<T, N>();
  }
  const auto thread = static_cast<int>(threadIdx.x);
  const bool has_single = thread < cut.num_singles();
  Pack<T, 1> single = missing_pack<T, 1>();
  if (has_single) single = load_pack<1>(elements + cut.col_of_single(thread));
  packs_are_asked_for();

  typename Op::Own own;
  const auto add = [&]<int count>(int first) {
    if (exists(first)) add_packs<count>(own, packs + first, [&](int i) { return exists(first + i); });
  };
  constexpr int left_over = packs_per_thread % 4;
#pragma unroll
  for (int first = 0; first < packs_per_thread - left_over; first += 4) add.template operator()<4>(first);
  if constexpr (left_over > 0) add.template operator()<left_over>(packs_per_thread - left_over);
  if (has_single) {
    float value[1];
    unpack(single, value);
    own.add(value);
  }
  return own;
}

// ---- How a block reads its part, and the limits of such a block.

struct ByTurns {
  static constexpr int most_threads = 512;
  static constexpr int least_blocks = 2;  ///< on an SM
  static constexpr int packs = 4;         ///< per iteration
  static constexpr bool fits_one_block = false;
  template <class Op, class T>
  static __device__ typename Op::Own reduce(const T* elements, int count) {
    return reduce_elements<Op, packs>(elements, count);
  }
};

/// An SM has 140 to 160 KiB in flight, three times as much as the memory's latency needs, so that warps have
/// time to add (Note N27).
template <int packs_per_thread, int blocks_of_sm>
struct AtOnce {
  static constexpr int most_threads = 128;
  static constexpr int least_blocks = blocks_of_sm;
  static constexpr int packs = packs_per_thread;
  static constexpr bool fits_one_block = true;  ///< some rows do
  template <class Op, class T>
  static __device__ typename Op::Own reduce(const T* elements, int count) {
    return reduce_at_once<Op, packs>(elements, count);
  }
};

/// One thread sends a state to the same place in the first block of the cluster. Its bytes count towards the
/// barrier there.
template <class State>
__device__ void send_to_first([[maybe_unused]] State* place, [[maybe_unused]] const State& state,
                              [[maybe_unused]] std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  const cg::cluster_group cluster = cg::this_cluster();
  ptx::st_async(cluster.map_shared_rank(place, 0), state, cluster.map_shared_rank(barrier, 0));
#endif
}
/// Sends two pieces, because no st.async of a single value has 16 bytes.
__device__ inline void send_to_first(PairAndBelow* place, const PairAndBelow& state, std::uint64_t* barrier) {
  send_to_first(&place->pair, state.pair, barrier);
  send_to_first(&place->below, state.below, barrier);
}

/// One cluster per row: blockIdx.x / cluster size is the row.
template <class Op, class Read, class T>
__global__ void __launch_bounds__(Read::most_threads, Read::least_blocks)
    cluster_loss(const T* x, const std::int64_t* labels, float* loss, Shape shape, int part_cols) {
#if __CUDA_ARCH__ >= 900
  using State = typename Op::State;
  __shared__ alignas(8) State states[most_blocks_of_cluster * Read::most_threads / 32];
  __shared__ std::uint64_t received;  // one arrival, by the first block, and the bytes of all
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned warps = blockDim.x / 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  const unsigned num_states = cluster.num_blocks() * warps;
  const bool is_first_thread = cluster.block_rank() == 0 && threadIdx.x == 0;
  if (is_first_thread) {
    ptx::mbarrier_init(&received, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  ptx::barrier_cluster_arrive(ptx::sem_relaxed);
  const std::int64_t row = blockIdx.x / cluster.num_blocks();
  const int first_col = static_cast<int>(cluster.block_rank()) * part_cols;
  const int cols = max(min(static_cast<int>(shape.cols) - first_col, part_cols), 0);
  const T* const row_x = x + row * shape.cols;
  std::int64_t label = 0;
  if (is_first_thread) label = labels[row];  // used late, when it has arrived
  const auto own = Read::template reduce<Op>(row_x + first_col, cols);
  const Element<T> x_label(row_x, label, is_first_thread ? shape.cols : 0);
  ptx::barrier_cluster_wait();  // until the first block has a barrier to send to
  if (is_first_thread) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &received,
                                   num_states * static_cast<unsigned>(sizeof(State)));
  }
  State state = warp_merge<Op>(own.state());
  // Note N29: in a cluster of one block, compute-sanitizer reports the send as an error.
  if (Read::fits_one_block && cluster.num_blocks() == 1) {
    if (lane == 0) states[warp] = state;
    __syncthreads();
    if (warp > 0) return;
  } else {
    if (lane == 0) send_to_first(&states[cluster.block_rank() * warps + warp], state, &received);
    if (cluster.block_rank() > 0 || warp > 0) return;
    wait_for_cluster(&received, 0);
  }
  state = {};
  for (unsigned i = lane; i < num_states; i += 32) state = Op::merge(state, states[i]);
  state = warp_merge<Op>(state);
  if (lane == 0) loss[row] = loss_of_row<Op>(state, x_label.value(), label, shape.cols);
#endif
}

template <class Launcher, class Op, class T>
void launch_cluster_loss(const Tensors<T>& tensors, cudaStream_t stream) {
  if (tensors.shape.rows == 0) return;
  const RowOnCluster row = Launcher::layout(tensors.row_bytes(), tensors.shape.rows);
  launch_clusters(Launcher::template kernel<Op, T>(row), row, tensors.shape.rows, stream, tensors.x,
                  tensors.labels, tensors.loss, tensors.shape, row.part_packs * elements_per_16_bytes<T>);
}

// ---- The launchers, for rows at any address; rows = 0 does nothing. They throw CudaError.

/// Few rows, of any width up to 2^30 columns.
struct ClusterLoss : MakesLoss {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = has_clusters(gpu)) return refusal;
    if (const Refusal refusal = MakesLoss::refuses(matrix, gpu)) return refusal;
    return has_cluster_each(layout(matrix.row_bytes(), matrix.rows), matrix, gpu);
  }
  static Need needs(const Matrix& /*matrix*/) { return {.clusters = true}; }

  template <class Op, class T>
  static auto kernel(const RowOnCluster& /*row*/) {
    return cluster_loss<Op, ByTurns, T>;
  }

  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t rows) {
    const int cluster_size = blocks_of_few_rows(row_bytes, rows);
    const int part_packs = packs_of_part(round_up(row_bytes, 16), cluster_size);
    const unsigned threads =
        threads_of_turns(part_packs * std::int64_t{16}, ByTurns::packs, ByTurns::most_threads);
    return {.cluster_size = cluster_size,
            .part_packs = part_packs,
            .packs_per_thread = static_cast<int>(divide_up(part_packs, threads)),
            .shared_bytes = 0,
            .least_block_size = static_cast<int>(threads)};
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    launch_cluster_loss<ClusterLoss, Op>(tensors, stream);
  }
};

/// Rows of at most most_row_bytes, if there are enough of them to keep the GPU busy with a few blocks per
/// row.
struct ClusterAtOnce : MakesLoss {
  static constexpr int most_threads = AtOnce<16, 5>::most_threads;
  static constexpr int most_blocks = 8;  ///< larger clusters are not portable
  static constexpr std::int64_t most_row_bytes = std::int64_t{most_blocks} * most_threads * 16 * 16;

  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = has_clusters(gpu)) return refusal;
    const Refusal too_wide =
        at_most_columns(most_row_bytes / matrix.element_bytes, matrix, Why::registers_of_8_blocks);
    return too_wide ? too_wide : has_cluster_each(layout(matrix.row_bytes(), matrix.rows), matrix, gpu);
  }
  static Need needs(const Matrix& /*matrix*/) { return {.clusters = true}; }

  /// More packs per thread need more registers, so that fewer blocks fit on an SM.
  template <class Op, class T>
  static auto kernel(const RowOnCluster& row) {
    switch (row.packs_per_thread) {
      case 10:
        return cluster_loss<Op, AtOnce<10, 7>, T>;
      case 13:
        return cluster_loss<Op, AtOnce<13, 6>, T>;
      default:
        return cluster_loss<Op, AtOnce<16, 5>, T>;
    }
  }

  /// The bytes that the registers of the cluster's threads hold.
  static std::int64_t room_bytes(const RowOnCluster& row) {
    return std::int64_t{row.cluster_size} * row.block_size() * row.packs_per_thread * 16;
  }

  /// The fewest blocks that hold the row. Their threads have 16, 13 or 10 packs each, whichever leaves the
  /// fewest registers empty. A single block may be smaller. If several blocks share a row, blocks of
  /// 96 threads would leave an SM with fewer warps.
  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t /*rows*/) {
    RowOnCluster best{};
    for (const int packs : {16, 13, 10}) {
      const auto cluster_size = static_cast<int>(divide_up(row_bytes, most_threads * packs * 16));
      const RowOnCluster row{.cluster_size = cluster_size,
                             .part_packs = packs_of_part(round_up(row_bytes, 16), cluster_size),
                             .packs_per_thread = packs,
                             .shared_bytes = 0,
                             .least_block_size = cluster_size == 1 ? 32 : most_threads};
      if (packs == 16 || (cluster_size <= most_blocks && room_bytes(row) < room_bytes(best))) best = row;
    }
    return best;
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    launch_cluster_loss<ClusterAtOnce, Op>(tensors, stream);
  }
};

}  // namespace rowwise
