// The loss of few rows in one kernel: the blocks of a cluster share one, and exchange their states.
#pragma once

#include "10_cluster/cluster_exchange.cuh"
#include "10_cluster/cluster_launch.cuh"
#include "12_fusion/in_cluster.cuh"
#include "12_fusion/turn.cuh"

/// A cluster for each row: blockIdx.x / cluster size. A part is read by turns, and kept nowhere.
template <class Op, int packs_per_turn, class T>
__global__ void __launch_bounds__(1024)
    cluster_loss(const T* x, const std::int64_t* labels, float* loss, Shape shape, int part_cols) {
#if __CUDA_ARCH__ >= 900
  __shared__ ClusterExchange<Op> exchange;
  exchange.start();
  const cg::cluster_group cluster = cg::this_cluster();
  const std::int64_t row = blockIdx.x / cluster.num_blocks();
  const int first_col = static_cast<int>(cluster.block_rank()) * part_cols;
  const int cols = max(min(static_cast<int>(shape.cols) - first_col, part_cols), 0);
  const T* const row_x = x + row * shape.cols;
  const bool is_first_thread = cluster.block_rank() == 0 && threadIdx.x == 0;
  std::int64_t label = 0;
  if (is_first_thread) label = labels[row];  // used late, when it has come
  const auto own = reduce_elements<Op, packs_per_turn>(row_x + first_col, cols);
  const Element<T> x_label(row_x, label, is_first_thread ? shape.cols : 0);
  ptx::barrier_cluster_wait();
  const typename Op::State state = exchange.merge(own.state(), 0);
  if (is_first_thread) loss[row] = loss_of_row<Op>(state, x_label.value(), label, shape.cols);
#endif
}

/// Any width up to 2^30 columns at any place; rows = 0 does nothing. Throws CudaError.
struct ClusterLoss {
  static constexpr int packs_per_turn = 4;
  template <class Op, class T>
  static constexpr auto kernel = cluster_loss<Op, packs_per_turn, T>;

  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t rows) {
    const int cluster_size = blocks_of_few_rows(row_bytes, rows);
    const int part_packs = packs_of_part(round_up(row_bytes, 16), cluster_size);
    const unsigned threads = threads_of_turns(part_packs * std::int64_t{16}, packs_per_turn, 512);
    return {.cluster_size = cluster_size,
            .part_packs = part_packs,
            .packs_per_thread = static_cast<int>(divide_up(part_packs, threads)),
            .shared_bytes = 0,
            .least_block_size = static_cast<int>(threads)};
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& of, cudaStream_t stream) {
    if (of.shape.rows == 0) return;
    const RowOnCluster row = layout(of.row_bytes(), of.shape.rows);
    launch_clusters(kernel<Op, T>, row, of.shape.rows, stream, of.x, of.labels, of.loss, of.shape,
                    row.part_packs * elements_per_16_bytes<T>);
  }
};
