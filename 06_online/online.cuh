// Stage 06: the maximum and the sum in one pass. When a larger maximum turns up, the sum so far is rescaled.
//
// Cost: 3 passes, 2 reads and 1 write, for rows of any width; 2 where the row fits the registers of a block
// (fused). The ladder is that of the Triton article on softmax: fused, three-pass tile (stage 05's kernel),
// online, and each of the last two walking backwards in a later pass. Rescaling per element costs two
// exponentials per element, rescaling per chunk little more than one.
// Sources: the Triton article; Milakov and Gimelshein, "Online normalizer calculation for softmax".
#pragma once

#include <cstdint>
#include <stdexcept>

#include "05_uncached/uncached.cuh"
#include "06_online/max_sum.cuh"
#include "common/harness/cuda_check.h"
#include "common/kernel/load_store.cuh"

// ---- Online: any width.
enum class Rescale { per_element, per_chunk };

/// Adds N elements to a pair.
template <Rescale rescale, int N>
__device__ void add_to(MaxSum& total, const float (&values)[N]) {
  if constexpr (rescale == Rescale::per_element) {
#pragma unroll
    for (const float value : values) total = merge(total, {value, 1.0f});
  } else {
    float max = total.max;
#pragma unroll
    for (const float value : values) max = fmaxf(max, value);
    const float shift = safe_shift(max);
    total.sum *= __expf(total.max - shift);
#pragma unroll
    for (const float value : values) total.sum += __expf(value - shift);
    total.max = max;
  }
}

template <Op op, int pack_size, Rescale rescale, Direction second_pass, class Load, class Store>
__global__ void __launch_bounds__(1024) online_softmax(Load load, Store store, Shape shape) {
  __shared__ MaxSum storage[32];
  const auto [rows, cols] = shape;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    MaxSum total;
    const auto update_total = [&](const float(&values)[pack_size], std::int64_t) {
      add_to<rescale>(total, values);
    };
    for_each_pack<pack_size, Direction::forward>(load, row, cols, update_total);
    total = block_merge(total, storage);

    const auto write_result = [&, result = RowResult<op>(total.max, total.sum)](float(&values)[pack_size],
                                                                                std::int64_t col) {
#pragma unroll
      for (float& value : values) value = result(value);
      store.template store<pack_size>(values, row, col);
    };
    for_each_pack<pack_size, second_pass>(load, row, cols, write_result);
  }
}

/// Softmax (or log-softmax) of each row, any width; rows = 0 does nothing. Where packs do not cover the rows,
/// it takes single elements. Throws CudaError.
template <Op op, Rescale rescale, Direction second_pass, class Load, class Store>
void launch_online_softmax(Load load, Store store, Shape shape, cudaStream_t stream) {
  if (shape.rows == 0) return;
  with_widest_packs(load, store, [&]<int pack_size>() {
    const unsigned block_size = block_size_for<pack_size>(shape.cols, 1024);
    online_softmax<op, pack_size, rescale, second_pass>
        <<<grid_for(shape.rows), block_size, 0, stream>>>(load, store, shape);
    CUDA_CHECK(cudaGetLastError());
  });
}

// ---- Fused: the row stays in the registers of a block, each element costs one exponential.
constexpr std::int64_t max_fused_cols = 1024 * 32;

/// Each thread reduces what it holds against its own maximum; the block's maximum then only changes the
/// factor. block_size is a constant, so that the addresses of a thread's packs are one register and constant
/// offsets: with blockDim.x each had registers of its own, and the rows of 32 elements per thread spilled.
template <Op op, int block_size, int pack_size, int packs_per_thread, class Load, class Store>
__global__ void __launch_bounds__(block_size) fused_register_softmax(Load load, Store store, Shape shape) {
  __shared__ MaxSum storage[32];
  const int cols = static_cast<int>(shape.cols);
  const auto col_of_pack = [](int pack) {
    return (pack * block_size + static_cast<int>(threadIdx.x)) * pack_size;
  };

  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    // = {}: see stage 03; without it the row does not fit the registers.
    Fetched<Load, pack_size> fetched[packs_per_thread] = {};
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (col_of_pack(pack) < cols) fetched[pack] = load.template fetch<pack_size>(row, col_of_pack(pack));
    }

    float values[packs_per_thread][pack_size];
    MaxSum own;
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      load.template unpack<pack_size>(fetched[pack], values[pack]);
#pragma unroll
      for (const float value : values[pack]) {
        if (col_of_pack(pack) < cols) own.max = fmaxf(own.max, value);
      }
    }
    const float shift = safe_shift(own.max);
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
#pragma unroll
      for (float& value : values[pack]) {
        value = RowResult<op>::kept(value, shift);
        if (col_of_pack(pack) < cols) own.sum += RowResult<op>::summand(value);
      }
    }

    const MaxSum total = block_merge(own, storage);
    // From "relative to shift" to "relative to the row's maximum": a factor, or for the logarithm an offset.
    // The factor is at most 1, because shift is at most the row's maximum, also for a thread that saw only
    // -inf.
    const float to_row = RowResult<op>(total.max, total.sum)(shift);
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
#pragma unroll
      for (float& value : values[pack]) value = op == Op::softmax ? value * to_row : value + to_row;
      if (col_of_pack(pack) < cols) store.template store<pack_size>(values[pack], row, col_of_pack(pack));
    }
  }
}

/// As launch_online_softmax, for cols <= max_fused_cols; throws std::invalid_argument for more. Takes the
/// smallest block that holds the row: a few reads on their way per thread, and many blocks per SM, so that
/// one block's arithmetic hides behind another's reads.
template <Op op, class Load, class Store>
void launch_fused_register_softmax(Load load, Store store, Shape shape, cudaStream_t stream) {
  if (shape.rows == 0) return;
  with_widest_packs(load, store, [&]<int pack_size>() {
    const auto launch_if_fits = [&]<int block_size, int elements_per_thread>() {
      if (shape.cols > block_size * elements_per_thread) return false;
      fused_register_softmax<op, block_size, pack_size, elements_per_thread / pack_size>
          <<<grid_for(shape.rows), block_size, 0, stream>>>(load, store, shape);
      CUDA_CHECK(cudaGetLastError());
      return true;
    };
    const bool launched =
        launch_if_fits.template operator()<32, 8>() ||   //
        launch_if_fits.template operator()<64, 16>() ||  //
        launch_if_fits.template operator()<128, 16>() || launch_if_fits.template operator()<256, 16>() ||
        launch_if_fits.template operator()<512, 16>() || launch_if_fits.template operator()<512, 32>() ||
        launch_if_fits.template operator()<1024, 32>();
    if (!launched) throw std::invalid_argument("the row does not fit the registers of a block");
  });
}
