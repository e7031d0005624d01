// From the stage backward: row_in_flight.cuh with two rows of any width at any address, one block or one
// cluster per row. The three matrices may each have another offset from a pack. At f32 4096 x 50257 the
// cluster reached 98.1 % of the ceiling; the block, which reads a part of the row again, reached 69.6 %
// (H200).
#pragma once

#include "common/kernel/async_copy.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/persistent_blocks.cuh"
#include "common/rowwise/kernels/backward/in_cluster.cuh"
#include "common/rowwise/kernels/forward/row_in_flight.cuh"

namespace rowwise {

/// A block's share of a row. The first columns of y and dy, or all, are kept in shared memory; the others are
/// read again.
template <class T, bool keeps_all>
class TwoKeptRows {
 public:
  /// Requests the columns that are kept; they have arrived after a barrier. buffer: see bytes_of_rows.
  __device__ TwoKeptRows(unsigned char* buffer, const T* y, const T* dy, T* dx, int cols, int kept_cols,
                         L2Policy reads)
      : y_(y), dy_(dy), dx_(dx), kept_cols_(kept_cols), cut_(dx, cols) {
    kept_y_ = request(buffer, y, reads);
    kept_dy_ = request(buffer + bytes_with_place(kept_cols * std::int64_t{sizeof(T)}), dy, reads);
    __pipeline_commit();
  }

  /// The sum over this thread's elements. y and dy may have different offsets from a pack, so a thread needs
  /// elements that others have copied: the function contains a barrier.
  template <class Op>
  __device__ typename Op::State sum() const {
    __pipeline_wait_prior(0);
    __syncthreads();
    typename Op::State sum{};
    for_each_of_thread([&]<int count>(int col) {
      float y[count];
      float dy[count];
      read(col, y, dy);
      Op::add(sum, y, dy);
    });
    return sum;
  }

  /// Writes dx, once the sum of the row is known.
  template <class Op>
  __device__ void write(typename Op::State sum) const {
    for_each_of_thread([&]<int count>(int col) {
      float y[count];
      float dy[count];
      read(col, y, dy);
#pragma unroll
      for (int i = 0; i < count; ++i) dy[i] = Op::finish(sum, y[i], dy[i]);
      store_pack(dx_ + col, make_pack<T>(dy));
    });
  }

 private:
  static constexpr int N = elements_per_16_bytes<T>;

  /// Requests the packs and copies the single elements immediately. Returns their place_in shared memory.
  __device__ T* request(unsigned char* buffer, const T* row, L2Policy reads) const {
    T* const kept = place_in(buffer, row);
    const Cut<N> cut(row, kept_cols_);
    const int thread = static_cast<int>(threadIdx.x);
    for (int pack = thread; pack < cut.num_packs; pack += static_cast<int>(blockDim.x)) {
      copy_async(kept + cut.col_of_pack(pack), row + cut.col_of_pack(pack), reads);
    }
    if (thread < cut.num_singles()) kept[cut.col_of_single(thread)] = row[cut.col_of_single(thread)];
    return kept;
  }

  template <int count>
  __device__ void read(int col, float (&y)[count], float (&dy)[count]) const {
    if (keeps_all || col + count <= kept_cols_) {
      read_neighbours(kept_y_ + col, y);
      read_neighbours(kept_dy_ + col, dy);
    } else {
      read_neighbours(y_ + col, y);
      read_neighbours(dy_ + col, dy);
    }
  }

  /// Follows the packs of dx: if all three matrices have the same offset, every access is of 16 bytes.
  template <class Use>
  __device__ void for_each_of_thread(Use use) const {
    const int thread = static_cast<int>(threadIdx.x);
    for (int pack = thread; pack < cut_.num_packs; pack += static_cast<int>(blockDim.x)) {
      use.template operator()<N>(cut_.col_of_pack(pack));
    }
    if (thread < cut_.num_singles()) use.template operator()<1>(cut_.col_of_single(thread));
  }

