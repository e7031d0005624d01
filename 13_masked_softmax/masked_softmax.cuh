// Softmax and its gradient in one kernel each. Only the gradient's is new. At a first reading, skip the
// launcher MaskedBackward.
#pragma once

#include "06_online/online.cuh"
#include "13_masked_softmax/masked_load_store.cuh"
#include "common/kernel/row_gradient.cuh"

/// The softmax by a kernel of an earlier stage: Launcher::launch<Op>(load, store, shape, stream). rows = 0
/// does nothing. Throws CudaError.
template <class Launcher>
struct MaskedSoftmax {
  using Operations = OpList<CausalSoftmax, PaddedSoftmax>;
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = refusal_of<Launcher, Softmax>(matrix, gpu)) return refusal;
    return fits_32_bits(matrix);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Mask mask = mask_of(tensors);
    const MaskedLoad<T> load{tensors.x, mask, attention_scale, -INFINITY};
    const SoftmaxAndDropoutStore<T> store{
        {tensors.softmax, mask.cols}, {tensors.y, mask.cols}, mask, dropout_of(tensors)};
    Launcher::template launch<Softmax>(load, store, tensors.shape, stream);
  }
};

/// dx = softmax (g - sum of softmax g) for each row; g is the gradient of the softmax, times the scale. It is
/// stage 11's block_backward with functors.
template <int packs_per_thread, int N, class LoadSoftmax, class LoadGradient, class Store>
__global__ void __launch_bounds__(1024)
    masked_backward(LoadSoftmax load_softmax, LoadGradient load_gradient, Store store, Shape shape) {
  __shared__ float storage[32];
  const int cols = static_cast<int>(shape.cols);
  const auto col = [](int pack) { return static_cast<int>(pack * blockDim.x + threadIdx.x) * N; };
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    // Missing elements are 0 and add nothing to the sum.
    Fetched<LoadSoftmax, N> softmax_packs[packs_per_thread] = {};
    Fetched<LoadGradient, N> gradient_packs[packs_per_thread] = {};
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (col(pack) >= cols) continue;
      softmax_packs[pack] = load_softmax.template fetch<N>(row, col(pack));
      gradient_packs[pack] = load_gradient.template fetch<N>(row, col(pack));
    }
    const auto unpack_both = [&](int pack, float(&softmax)[N], float(&gradient)[N]) {
      load_softmax.template unpack<N>(softmax_packs[pack], softmax);
      load_gradient.template unpack<N>(gradient_packs[pack], gradient);
    };

    float softmax[N];
    float gradient[N];
    float sum = 0;
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      unpack_both(pack, softmax, gradient);
      SoftmaxBackward::add(sum, softmax, gradient);
    }
    sum = block_merge<SoftmaxBackward>(sum, storage);

#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (col(pack) >= cols) continue;
      unpack_both(pack, softmax, gradient);
#pragma unroll
      for (int i = 0; i < N; ++i) gradient[i] = SoftmaxBackward::finish(sum, softmax[i], gradient[i]);
      store.template store<N>(gradient, row, col(pack));
    }
  }
}

/// A thread takes 16 elements of each row or, if packs do not cover the rows of all three matrices, 8: with
/// 16 single elements, registers would spill. rows = 0 does nothing. Throws CudaError.
struct MaskedBackward {
  using Operations = OpList<CausalSoftmaxBackward, PaddedSoftmaxBackward>;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    const std::int64_t most_cols = 1024 * (matrix.in_packs() ? 16 : 8);
    if (matrix.cols > most_cols) return {Why::registers_of_block_for_two, most_cols};
    return fits_32_bits(matrix);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Mask mask = mask_of(tensors);
    launch(MaskedLoad<T>{tensors.softmax, mask, 1, 0},
           GradientLoad<T>{tensors.dy, mask, dropout_of(tensors), Dropout::factor * attention_scale},
           MaskedStore<T>{{tensors.dx, mask.cols}, mask, 0}, tensors.shape, stream);
  }

  template <class LoadSoftmax, class LoadGradient, class Store>
  static void launch(LoadSoftmax load_softmax, LoadGradient load_gradient, Store store, Shape shape,
                     cudaStream_t stream) {
    if (shape.rows == 0) return;
    constexpr int N = elements_per_16_bytes<typename LoadGradient::Element>;
    const auto launch_packs = [&]<int elements, int pack_size>() {
      const auto threads = static_cast<unsigned>(round_up(divide_up(shape.cols, elements), 32));
      masked_backward<elements / pack_size, pack_size>
          <<<grid_for(shape.rows), threads, 0, stream>>>(load_softmax, load_gradient, store, shape);
      CUDA_CHECK(cudaGetLastError());
    };
    const bool fit_packs = load_softmax.template fits_packs<N>() && load_gradient.template fits_packs<N>() &&
                           store.template fits_packs<N>();
    if (fit_packs) return launch_packs.template operator()<16, N>();
    launch_packs.template operator()<8, 1>();
  }
};
