// The steps that are fused elsewhere, as separate kernels: log-softmax of stage 06, then a pick, then the
// gradient.
#pragma once

#include "06_online/online.cuh"
#include "12_cross_entropy/cross_entropy.cuh"

/// Log-probabilities are stored as floats: in 16 bits the loss would have two or three digits.
struct StoreFloats {
  float* y;
  std::int64_t cols;

  template <int N>
  __device__ void store(const float (&values)[N], std::int64_t row, std::int64_t col) const {
    constexpr int size = N < 4 ? N : 4;
#pragma unroll
    for (int i = 0; i < N; i += size) {
      const auto& part = reinterpret_cast<const float(&)[size]>(values[i]);
      *reinterpret_cast<Pack<float, size>*>(y + row * cols + col + i) = make_pack<float>(part);
    }
  }
  template <int N>
  bool fits_packs() const {
    return rows_fit_packs<(N < 4 ? N : 4)>(y, cols);
  }
};

constexpr int pick_block_size = 256;

/// Second kernel: a thread for each row.
static __global__ void __launch_bounds__(pick_block_size)
    pick_loss(const float* log_y, const std::int64_t* labels, float* loss, Shape shape) {
  for (std::int64_t row = blockIdx.x * std::int64_t{pick_block_size} + threadIdx.x; row < shape.rows;
       row += gridDim.x * std::int64_t{pick_block_size}) {
    const std::int64_t label = labels[row];
    const float log_probability = element_at(log_y + row * shape.cols, label, shape.cols);
    loss[row] = label == ignored_label ? 0 : -log_probability;
  }
}

/// Third kernel: one block per row.
template <int pack_size, class Load, class Store>
__global__ void __launch_bounds__(1024)
    gradient_of_log_softmax(Load load, const std::int64_t* labels, Store store, Shape shape) {
  const auto [rows, cols] = shape;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t label = labels[row];
    const auto write = [&](float(&values)[pack_size], std::int64_t col) {
#pragma unroll
      for (float& value : values) value = gradient_of(__expf(value), label, cols);
      store.template store<pack_size>(values, row, col);
    };
    for_each_pack<pack_size>(load, row, cols, write);
    if (has_label<pack_size>(label, cols)) {
      store.template store<1>({__expf(load.x[row * cols + label]) - 1}, row, label);
    }
  }
}

/// `List` has CrossEntropy or CrossEntropyGradient. The workspace has one float per element. If dx is
/// nullptr, the launch computes the loss alone; rows = 0 does nothing. It throws CudaError.
template <class List>
struct SeparateKernels {
  using Operations = List;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) { return columns_fit_32_bits(matrix); }
  static Need needs(const Matrix& matrix) {
    return {.workspace_bytes = static_cast<std::size_t>(matrix.shape().elements()) * sizeof(float)};
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const auto [rows, cols] = tensors.shape;
    if (rows == 0) return;
    auto* const log_y = static_cast<float*>(tensors.workspace);
    OnlineSoftmax<Rescale::per_pack>::launch<LogSoftmax>(DirectLoad<T>{tensors.x, cols},
                                                         StoreFloats{log_y, cols}, tensors.shape, stream);
    pick_loss<<<grid_for(divide_up(rows, pick_block_size)), pick_block_size, 0, stream>>>(
        log_y, tensors.labels, tensors.loss, tensors.shape);
    CUDA_CHECK(cudaGetLastError());
    if (tensors.dx == nullptr) return;
    const DirectLoad<float> load{log_y, cols};
    const DirectStore<T> store{tensors.dx, cols};
    with_widest_packs(load, store, [&]<int pack_size>() {
      const unsigned block_size = block_size_for<pack_size>(cols, 1024);
      gradient_of_log_softmax<pack_size>
          <<<grid_for(rows), block_size, 0, stream>>>(load, tensors.labels, store, tensors.shape);
      CUDA_CHECK(cudaGetLastError());
    });
  }
};
