// Stage 05: rows of any width. The row is kept nowhere: it is read again for each of the three steps.
//
// Cost: 4 passes requested, 3 reads and 1 write. From DRAM it is nearer to 2 while the rows that all blocks
// work on at a time fit in the L2 together, because then the second and third read are answered there.
// Variants: a small and a large block (how many rows are in flight), the second step walking backwards (the
// last packs read are still in the cache), and cache hints (which mark data that is not needed again).
// Source: OneFlow's third softmax kernel.
#pragma once

#include "02_fused_block/block_reduce.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/for_each_pack.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/load_store.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"

/// `load` reads for the maximum and the sum, `last_load` for the result: that read is the last of the row.
template <class Op, int pack_size, Direction second_pass, class Load, class LastLoad, class Store>
__global__ void __launch_bounds__(1024)
    uncached_softmax(Load load, LastLoad last_load, Store store, Shape shape) {
  __shared__ WarpThenShared::Storage storage;
  const auto [rows, cols] = shape;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float max = MaxOp::identity;
    const auto update_max = [&](const float(&values)[pack_size], std::int64_t) {
#pragma unroll
      for (const float value : values) max = fmaxf(max, value);
    };
    for_each_pack<pack_size, Direction::forward>(load, row, cols, update_max);
    max = WarpThenShared::all_reduce<MaxOp>(max, storage);

    float sum = 0;
    const auto add_to_sum = [&](const float(&values)[pack_size], std::int64_t) {
#pragma unroll
      for (const float value : values) sum += __expf(value - max);
    };
    for_each_pack<pack_size, second_pass>(load, row, cols, add_to_sum);
    sum = WarpThenShared::all_reduce<SumOp>(sum, storage);

    const auto write_result = [&, result = RowResult<Op>(max, sum)](float(&values)[pack_size],
                                                                    std::int64_t col) {
#pragma unroll
      for (float& value : values) value = result(value);
      store.template store<pack_size>(values, row, col);
    };
    for_each_pack<pack_size, Direction::forward>(last_load, row, cols, write_result);
  }
}

/// Softmax (or log-softmax) of each row, any width; rows = 0 does nothing. If packs do not cover the rows, it
/// takes single elements. Throws CudaError.
template <unsigned largest_block, Direction second_pass>
struct UncachedSoftmax {
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    launch<Op>(load, load, store, shape, stream);
  }
  /// `last_load` reads for the result.
  template <class Op, class Load, class LastLoad, class Store>
  static void launch(Load load, LastLoad last_load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_widest_packs(load, store, [&]<int pack_size>() {
      const unsigned block_size = block_size_for<pack_size>(shape.cols, largest_block);
      uncached_softmax<Op, pack_size, second_pass>
          <<<grid_for(shape.rows), block_size, 0, stream>>>(load, last_load, store, shape);
      CUDA_CHECK(cudaGetLastError());
    });
  }
};

// ---- Cache hints only concern Load and Store: the kernel does not change.

/// Reads data that is not read again: its lines are evicted first (ld.global.cs).
template <class T>
struct StreamingLoad : DirectLoad<T> {
  template <int N>
  __device__ Pack<T, N> fetch(std::int64_t row, std::int64_t col) const {
    const T* source = this->x + row * this->cols + col;
    return {__ldcs(reinterpret_cast<const decltype(Pack<T, N>::word)*>(source))};
  }
};

/// Writes results, which this kernel does not read: they should not push out the rows that will be read again
/// (st.global.cs).
template <class T>
struct StreamingStore : DirectStore<T> {
  template <int N>
  __device__ void store(const float (&values)[N], std::int64_t row, std::int64_t col) const {
    T* destination = this->y + row * this->cols + col;
    __stcs(reinterpret_cast<decltype(Pack<T, N>::word)*>(destination), make_pack<T>(values).word);
  }
};

/// As UncachedSoftmax: a large block, the sum walking backwards, the last read and the write with hints.
struct CacheHints {
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const DirectLoad<T> load{tensors.x, tensors.shape.cols};
    const StreamingLoad<T> last_load{load};
    const StreamingStore<T> store{{tensors.y, tensors.shape.cols}};
    UncachedSoftmax<1024, Direction::backward>::launch<Op>(load, last_load, store, tensors.shape, stream);
  }
};
