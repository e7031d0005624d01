// From the stage cross_entropy: the loss and the gradient of a row that stays in shared memory, in the
// matrix's own type, between its read and its write. At bf16 4096 x 50257 this reached 96.7 % of the
// ceiling; a kernel that read the row again reached 69.4 % (H200).
#pragma once

#include "common/kernel/async_copy.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/persistent_blocks.cuh"
#include "common/rowwise/kernels/forward/row_in_flight.cuh"
#include "common/rowwise/kernels/loss/turn.cuh"

namespace rowwise {

/// A block's share of a row of any width at any address, as in forward/row_in_flight.cuh: its first columns,
/// or all, are kept; the rest is read again.
template <class T, bool keeps_all>
class KeptRow {
 public:
  /// Requests the columns that are kept. buffer: bytes_with_place of them.
  __device__ KeptRow(unsigned char* buffer, const T* row, int cols, int kept_cols, L2Policy reads)
      : row_(row),
        kept_(place_in(buffer, row)),
        cols_(cols),
        kept_cols_(kept_cols),
        cut_(row, kept_cols, line_bytes) {
    request_packs(kept_, row_, cut_, cut_.num_packs, reads);
  }

  /// The state of this thread's share of the row. The thread waits for its own copies; those of others have
  /// arrived after a barrier.
  template <class Op>
  __device__ typename Op::State reduce() const {
    typename Op::Own own;
    if (!keeps_all && kept_cols_ < cols_) own = reduce_elements<Op, 4>(row_ + kept_cols_, cols_ - kept_cols_);
    if (const int last = thread_from_last(); last < cut_.num_singles()) {
      const int col = cut_.col_of_single(last);
      kept_[col] = row_[col];
      const float single[1] = {static_cast<float>(kept_[col])};
      own.add(single);
    }
#pragma unroll
    for (int group = 0; group < copy_groups; ++group) {
      __pipeline_wait_prior(copy_groups - 1 - group);
      for_each_pack_of_group(group, cut_.num_packs, [&](int pack) {
        float values[N];
        unpack(load_pack<N>(kept_ + cut_.col_of_pack(pack)), values);
        own.add(values);
      });
    }
    return own.state();
  }

  /// Writes dx: result(values, col) replaces elements, which begin at column col, by their results. dx may
  /// have another offset than the row.
  template <class Result>
  __device__ void write(T* dx, const Result& result) const {
    const Cut<N> out(dx, cols_, line_bytes);
    const auto write_neighbours = [&](auto& values, int col) {
      read(col, values);
      result(values, col);
      store_pack(dx + col, make_pack<T>(values));
    };
#pragma unroll 4
    for (int pack = static_cast<int>(threadIdx.x); pack < out.num_packs;
         pack += static_cast<int>(blockDim.x)) {
      float values[N];
      write_neighbours(values, out.col_of_pack(pack));
    }
    float single[1];
    if (const int last = thread_from_last(); last < out.num_singles()) {
      write_neighbours(single, out.col_of_single(last));
    }
  }

  /// A kept element, copied by any thread: call it after a barrier. It is NaN if there is no such column.
  __device__ Element<T> kept_at(std::int64_t col) const {
    return {kept_, col, kept_cols_};
  }

 private:
  static constexpr int N = elements_per_16_bytes<T>;

  /// The last threads read the single elements, because the first warp merges for all.
  static __device__ int thread_from_last() {
    return static_cast<int>(blockDim.x - 1 - threadIdx.x);
  }

  template <int count>
  __device__ void read(int col, float (&values)[count]) const {
    if (keeps_all || col + count <= kept_cols_) {
      read_neighbours(kept_ + col, values);
    } else {
      read_neighbours(row_ + col, values);
    }
  }

  const T* row_;
  T* kept_;
  int cols_;
  int kept_cols_;
  Cut<N> cut_;
};

/// One block per row.
template <class Op, class T>
__global__ void __launch_bounds__(1024) kept_row_gradient(const T* x, const std::int64_t* labels, float* loss,
                                                          T* dx, Shape shape, int kept_cols, L2Policy reads) {
  extern __shared__ __align__(line_bytes) unsigned char buffer[];
  __shared__ typename Op::State storage[32];
  const int cols = static_cast<int>(shape.cols);
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const T* row_x = x + row * shape.cols;
    const std::int64_t label = labels[row];  // used late, when it has arrived
    const KeptRow<T, false> kept(buffer, row_x, cols, kept_cols, reads);
    const typename Op::State state = block_merge<Op>(kept.template reduce<Op>(), storage);
    const Element<T> x_label(row_x, label, threadIdx.x == 0 ? cols : 0);  // the L2 still has it
    kept.write(dx + row * shape.cols, RowGradient<Op>(state, label, cols));
    // This comes last: x[label] arrives while the gradient is computed.
    if (threadIdx.x == 0) loss[row] = loss_of_row<Op>(state, x_label.value(), label, cols);
    __syncthreads();  // the next row is copied over this one
  }
}

/// The number of columns that fit in shared_bytes of shared memory.
constexpr std::int64_t most_kept_cols(std::int64_t shared_bytes, std::int64_t element_bytes) {
  return (shared_bytes - most_static_bytes - 2 * std::int64_t{line_bytes}) / element_bytes;
}

/// The loss of each row and its gradient, for any width up to 2^30 columns at any address; rows = 0 does
/// nothing. Throws CudaError.
struct KeptRows : MakesLossAndGradient {
  /// The number of columns of a row that are kept, if a block can have most_bytes of shared memory.
  static std::int64_t kept_cols(std::int64_t cols, std::int64_t most_bytes, std::int64_t element_bytes) {
    return min(cols, most_kept_cols(most_bytes, element_bytes));
  }
  /// Threads per block. An SM holds 1024 threads with 64 registers each, and they are divided among the
  /// blocks whose shared memory it holds; but a block has at least as many threads as a row can have single
  /// elements.
  static unsigned threads(std::int64_t row_bytes, std::int64_t shared_bytes, std::int64_t most_bytes) {
    const std::int64_t share = 1024 / (most_bytes / shared_bytes) / 32 * 32;
    return threads_of_turns(row_bytes, 4, max(share, std::int64_t{96}));
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Shape shape = tensors.shape;
    if (shape.rows == 0) return;
    const auto kernel = kept_row_gradient<Op, T>;
    const int most_bytes = most_shared_bytes();
    const auto kept = static_cast<int>(kept_cols(shape.cols, most_bytes, sizeof(T)));
    const auto shared_bytes = static_cast<int>(bytes_with_place(kept * std::int64_t{sizeof(T)}));
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    kernel<<<grid_for(shape.rows), threads(tensors.row_bytes(), shared_bytes, most_bytes), shared_bytes,
             stream>>>(tensors.x, tensors.labels, tensors.loss, tensors.dx, shape, kept,
                       policy_of_reads<T>(2, shape));
    CUDA_CHECK(cudaGetLastError());
  }
};

}  // namespace rowwise
