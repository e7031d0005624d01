// y is not kept from forward to backward: it is recomputed from x and the pair (m, d) of its row.
//
// Cost: 3 passes, 2 reads and 1 write, and 8 bytes per row; and one exponential per element, which waits for no memory. It saves
// a matrix: if x is kept anyway, y does not have to be. Source: FlashAttention's backward (Dao et al.), which keeps log(d) + m.
#pragma once

#include "common/rowwise/kernels/backward/in_registers.cuh"
#include "common/rowwise/kernels/forward/finish_row.cuh"
#include "common/rowwise/kernels/forward/online.cuh"

/// As SoftmaxBackward, of x and the pair of each row in place of y.
struct RecomputedSoftmaxBackward {
  static constexpr const char* name = "recomputed_softmax_backward";
};

/// A block for each row of whole packs, as block_backward. pairs: rows of m and d, in f32.
template <BlockTile tile, class T>
__global__ void __launch_bounds__(tile.block_size)
    recomputed_backward(const T* x, const float* pairs, const T* dy, T* dx, Shape shape, L2Policy reads) {
  x = with_policy(x, reads);
  dy = with_policy(dy, reads);
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_per_thread = tile.elements_per_thread / N;
  __shared__ float storage[32];
  const auto col = [](int pack) { return (pack * tile.block_size + static_cast<int>(threadIdx.x)) * N; };
  const auto exists = [&](int pack) { return col(pack) < shape.cols; };

  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t first = row * shape.cols;
    Pack<T, N> x_packs[packs_per_thread];
    Pack<T, N> dy_packs[packs_per_thread] = {};
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      x_packs[pack] = exists(pack) ? load_pack<N>(x + first + col(pack)) : rowwise::no_elements<T, N>();
      if (exists(pack)) dy_packs[pack] = load_pack<N>(dy + first + col(pack));
    }
    const RowResult<Softmax> softmax(pairs[2 * row], pairs[2 * row + 1]);

    // Kept as floats: recomputing each after the sum would cost a second exponential.
    float y[packs_per_thread][N];
    float sum = 0;
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      unpack(x_packs[pack], y[pack]);
      float values[N];
      unpack(dy_packs[pack], values);
#pragma unroll
      for (float& value : y[pack]) value = softmax(value);
      SoftmaxBackward::add(sum, y[pack], values);
    }
    sum = block_merge<SoftmaxBackward>(sum, storage);

#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      float values[N];
      unpack(dy_packs[pack], values);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = SoftmaxBackward::finish(sum, y[pack][i], values[i]);
      if (exists(pack)) store_pack(dx + first + col(pack), make_pack<T>(values));
    }
  }
}

/// Rows of packs of 16 bytes, as BlockRegisters; pairs at any multiple of 4 bytes.
struct Recomputed {
  using Operations = OpList<RecomputedSoftmaxBackward>;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
    return at_most_columns(rowwise::widest_gradient_tile.cols(), matrix, Why::registers_of_block_for_two);
  }

  /// The warps of a block.
  static int warps(std::int64_t cols) {
    int block_size = 0;
    rowwise::with_gradient_tile(cols, [&]<BlockTile tile>() { block_size = tile.block_size; });
    return block_size / 32;
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    rowwise::with_gradient_tile(tensors.shape.cols, [&]<BlockTile tile>() {
      recomputed_backward<tile><<<grid_for(tensors.shape.rows), tile.block_size, 0, stream>>>(
          tensors.x, tensors.pairs, tensors.dy, tensors.dx, tensors.shape,
          policy_of_reads<T>(3, tensors.shape));
      CUDA_CHECK(cudaGetLastError());
    });
  }
};
