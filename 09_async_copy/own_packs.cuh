// Stage 09: asynchronous copies (cp.async) bring a row from global to shared memory. They take no registers,
// and no thread waits for them until it needs the row.
//
// Cost: 2 passes. The row is kept in the matrix's own type, so 227 KiB hold a 16-bit row twice as wide as
// stage 04's. Each thread requests some packs, and rereads exactly these: once a thread has waited for its own
// copies, it may read them without a barrier.
// Sources: CUDA programming guide, "Asynchronous data copies"; the pipelines of CUTLASS.
#pragma once

#include <cuda_pipeline.h>

#include "common/kernel/block_merge.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/pack.cuh"
#include "common/kernel/persistent_blocks.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"

/// Requests this thread's packs of a row, as one group. In an unrolled loop, lanes with fewer packs than others would
/// request them by themselves.
template <class T>
__device__ void request_row(T* slot, const T* row, int num_packs) {
  constexpr int N = elements_per_16_bytes<T>;
#pragma unroll 1
  for (int pack = static_cast<int>(threadIdx.x); pack < num_packs; pack += static_cast<int>(blockDim.x)) {
    __pipeline_memcpy_async(slot + pack * N, row + pack * N, 16);
  }
  __pipeline_commit();
}

/// The reduction of this thread's packs, which must have arrived.
template <class Op, class T>
__device__ typename Op::State reduce_packs(const T* slot, int num_packs) {
  constexpr int N = elements_per_16_bytes<T>;
  typename Op::State own{};
#pragma unroll 4
  for (int pack = static_cast<int>(threadIdx.x); pack < num_packs; pack += static_cast<int>(blockDim.x)) {
    float values[N];
    unpack(load_pack<N>(slot + pack * N), values);
    Op::add(own, values);
  }
  return own;
}

/// Stores result(x) of each element x of this thread's packs.
template <class T, class Result>
__device__ void write_packs(T* row, const T* slot, int num_packs, const Result& result) {
  constexpr int N = elements_per_16_bytes<T>;
#pragma unroll 4
  for (int pack = static_cast<int>(threadIdx.x); pack < num_packs; pack += static_cast<int>(blockDim.x)) {
    float values[N];
    unpack(load_pack<N>(slot + pack * N), values);
#pragma unroll
    for (float& value : values) value = result(value);
    store_pack(row + pack * N, make_pack<T>(values));
  }
}

/// One block per row. The row begins bytes_past_line bytes past a line of 128 bytes of shared memory.
template <class Op, int bytes_past_line, class T>
__global__ void __launch_bounds__(1024) own_packs_softmax(const T* x, T* y, Shape shape) {
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ typename Op::State storage[32];
  T* slot = reinterpret_cast<T*>(buffer + bytes_past_line);
  const std::int64_t begin = blockIdx.x * shape.cols;
  const int num_packs = static_cast<int>(shape.cols / elements_per_16_bytes<T>);

  request_row(slot, x + begin, num_packs);
  __pipeline_wait_prior(0);
  const RowResult<Op> result(block_merge_once<Op>(reduce_packs<Op>(slot, num_packs), storage));
  write_packs(y + begin, slot, num_packs, result);
}

/// Persistent blocks, with two slots: while a block works on a row, its next one is on its way.
template <class Op, class T>
__global__ void __launch_bounds__(1024) two_rows_softmax(const T* x, T* y, Shape shape) {
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ typename Op::State storage[32];
  T* slot = reinterpret_cast<T*>(buffer);
  T* next_slot = reinterpret_cast<T*>(buffer + round_up(shape.cols * std::int64_t{sizeof(T)}, 128));
  const int num_packs = static_cast<int>(shape.cols / elements_per_16_bytes<T>);

  request_row(slot, x + blockIdx.x * shape.cols, num_packs);
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t next_row = row + gridDim.x;
    // If this row is the block's last one, the group is empty, but it counts like the others.
    request_row(next_slot, x + next_row * shape.cols, next_row < shape.rows ? num_packs : 0);
    __pipeline_wait_prior(1);
    const RowResult<Op> result(block_merge<Op>(reduce_packs<Op>(slot, num_packs), storage));
    write_packs(y + row * shape.cols, slot, num_packs, result);
    T* const done = slot;
    slot = next_slot;
    next_slot = done;
  }
}

/// Launches a kernel whose blocks keep rows in shared_bytes of shared memory: as many persistent blocks as
/// the GPU holds, or one block per row.
template <class T>
void launch_in_shared_memory(void (*kernel)(const T*, T*, Shape), const Tensors<T>& tensors,
                             std::int64_t shared_bytes, bool persistent, cudaStream_t stream) {
  const auto [rows, cols] = tensors.shape;
  if (rows == 0) return;
  const int bytes = static_cast<int>(shared_bytes);
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const int threads = threads_for(cols / elements_per_16_bytes<T>, bytes, most_shared_bytes());
  const unsigned blocks = persistent ? blocks_that_stay(kernel, threads, bytes, rows) : grid_for(rows);
  kernel<<<blocks, threads, bytes, stream>>>(tensors.x, tensors.y, tensors.shape);
  CUDA_CHECK(cudaGetLastError());
}

/// Accepts rows of whole packs, if a block's shared memory holds `rows` of them, each from a line of 128
/// bytes on.
inline Refusal fits_shared_memory(const Matrix& matrix, const Gpu& gpu, int rows = 1) {
  if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
  const std::int64_t cols = gpu.dynamic_bytes() / rows / 128 * 128 / matrix.element_bytes;
  return at_most_columns(cols, matrix, rows == 1 ? Why::shared_memory : Why::shared_memory_for_two);
}

/// Softmax (or log-softmax) of each row; rows = 0 does nothing.
template <int bytes_past_line = 0>
struct OwnPacks {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = at_most_rows(max_grid_blocks, matrix, Why::grid)) return refusal;
    return fits_shared_memory(matrix, gpu);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    launch_in_shared_memory(own_packs_softmax<Op, bytes_past_line, T>, tensors,
                            tensors.shape.cols * std::int64_t{sizeof(T)} + bytes_past_line, false, stream);
  }
};

/// Softmax (or log-softmax) of each row, if a block's shared memory holds two rows; rows = 0 does nothing.
struct TwoRows {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) { return fits_shared_memory(matrix, gpu, 2); }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    launch_in_shared_memory(two_rows_softmax<Op, T>, tensors,
                            2 * round_up(tensors.shape.cols * std::int64_t{sizeof(T)}, 128), true, stream);
  }
};
