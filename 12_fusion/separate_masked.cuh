// What is fused elsewhere, as kernels of their own: each has one of the functors.
#pragma once

#include "06_online/online.cuh"
#include "12_fusion/masked_softmax.cuh"

/// A block for each row.
template <int pack_size, class Load, class Store>
__global__ void __launch_bounds__(1024) load_and_store(Load load, Store store, Shape shape) {
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const auto write = [&](float(&values)[pack_size], std::int64_t col) {
      store.template store<pack_size>(values, row, col);
    };
    for_each_pack<pack_size, Direction::forward>(load, row, shape.cols, write);
  }
}

template <class Load, class Store>
void launch_load_and_store(Load load, Store store, Shape shape, cudaStream_t stream) {
  if (shape.rows == 0) return;
  with_widest_packs(load, store, [&]<int pack_size>() {
    load_and_store<pack_size>
        <<<grid_for(shape.rows), block_size_for<pack_size>(shape.cols, 1024), 0, stream>>>(load, store,
                                                                                           shape);
    CUDA_CHECK(cudaGetLastError());
  });
}

// ---- workspace: a matrix. rows = 0 does nothing. They throw CudaError.

/// At most widest_tile.cols() columns.
struct SeparateMaskedSoftmax {
  template <class T>
  static void launch(const MaskedForward<T>& of, cudaStream_t stream) {
    const std::int64_t cols = of.shape.cols;
    const DirectLoad<T> scores{of.workspace, cols};
    const auto step = [&](auto load, auto store) { launch_load_and_store(load, store, of.shape, stream); };
    step(ScaledLoad<T>{{of.x, cols}, attention_scale}, DirectStore<T>{of.workspace, cols});
    step(scores, MaskedStore<T>{{of.workspace, cols}, of.mask, -INFINITY});
    // Masked once more: of a row that sees nothing, a softmax is NaN.
    FusedRegisterSoftmax::launch<Softmax>(scores, MaskedStore<T>{{of.softmax, cols}, of.mask, 0}, of.shape,
                                          stream);
    step(DirectLoad<T>{of.softmax, cols}, DropoutStore<T>{{of.y, cols}, of.dropout});
  }
};

/// At most MaskedBackward::most_cols columns.
struct SeparateMaskedBackward {
  template <class T>
  static void launch(const MaskedGradient<T>& of, cudaStream_t stream) {
    const std::int64_t cols = of.shape.cols;
    const auto step = [&](auto load, auto store) { launch_load_and_store(load, store, of.shape, stream); };
    step(DirectLoad<T>{of.dy, cols}, DropoutStore<T>{{of.workspace, cols}, of.dropout});
    MaskedBackward::launch(DirectLoad<T>{of.softmax, cols}, DirectLoad<T>{of.workspace, cols},
                           DirectStore<T>{of.dx, cols}, of.shape, stream);
    step(ScaledLoad<T>{{of.dx, cols}, attention_scale}, MaskedStore<T>{{of.dx, cols}, of.mask, 0});
  }
};