  const T* y_;
  const T* dy_;
  T* dx_;
  int kept_cols_;
  Cut<N> cut_;
  const T* kept_y_;
  const T* kept_dy_;
};

/// The bytes of shared memory for kept_cols columns of both rows.
template <class T>
int bytes_of_rows(std::int64_t kept_cols) {
  return static_cast<int>(2 * bytes_with_place(kept_cols * std::int64_t{sizeof(T)}));
}

/// The number of columns of both rows that fit in shared_bytes of shared memory.
inline std::int64_t most_kept_cols_of_two_rows(std::int64_t shared_bytes, std::int64_t element_bytes) {
  return ((shared_bytes - most_static_bytes) / 2 - 2 * std::int64_t{line_bytes}) / element_bytes;
}

/// One block per row, which keeps kept_cols columns of it.
template <class Op, class T>
__global__ void __launch_bounds__(1024)
    unaligned_backward(const T* y, const T* dy, T* dx, Shape shape, int kept_cols, L2Policy reads) {
  extern __shared__ __align__(line_bytes) unsigned char buffer[];
  __shared__ typename Op::State storage[32];
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t first = row * shape.cols;
    const TwoKeptRows<T, false> rows(buffer, y + first, dy + first, dx + first, static_cast<int>(shape.cols),
                                     kept_cols, reads);
    const typename Op::State sum = block_merge<Op>(rows.template sum<Op>(), storage);
    rows.template write<Op>(sum);
    __syncthreads();  // the next rows are copied over these
  }
}

/// Rows of at most 2^30 columns.
struct Unaligned {
  using Operations = BackwardOperations;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) { return columns_fit_32_bits(matrix); }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const auto kernel = unaligned_backward<Op, T>;
    const int most_bytes = most_shared_bytes();
    const std::int64_t kept_cols = min(tensors.shape.cols, most_kept_cols_of_two_rows(most_bytes, sizeof(T)));
    const int shared_bytes = bytes_of_rows<T>(kept_cols);
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    // Two packs per thread or more, and no more threads than an SM holds, in one block or two.
    const std::int64_t most_threads = 2 * shared_bytes > most_bytes ? 1024 : 512;
    const std::int64_t threads = round_up(divide_up(tensors.shape.cols, 2 * elements_per_16_bytes<T>), 32);
    kernel<<<grid_for(tensors.shape.rows), static_cast<unsigned>(min(threads, most_threads)), shared_bytes,
             stream>>>(tensors.y, tensors.dy, tensors.dx, tensors.shape, static_cast<int>(kept_cols),
                       policy_of_reads<T>(3, tensors.shape));
    CUDA_CHECK(cudaGetLastError());
  }
};

/// One cluster per row: blockIdx.x / cluster size is the row. Each block keeps all of its part.
template <class Op, class T>
__global__ void __launch_bounds__(1024)
    unaligned_cluster_backward(const T* y, const T* dy, T* dx, Shape shape, int part_cols, L2Policy reads) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(line_bytes) unsigned char buffer[];
  __shared__ ClusterExchange<Op> exchange;
  exchange.start();
  const cg::cluster_group cluster = cg::this_cluster();
  const std::int64_t first_col = cluster.block_rank() * std::int64_t{part_cols};
  const std::int64_t first = blockIdx.x / cluster.num_blocks() * shape.cols + first_col;
  const auto cols =
      static_cast<int>(max(min(shape.cols - first_col, std::int64_t{part_cols}), std::int64_t{0}));
  const TwoKeptRows<T, true> rows(buffer, y + first, dy + first, dx + first, cols, cols, reads);
  ptx::barrier_cluster_wait();
  const typename Op::State sum = exchange.merge(rows.template sum<Op>(), 0);
  rows.template write<Op>(sum);
#endif
}

/// Rows that the shared memory of a cluster holds.
struct UnalignedCluster {
  using Operations = BackwardOperations;
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = has_clusters(gpu)) return refusal;
    const std::int64_t part_bytes = most_kept_cols_of_two_rows(gpu.shared_bytes, 1);
    return fits_cluster<UnalignedCluster>(matrix, gpu,
                                          most_cols_of_parts(part_bytes, most_blocks_of_cluster, matrix),
                                          Why::shared_memory_of_cluster_for_two);
  }
  static Need needs(const Matrix& /*matrix*/) { return {.clusters = true}; }

  template <class Op, class T>
  static constexpr auto kernel = unaligned_cluster_backward<Op, T>;

  /// The layout of Cluster. A part may begin anywhere in a line, so the buffers are larger.
  static RowOnCluster layout(std::int64_t row_bytes, std::int64_t element_bytes) {
    RowOnCluster row = Cluster::layout(round_up(row_bytes, 16), element_bytes);
    row.shared_bytes = static_cast<int>(2 * bytes_with_place(row.part_packs * 16));
    return row;
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const RowOnCluster row = layout(tensors.row_bytes(), sizeof(T));
    launch_clusters(kernel<Op, T>, row, tensors.shape.rows, stream, tensors.y, tensors.dy, tensors.dx,
                    tensors.shape, row.part_packs * elements_per_16_bytes<T>,
                    policy_of_reads<T>(3, tensors.shape));
  }
};

}  // namespace rowwise
