// Stage 12: the fastest kernel is one that does not run. Cross-entropy is log-softmax, a choice of one column
// and a gradient; in one kernel x is read once, and no log-probability is ever written.
//
// Cost: 1 pass (1 read) for the loss alone, 2 (1 read and 1 write) with the gradient. The pair (m, d) of a
// row is enough for both: loss = log(d) + (m - x[label]), and dx = exp(x - m) / d, less 1 at the label. So
// the loss streams a row and keeps nothing; for the gradient the row stays in shared memory, as in stage 09.
// Sources: quack's and Liger's cross-entropy.
#pragma once

#include "08_unaligned_rows/unaligned.cuh"
#include "09_async_copy/own_packs.cuh"
#include "12_cross_entropy/cross_entropy.cuh"

/// A block per row, which is read once and not kept. Its packs are those of stage 08, at any address.
template <class T>
__global__ void __launch_bounds__(256)
    one_read_loss(const T* x, const std::int64_t* labels, float* loss, Shape shape) {
  constexpr int N = elements_per_16_bytes<T>;
  __shared__ MaxSum storage[32];
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const T* row_x = x + row * shape.cols;
    const Cut<N> cut(row_x, static_cast<int>(shape.cols));
    const int thread = static_cast<int>(threadIdx.x);
    MaxSum own;
    if (thread < cut.num_singles()) own = {static_cast<float>(row_x[cut.col_of_single(thread)]), 1.0f};
    const DirectLoad<T> packs{row_x + cut.head, cut.num_packs * N};
    for_each_pack<N>(packs, 0, packs.cols, [&](const float(&values)[N], std::int64_t) { add(own, values); });
    const MaxSum total = block_merge<Softmax>(own, storage);
    if (thread != 0) continue;
    const std::int64_t label = labels[row];
    const float x_label = element_at(row_x, label, shape.cols);  // the L2 still has it
    loss[row] = loss_of_row(total, x_label, label);
  }
}

/// The loss of each row; rows = 0 does nothing. Throws CudaError.
struct OneRead {
  using Operations = OpList<CrossEntropy>;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) { return columns_fit_32_bits(matrix); }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Shape shape = tensors.shape;
    if (shape.rows == 0) return;
    constexpr int N = elements_per_16_bytes<T>;
    // Blocks are small: while the threads of one synchronise, other blocks of the SM read.
    const unsigned block_size = block_size_for<N>(round_up(shape.cols, N), 256);
    one_read_loss<<<grid_for(shape.rows), block_size, 0, stream>>>(tensors.x, tensors.labels, tensors.loss,
                                                                   shape);
    CUDA_CHECK(cudaGetLastError());
  }
};

/// The loss and its gradient: a block per row, which is in shared memory between its read and its write.
template <class T>
__global__ void __launch_bounds__(1024)
    in_shared_memory_gradient(const T* x, const std::int64_t* labels, float* loss, T* dx, Shape shape) {
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ MaxSum storage[32];
  constexpr int N = elements_per_16_bytes<T>;
  T* slot = reinterpret_cast<T*>(buffer);
  const std::int64_t begin = blockIdx.x * shape.cols;
  const int num_packs = static_cast<int>(shape.cols / N);

  request_row(slot, x + begin, num_packs);
  const std::int64_t label = labels[blockIdx.x];
  __pipeline_wait_prior(0);
  const MaxSum total = block_merge_once<Softmax>(reduce_packs<Softmax>(slot, num_packs), storage);

  // Each thread waited for its own copies before the merge's barrier, so the whole row has arrived.
  const float x_label = element_at(slot, label, shape.cols);
  if (threadIdx.x == 0) loss[blockIdx.x] = loss_of_row(total, x_label, label);
  const RowResult<Softmax> probability(total);
  write_packs(dx + begin, slot, num_packs,
              [&](float value) { return gradient_of(probability(value), label, shape.cols); });
  if (has_label<N>(label, shape.cols)) dx[begin + label] = static_cast<T>(probability(x_label) - 1);
}

/// Rows of whole packs that a block's shared memory holds; rows = 0 does nothing. Throws CudaError.
struct InSharedMemory {
  using Operations = OpList<CrossEntropyGradient>;
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) { return OwnPacks<>::refuses(matrix, gpu); }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const auto [rows, cols] = tensors.shape;
    if (rows == 0) return;
    const int bytes = static_cast<int>(cols * std::int64_t{sizeof(T)});
    const auto kernel = in_shared_memory_gradient<T>;
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const int threads = threads_for(cols / elements_per_16_bytes<T>, bytes, most_shared_bytes());
    kernel<<<grid_for(rows), threads, bytes, stream>>>(tensors.x, tensors.labels, tensors.loss, tensors.dx,
                                                       tensors.shape);
    CUDA_CHECK(cudaGetLastError());
  }
};
