// Stage 12: the fastest kernel is one that does not run. Cross-entropy is log-softmax, a choice of one column
// and a gradient; in one kernel x is read once, and no log-probability is ever written.
//
// Cost: 1 pass (1 read) for the loss alone, 2 (1 read and 1 write) with the gradient. The pair (m, d) of a
// row is enough for both: loss = log(d) + (m - x[label]), and dx = exp(x - m) / d, less 1 at the label. So
// the loss streams a row and keeps nothing; for the gradient the row stays in the registers of a block, as in
// stage 06.
// Sources: quack's and Liger's cross-entropy.
#pragma once

#include "06_online/online.cuh"
#include "12_cross_entropy/cross_entropy.cuh"

/// A block per row, which is read once and not kept.
template <int pack_size, class Load>
__global__ void __launch_bounds__(256)
    one_read_loss(Load load, const std::int64_t* labels, float* loss, Shape shape) {
  __shared__ MaxSum storage[32];
  const auto [rows, cols] = shape;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    MaxSum own;
    const auto add_to_pair = [&](const float(&values)[pack_size], std::int64_t) { add(own, values); };
    for_each_pack<pack_size>(load, row, cols, add_to_pair);
    const MaxSum total = block_merge<Softmax>(own, storage);
    if (threadIdx.x != 0) continue;
    const std::int64_t label = labels[row];
    const float x_label = element_at(load.x + row * cols, label, cols);  // the L2 still has it
    loss[row] = loss_of_row(total, x_label, label);
  }
}

/// The loss of each row of any width at any address; rows = 0 does nothing. Throws CudaError.
struct OneRead {
  using Operations = OpList<CrossEntropy>;
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Shape shape = tensors.shape;
    if (shape.rows == 0) return;
    const DirectLoad<T> load{tensors.x, shape.cols};
    with_widest_packs(load, load, [&]<int pack_size>() {
      // Blocks are small: while the threads of one synchronise, other blocks of the SM read.
      one_read_loss<pack_size>
          <<<grid_for(shape.rows), block_size_for<pack_size>(shape.cols, 256), 0, stream>>>(
              load, tensors.labels, tensors.loss, shape);
      CUDA_CHECK(cudaGetLastError());
    });
  }
};

/// The loss and its gradient: a block per row, which is in registers between its read and its write.
template <int pack_size, int elements, int warps, class Load, class Store>
__global__ void __launch_bounds__(32 * warps)
    in_registers_gradient(Load load, const std::int64_t* labels, float* loss, Store store, int cols) {
  __shared__ MaxSum storage[32];
  const std::int64_t row = blockIdx.x;
  const std::int64_t label = labels[row];
  float values[elements];
  load_row<pack_size, 32 * warps>(load, row, cols, values);
  const Target target(label, cols);
  // The label has arrived with the row; x[label] arrives while the threads merge. Thread 0 alone loads it.
  const float x_label = element_at(load.x + row * cols, label, threadIdx.x == 0 ? cols : 0);

  MaxSum total;
  replace_by_results<Softmax>(
      values, [&](MaxSum own) { return total = block_merge_once<Softmax, warps>(own, storage); });

#pragma unroll
  for (int i = 0; i < elements / pack_size; ++i) {
    const int col = col_of_pack<pack_size, 32 * warps>(i);
    float(&pack)[pack_size] = values_of_pack<pack_size>(values, i);
    target.subtract_from(pack, col);
    if (col < cols) store.template store<pack_size>(pack, row, col);
  }
  if (threadIdx.x == 0) loss[row] = loss_of_row(total, x_label, label);
}

/// Rows that the registers of a block hold; rows = 0 does nothing. Throws CudaError.
struct InRegisters {
  using Operations = OpList<CrossEntropyGradient>;
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) { return FusedSoftmax::refuses(matrix, gpu); }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const auto [rows, cols] = tensors.shape;
    if (rows == 0) return;
    const DirectLoad<T> load{tensors.x, cols};
    const DirectStore<T> store{tensors.dx, cols};
    with_widest_packs(load, store, [&]<int N>() {
      with_fused_block(cols, [&]<int elements, int warps>() {
        in_registers_gradient<N, elements, warps><<<grid_for(rows), 32 * warps, 0, stream>>>(
            load, tensors.labels, tensors.loss, store, static_cast<int>(cols));
        CUDA_CHECK(cudaGetLastError());
      });
    });
  }
};
