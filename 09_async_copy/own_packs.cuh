// Stage 09: a row goes from global to shared memory by itself (cp.async). The copies take no registers, and
// no thread waits for them until it needs the row.
//
// Cost: 2 passes. The row is kept in the matrix's own type, so 227 KiB hold a 16-bit row twice as wide as stage 04's.
// Each thread requests some packs, and rereads exactly these: once a thread has waited for its own copies, it may read
// them without a barrier.
// Sources: CUDA programming guide, "Asynchronous data copies"; the pipelines of CUTLASS.
#pragma once

#include "common/kernel/async_copy.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/l2_policy.cuh"
#include "common/kernel/pack.cuh"
#include "common/kernel/persistent_blocks.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"

template <class T>
__device__ void request_pack(T* slot, const T* row, int pack, L2Policy reads) {
  constexpr int N = elements_per_16_bytes<T>;
  copy_async(slot + pack * N, row + pack * N, reads);
}

/// Requests nothing if there is no such row; it makes the groups all the same.
template <class T>
__device__ void request_row(T* slot, const T* row, int num_packs, L2Policy reads) {
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    for_each_pack_of_group(group, num_packs, [&](int pack) { request_pack(slot, row, pack, reads); });
    __pipeline_commit();
  }
}

/// The reduction of this thread's packs of a row: each group as it arrives.
template <class Op, class T>
__device__ typename Op::State reduce_own_packs(const T* slot, int num_packs) {
  constexpr int N = elements_per_16_bytes<T>;
  typename Op::State own{};
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    __pipeline_wait_prior(copy_groups - 1 - group);
    for_each_pack_of_group(group, num_packs, [&](int pack) {
      float values[N];
      unpack(load_pack<N>(slot + pack * N), values);
      Op::add(own, values);
    });
  }
  return own;
}

template <class Op, class T>
__device__ void write_pack(T* row, const T* slot, int pack, const RowResult<Op>& result) {
  constexpr int N = elements_per_16_bytes<T>;
  float values[N];
  unpack(load_pack<N>(slot + pack * N), values);
#pragma unroll
  for (float& value : values) value = result(value);
  store_pack(row + pack * N, make_pack<T>(values));
}

/// One block per row. The row begins bytes_past_line bytes past a line of 128 bytes of shared memory.
template <class Op, int bytes_past_line, class T>
__global__ void __launch_bounds__(1024) own_packs_softmax(const T* x, T* y, Shape shape, L2Policy reads) {
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ typename Op::State storage[32];
  T* slot = reinterpret_cast<T*>(buffer + bytes_past_line);
  const int num_packs = static_cast<int>(shape.cols / elements_per_16_bytes<T>);
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    request_row(slot, x + row * shape.cols, num_packs, reads);
    const typename Op::State own = reduce_own_packs<Op>(slot, num_packs);
    const RowResult<Op> result(block_merge<Op>(own, storage));
    for (int pack = static_cast<int>(threadIdx.x); pack < num_packs; pack += static_cast<int>(blockDim.x)) {
      write_pack(y + row * shape.cols, slot, pack, result);
    }
  }
}

/// Takes whole packs, if a block's shared memory holds `rows` of the rows, in lines of 128 bytes.
inline Refusal fits_shared_memory(const Matrix& matrix, const Gpu& gpu, int rows = 1,
                                  std::int64_t most_cols = most_cols_of_index) {
  if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
  const std::int64_t cols = gpu.dynamic_bytes() / rows / 128 * 128 / matrix.element_bytes;
  return at_most_columns(min(cols, most_cols), matrix, Why::shared_memory);
}

/// Softmax (or log-softmax) of each row; rows = 0 does nothing.
template <int bytes_past_line = 0>
struct OwnPacks {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) { return fits_shared_memory(matrix, gpu); }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const auto kernel = own_packs_softmax<Op, bytes_past_line, T>;
    const int shared_bytes = static_cast<int>(tensors.shape.cols * std::int64_t{sizeof(T)}) + bytes_past_line;
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    const int threads =
        threads_for(tensors.shape.cols / elements_per_16_bytes<T>, shared_bytes, most_shared_bytes());
    kernel<<<grid_for(tensors.shape.rows), threads, shared_bytes, stream>>>(
        tensors.x, tensors.y, tensors.shape, policy_of_reads<T>(2, tensors.shape));
    CUDA_CHECK(cudaGetLastError());
  }
};
