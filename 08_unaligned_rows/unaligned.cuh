// Stage 08: rows whose width no pack of 16 bytes divides, so that rows begin at different distances from the
// 16-byte boundaries.
//
// Cost: 2 passes. The row stays in the registers of a block, and the arithmetic is that of stage 06's
// `fused`. `scalar` is that kernel with single elements, as earlier stages use them for such rows;
// `head_and_tail` moves single elements only at the two ends of a row, and everything between them in packs.
// Source: a scalar prologue and epilogue around vector accesses is common practice.
#pragma once

#include "06_online/online.cuh"
#include "common/kernel/tensors.h"

/// The number of elements between the last 16-byte boundary and this address.
template <class T>
__host__ __device__ int elements_past_boundary(const T* address) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % 16 / sizeof(T));
}

/// A row in three pieces: `head` single elements, `num_packs` aligned packs of N elements, `tail` single
/// elements. Head and tail have fewer than N elements each.
template <int N>
struct Cut {
  int head;
  int num_packs;
  int tail;

  template <class T>
  __device__ Cut(const T* row, int cols) {
    // The head ends at the first boundary, or with the row if the row ends earlier.
    head = min((N - elements_past_boundary(row)) % N, cols);
    num_packs = (cols - head) / N;
    tail = (cols - head) % N;
  }
  __device__ int col_of_pack(int pack) const { return head + pack * N; }
  __device__ int num_singles() const { return head + tail; }
  __device__ int col_of_single(int single) const { return single < head ? single : single + num_packs * N; }
};

/// One block per row. x and y must be equally far past a boundary, because one cut serves both.
template <class Op, int packs_per_thread, int warps, class T>
__global__ void __launch_bounds__(32 * warps) head_and_tail_softmax(const T* x, T* y, int cols) {
  __shared__ MaxSum storage[32];
  constexpr int N = elements_per_16_bytes<T>;
  const T* row_x = x + blockIdx.x * std::int64_t{cols};
  T* row_y = y + blockIdx.x * std::int64_t{cols};
  const Cut<N> cut(row_x, cols);
  const int thread = static_cast<int>(threadIdx.x);
  const auto pack = [&](int i) { return i * 32 * warps + thread; };
  // One access moves both ends: they have at most 14 elements, and a block has at least 32 threads.
  const bool has_single = thread < cut.num_singles();
  const int col_of_single = cut.col_of_single(thread);

  // Issue all loads before the first is used.
  Pack<T, N> fetched[packs_per_thread];
#pragma unroll
  for (int i = 0; i < packs_per_thread; ++i) {
    fetched[i] =
        pack(i) < cut.num_packs ? load_pack<N>(row_x + cut.col_of_pack(pack(i))) : missing_pack<T, N>();
  }
  const T single = has_single ? row_x[col_of_single] : static_cast<T>(-INFINITY);

  float values[packs_per_thread * N + 1];
#pragma unroll
  for (int i = 0; i < packs_per_thread; ++i) unpack(fetched[i], values_of_pack<N>(values, i));
  values[packs_per_thread * N] = static_cast<float>(single);

  replace_by_results<Op>(values, [&](MaxSum own) { return block_merge_once<Op, warps>(own, storage); });

#pragma unroll
  for (int i = 0; i < packs_per_thread; ++i) {
    if (pack(i) < cut.num_packs) {
      store_pack(row_y + cut.col_of_pack(pack(i)), make_pack<T>(values_of_pack<N>(values, i)));
    }
  }
  if (has_single) row_y[col_of_single] = static_cast<T>(values[packs_per_thread * N]);
}

// ---- The launchers take rows that the registers of a block hold; rows = 0 does nothing. They throw CudaError.

struct Scalar {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) { return FusedSoftmax::refuses(matrix, gpu); }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Shape shape = tensors.shape;
    if (shape.rows == 0) return;
    const DirectLoad<T> load{tensors.x, shape.cols};
    const DirectStore<T> store{tensors.y, shape.cols};
    FusedSoftmax::launch_packs<Op, 1>(load, store, shape, stream);
  }
};

struct HeadAndTail : Scalar {
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    // If x and y were cut at different columns, a pack of x would cross a boundary of y.
    if (elements_past_boundary(tensors.x) != elements_past_boundary(tensors.y)) {
      return Scalar::launch<Op>(tensors, stream);
    }
    const auto [rows, cols] = tensors.shape;
    if (rows == 0) return;
    constexpr int N = elements_per_16_bytes<T>;
    // The ends of a row need no threads of their own.
    with_fused_block(cols / N * N, [&]<int elements, int warps>() {
      head_and_tail_softmax<Op, elements / N, warps>
          <<<grid_for(rows), 32 * warps, 0, stream>>>(tensors.x, tensors.y, static_cast<int>(cols));
      CUDA_CHECK(cudaGetLastError());
    });
  }
};
