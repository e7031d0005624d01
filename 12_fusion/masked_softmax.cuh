// Forward and backward in one kernel each.
#pragma once

#include "08_unaligned_rows/head_and_tail.cuh"
#include "11_backward/row_gradient.cuh"
#include "12_fusion/masked_load_store.cuh"

/// By a kernel of an earlier stage: Softmax::launch<Op>(load, store, shape, stream). rows = 0 does nothing. Throws CudaError.
template <class Launcher>
struct MaskedSoftmax {
  template <class T>
  static void launch(const MaskedForward<T>& of, cudaStream_t stream) {
    const MaskedLoad<T> load{of.x, of.mask, attention_scale, -INFINITY};
    const SoftmaxAndDropoutStore<T> store{
        {of.softmax, of.shape.cols}, {of.y, of.shape.cols}, of.mask, of.dropout};
    Launcher::template launch<Softmax>(load, store, of.shape, stream);
  }
};

/// dx = softmax (g - sum of softmax g) of each row, with g the gradient of the softmax. The row stays in the registers of a block,
/// or of a warp, of which a block has blockDim.y.
template <int packs_per_thread, int N, class LoadSoftmax, class LoadGradient, class Store>
__global__ void __launch_bounds__(1024)
    masked_backward(LoadSoftmax load_softmax, LoadGradient load_gradient, Store store, Shape shape) {
  const int cols = static_cast<int>(shape.cols);
  const auto col = [](int pack) { return static_cast<int>(pack * blockDim.x + threadIdx.x) * N; };
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    // What does not exist adds nothing to the sum.
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
    sum = merge_threads_of_row<SoftmaxBackward>(sum);

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

/// Rows of at most most_cols columns; rows = 0 does nothing. Throws CudaError.
struct MaskedBackward {
  static constexpr std::int64_t most_cols = 16384;
  /// Of a row: its packs in flight are as many bytes as the forward kernel has.
  static int elements_per_thread(std::int64_t cols) { return cols <= 8192 ? 8 : 16; }
  /// As few threads as hold the row, with one warp four rows a block.
  static dim3 block(std::int64_t cols) {
    const auto threads = static_cast<unsigned>(round_up(divide_up(cols, elements_per_thread(cols)), 32));
    return {threads, threads == 32 ? 4U : 1U};
  }

  template <class T>
  static void launch(const MaskedGradient<T>& of, cudaStream_t stream) {
    launch(MaskedLoad<T>{of.softmax, of.mask, 1, 0},
           GradientLoad<T>{of.dy, of.mask, of.dropout, Dropout::factor * attention_scale},
           MaskedStore<T>{{of.dx, of.shape.cols}, of.mask, 0}, of.shape, stream);
  }

  template <class LoadSoftmax, class LoadGradient, class Store>
  static void launch(LoadSoftmax load_softmax, LoadGradient load_gradient, Store store, Shape shape,
                     cudaStream_t stream) {
    if (shape.rows == 0) return;
    const dim3 threads = block(shape.cols);
    const unsigned blocks = grid_for(divide_up(shape.rows, threads.y));
    const auto launch_packs = [&]<int packs_per_thread, int N>() {
      masked_backward<packs_per_thread, N>
          <<<blocks, threads, 0, stream>>>(load_softmax, load_gradient, store, shape);
      CUDA_CHECK(cudaGetLastError());
    };
    const auto launch_elements = [&]<int elements>() {
      constexpr int N = elements_per_16_bytes<typename LoadGradient::Element>;
      if (load_softmax.template fits_packs<N>() && load_gradient.template fits_packs<N>() &&
          store.template fits_packs<N>()) {
        launch_packs.template operator()<elements / N, N>();
      } else {
        launch_packs.template operator()<elements, 1>();
      }
    };
    if (elements_per_thread(shape.cols) == 8) {
      launch_elements.template operator()<8>();
    } else {
      launch_elements.template operator()<16>();
    }
  }
};
