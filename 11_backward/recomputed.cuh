// The forward pass does not keep y: the gradient recomputes it from x and the pair (m, d) of its row. That
// saves a matrix if x is kept anyway.
//
// Cost: 3 passes, 2 reads and 1 write, and 8 bytes per row and warp; and one exponential per element, which
// overlaps the memory accesses. Source: FlashAttention's backward (Dao et al.), which keeps log(d) + m.
#pragma once

#include "11_backward/in_registers.cuh"

/// The result is that of SoftmaxBackward; the inputs are x and the pair of each row, instead of y.
struct RecomputedSoftmaxBackward {
  static constexpr const char* name = "recomputed_softmax_backward";
};

/// block_backward with x instead of y, for rows of whole packs. pairs: m and d of each row.
template <int packs_per_thread, class T>
__global__ void __launch_bounds__(1024)
    recomputed_backward(const T* x, const float* pairs, const T* dy, T* dx, Shape shape) {
  constexpr int N = elements_per_16_bytes<T>;
  __shared__ float storage[32];
  const auto col = [](int pack) { return static_cast<int>(pack * blockDim.x + threadIdx.x) * N; };
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t first = row * shape.cols;
    Pack<T, N> x_packs[packs_per_thread];  // missing elements are -inf: their y is 0
    Pack<T, N> dy_packs[packs_per_thread] = {};
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      x_packs[pack] = col(pack) < shape.cols ? load_pack<N>(x + first + col(pack)) : missing_pack<T, N>();
      if (col(pack) < shape.cols) dy_packs[pack] = load_pack<N>(dy + first + col(pack));
    }
    const RowResult<Softmax> softmax(pairs[2 * row], pairs[2 * row + 1]);

    // y stays in registers: computing it again after the sum would cost a second exponential per element.
    float y[packs_per_thread][N];
    float dy_values[N];
    float sum = 0;
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      unpack(x_packs[pack], y[pack]);
      unpack(dy_packs[pack], dy_values);
#pragma unroll
      for (float& value : y[pack]) value = softmax(value);
      SoftmaxBackward::add(sum, y[pack], dy_values);
    }
    sum = block_merge<SoftmaxBackward>(sum, storage);

#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (col(pack) >= shape.cols) continue;
      unpack(dy_packs[pack], dy_values);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        dy_values[i] = SoftmaxBackward::finish(sum, y[pack][i], dy_values[i]);
      }
      store_pack(dx + first + col(pack), make_pack<T>(dy_values));
    }
  }
}

/// Rows must consist of whole packs of 16 bytes, and be no wider than for BlockRegisters. pairs may begin at
/// any multiple of 4 bytes.
struct Recomputed {
  using Operations = OpList<RecomputedSoftmaxBackward>;
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
    return BlockRegisters::refuses(matrix, gpu);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Shape shape = tensors.shape;
    if (shape.rows == 0) return;
    with_gradient_block(shape.cols, [&]<int elements>(unsigned threads) {
      recomputed_backward<elements / elements_per_16_bytes<T>><<<grid_for(shape.rows), threads, 0, stream>>>(
          tensors.x, tensors.pairs, tensors.dy, tensors.dx, shape);
      CUDA_CHECK(cudaGetLastError());
    });
  }
};
