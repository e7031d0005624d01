// From the stage cross_entropy: the loss and the gradient of rows of any width at any address. The blocks of
// a cluster keep a part each, which is a row that begins at another offset. At bf16 4096 x 50257 this
// reached 97.1 % of the ceiling; one block per row (kept_row) reached 96.7 % (H200).
#pragma once

#include "common/kernel/cluster_exchange.cuh"
#include "common/kernel/cluster_launch.cuh"
#include "common/rowwise/kernels/loss/kept_row.cuh"

namespace rowwise {

/// Sends two pieces, because no st.async of a single value has 16 bytes. ClusterExchange finds it
/// by the type of its arguments.
__device__ inline void send_to_all([[maybe_unused]] PairAndBelow* place,
                                   [[maybe_unused]] const PairAndBelow& value,
                                   [[maybe_unused]] std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  ::send_to_all(&place->pair, value.pair, barrier);
  ::send_to_all(&place->below, value.below, barrier);
#endif
}

/// One cluster per row: blockIdx.x / cluster size is the row. Each block keeps all of its part.
template <class Op, class T>
__global__ void __launch_bounds__(1024)
    unaligned_cluster_gradient(const T* x, const std::int64_t* labels, float* loss, T* dx, Shape shape,
                               int part_cols, L2Policy reads) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(line_bytes) unsigned char buffer[];
  __shared__ ClusterExchange<Op> exchange;
  exchange.start();
  const cg::cluster_group cluster = cg::this_cluster();
  const std::int64_t row = blockIdx.x / cluster.num_blocks();
  const int first_col = static_cast<int>(cluster.block_rank()) * part_cols;
  const int cols = max(min(static_cast<int>(shape.cols) - first_col, part_cols), 0);
  const T* row_x = x + row * shape.cols;
  const std::int64_t label = labels[row];  // used late, when it has arrived
  const KeptRow<T, true> kept(buffer, row_x + first_col, cols, cols, reads);
  ptx::barrier_cluster_wait();
  const typename Op::State own = kept.template reduce<Op>();
  const typename Op::State state = exchange.merge(own, 0);
  // The block that keeps x[label] writes the loss or, if the label is not a column, the first block.
  const std::int64_t label_here = label - first_col;
  const bool is_column = 0 <= label && label < shape.cols;
  const bool has_label = is_column ? 0 <= label_here && label_here < cols : first_col == 0;
  if (has_label && threadIdx.x == blockDim.x - 1) {
    loss[row] = loss_of_row<Op>(state, kept.kept_at(label_here).value(), label, shape.cols);
  }
  const RowGradient<Op> gradient(state, label, static_cast<int>(shape.cols));
  kept.write(dx + row * shape.cols + first_col,
             [&](auto& values, int col) { gradient(values, first_col + col); });
#endif
}

/// Rows that a cluster holds; rows = 0 does nothing. Throws CudaError.
struct UnalignedInCluster : MakesLossAndGradient {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = has_clusters(gpu)) return refusal;
    const std::int64_t most_part_bytes = most_kept_cols(gpu.shared_bytes, 1);
    const std::int64_t most_cols = most_cols_of_parts(most_part_bytes, most_blocks_of_cluster, matrix);
    if (matrix.cols > most_cols) return {Why::blocks_of_cluster, most_cols};
    return has_cluster_each(layout(matrix.row_bytes(), matrix.rows), matrix, gpu);
  }
  static Need needs(const Matrix& /*matrix*/) { return {.clusters = true}; }

  template <class Op, class T>
  static auto kernel(const RowOnCluster& /*row*/) {
    return unaligned_cluster_gradient<Op, T>;
  }

  /// The smallest cluster whose blocks have parts of 32 KiB, so that many of them share an SM. It is larger
  /// if there are few rows. A part may begin anywhere in a line.
  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t rows) {
    const std::int64_t pack_bytes = round_up(row_bytes, 16);
    int cluster_size = blocks_of_few_rows(pack_bytes, rows);
    while (cluster_size < most_blocks_of_cluster && pack_bytes > cluster_size * (32 << 10)) cluster_size *= 2;
    const int part_packs = packs_of_part(pack_bytes, cluster_size);
    return {.cluster_size = cluster_size,
            .part_packs = part_packs,
            .packs_per_thread = max(8, static_cast<int>(divide_up(part_packs, 1024))),
            .shared_bytes = static_cast<int>(bytes_with_place(part_packs * 16))};
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const RowOnCluster row = layout(tensors.row_bytes(), tensors.shape.rows);
    launch_clusters(kernel<Op, T>(row), row, tensors.shape.rows, stream, tensors.x, tensors.labels,
                    tensors.loss, tensors.dx, tensors.shape, row.part_packs * elements_per_16_bytes<T>,
                    policy_of_reads<T>(2, tensors.shape));
  }
};

}  // namespace rowwise
