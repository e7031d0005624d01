// The same steps in separate kernels, for comparison. Each kernel has one of the functors.
#pragma once

#include "13_masked_softmax/masked_softmax.cuh"

// ---- A Load and a Store with one step each.

/// Only scales.
template <class T>
struct ScaledLoad : DirectLoad<T> {
  float scale;

  template <int N>
  __device__ void unpack(const Pack<T, N>& fetched, float (&values)[N]) const {
    ::unpack(fetched, values);
#pragma unroll
    for (float& value : values) value *= scale;
  }
};

/// Only drops.
template <class T>
struct DropoutStore : DirectStore<T> {
  Dropout dropout;

  template <int N>
  __device__ void store(const float (&values)[N], std::int64_t row, std::int64_t col) const {
    float stored[N];
    Dropout::drop(values, dropout.kept<N>(row, col), Dropout::factor, stored);
    DirectStore<T>::store(stored, row, col);
  }
};

/// A block per row, which moves packs from `load` to `store`.
template <int pack_size, class Load, class Store>
__global__ void __launch_bounds__(1024) load_and_store(Load load, Store store, Shape shape) {
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const auto write = [&](float(&values)[pack_size], std::int64_t col) {
      store.template store<pack_size>(values, row, col);
    };
    for_each_pack<pack_size>(load, row, shape.cols, write);
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

// ---- The launchers. Their workspace is a matrix between two kernels. rows = 0 does nothing. They throw
// CudaError.

struct NeedsMatrix {
  static Need needs(const Matrix& matrix) {
    return {.workspace_bytes = static_cast<std::size_t>(matrix.rows * matrix.row_bytes())};
  }
};

struct SeparateMaskedSoftmax : NeedsMatrix {
  using Operations = OpList<CausalSoftmax, PaddedSoftmax>;
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    return MaskedSoftmax<FusedSoftmax>::refuses(matrix, gpu);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const std::int64_t cols = tensors.shape.cols;
    const Mask mask = mask_of(tensors);
    T* const between = static_cast<T*>(tensors.workspace);
    const DirectLoad<T> scores{between, cols};
    const auto step = [&](auto load, auto store) {
      launch_load_and_store(load, store, tensors.shape, stream);
    };
    step(ScaledLoad<T>{{tensors.x, cols}, attention_scale}, DirectStore<T>{between, cols});
    step(scores, MaskedStore<T>{{between, cols}, mask, -INFINITY});
    // The result is masked, too, because the softmax of a row that sees nothing is NaN.
    FusedSoftmax::launch<Softmax>(scores, MaskedStore<T>{{tensors.softmax, cols}, mask, 0}, tensors.shape,
                                  stream);
    step(DirectLoad<T>{tensors.softmax, cols}, DropoutStore<T>{{tensors.y, cols}, dropout_of(tensors)});
  }
};

struct SeparateMaskedBackward : NeedsMatrix {
  using Operations = MaskedBackward::Operations;
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    return MaskedBackward::refuses(matrix, gpu);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const std::int64_t cols = tensors.shape.cols;
    T* const between = static_cast<T*>(tensors.workspace);
    const auto step = [&](auto load, auto store) {
      launch_load_and_store(load, store, tensors.shape, stream);
    };
    step(DirectLoad<T>{tensors.dy, cols}, DropoutStore<T>{{between, cols}, dropout_of(tensors)});
    MaskedBackward::launch(DirectLoad<T>{tensors.softmax, cols}, DirectLoad<T>{between, cols},
                           DirectStore<T>{tensors.dx, cols}, tensors.shape, stream);
    step(ScaledLoad<T>{{tensors.dx, cols}, attention_scale},
         MaskedStore<T>{{tensors.dx, cols}, mask_of(tensors), 0});
  }
};
