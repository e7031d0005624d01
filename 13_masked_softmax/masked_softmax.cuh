// Forward and backward in one kernel each.
#pragma once

#include "06_online/online.cuh"
#include "13_masked_softmax/masked_load_store.cuh"
#include "common/kernel/row_gradient.cuh"

/// By a kernel of an earlier stage: Launcher::launch<Op>(load, store, shape, stream). rows = 0 does nothing. Throws CudaError.
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

/// dx = softmax (g - sum of softmax g) of each row, with g the gradient of the softmax. The row stays in the registers of a block,
/// or of a warp, of which a block has blockDim.y.
template <int packs_per_thread, int N, class LoadSoftmax, class LoadGradient, class Store>
__global__ void __launch_bounds__(1024)
    masked_backward(LoadSoftmax load_softmax, LoadGradient load_gradient, Store store, Shape shape) {
  __shared__ float storage[32];
  const int cols = static_cast<int>(shape.cols);
  const auto col = [](int pack) { return static_cast<int>(pack * blockDim.x + threadIdx.x) * N; };
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
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
    sum = blockDim.x == 32 ? warp_merge<SoftmaxBackward>(sum) : block_merge<SoftmaxBackward>(sum, storage);

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

/// If packs do not cover the rows of all three, a thread takes half as many elements: with more, the registers would spill. rows = 0 does
/// nothing. Throws CudaError.
struct MaskedBackward {
  using Operations = OpList<CausalSoftmaxBackward, PaddedSoftmaxBackward>;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    const std::int64_t most_cols = matrix.in_packs() ? 16384 : 8192;
    if (matrix.cols > most_cols) return {Why::registers_of_block_for_two, most_cols};
    return fits_32_bits(matrix);
  }

  static int elements_per_thread(std::int64_t cols) { return cols <= 8 * 1024 ? 8 : 16; }
  /// The fewest threads that hold the row; if one warp suffices, four rows per block.
  static dim3 block(std::int64_t cols) {
    const std::int64_t threads = round_up(divide_up(cols, elements_per_thread(cols)), 32);
    return {static_cast<unsigned>(threads), threads == 32 ? 4U : 1U};
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
    const auto launch_packs = [&]<int packs_per_thread, int pack_size>() {
      const dim3 threads = block(shape.cols);
      masked_backward<packs_per_thread, pack_size>
          <<<grid_for(divide_up(shape.rows, threads.y)), threads, 0, stream>>>(load_softmax, load_gradient,
                                                                               store, shape);
      CUDA_CHECK(cudaGetLastError());
    };
    const bool fit_packs = load_softmax.template fits_packs<N>() && load_gradient.template fits_packs<N>() &&
                           store.template fits_packs<N>();
    if (!fit_packs) {
      launch_packs.template operator()<8, 1>();
    } else if (elements_per_thread(shape.cols) == 8) {
      launch_packs.template operator()<8 / N, N>();
    } else {
      launch_packs.template operator()<16 / N, N>();
    }
  }
};
