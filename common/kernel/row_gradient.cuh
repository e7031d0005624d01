// The gradient of softmax: the operations on a row, for the kernels of the stage backward and those of the
// library. A kernel reads two matrices, y and dy, and writes one, dx; all that it has to know of a row is one
// sum.
//
// Cost: 3 passes, 2 reads and 1 write. Each kernel keeps two rows in a place where a forward kernel keeps
// one: the registers of a warp or of a block, shared memory, or a cluster.
// Sources: PyTorch's and OneFlow's softmax backward use these formulas; quack keeps both rows on chip as
// well.
#pragma once

#include "common/kernel/block_merge.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/pack.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/shape.h"

// ---- The operations on a row. State{} is the sum of no element.

/// For y = softmax(x): dx = y (dy - sum of y dy).
struct SoftmaxBackward {
  static constexpr const char* name = "softmax_backward";
  using State = float;
  template <int N>
  static __device__ void add(State& sum, const float (&y)[N], const float (&dy)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum += y[i] * dy[i];
  }
  static __device__ State merge(State a, State b) {
    return a + b;
  }
  static __device__ float finish(State sum, float y, float dy) {
    return y * (dy - sum);
  }
};

/// For y = log_softmax(x): dx = dy - exp(y) (sum of dy). An element of -inf has exp(y) = 0, and its dx is dy.
struct LogSoftmaxBackward {
  static constexpr const char* name = "log_softmax_backward";
  using State = float;
  template <int N>
  static __device__ void add(State& sum, const float (&)[N], const float (&dy)[N]) {
#pragma unroll
    for (const float value : dy) sum += value;
  }
  static __device__ State merge(State a, State b) {
    return a + b;
  }
  static __device__ float finish(State sum, float y, float dy) {
    return dy - __expf(y) * sum;
  }
};

using BackwardOperations = OpList<SoftmaxBackward, LogSoftmaxBackward>;

// ---- Operations on packs.

/// True if packs of N elements cover the rows of all three matrices.
template <int N, class T>
bool all_fit_packs(const T* y, const T* dy, const T* dx, std::int64_t cols) {
  return rows_fit_packs<N>(y, cols) && rows_fit_packs<N>(dy, cols) && rows_fit_packs<N>(dx, cols);
}

/// Adds a pack of y and one of dy to the sum.
template <class Op, class T, int N>
__device__ void add_packs(typename Op::State& sum, const Pack<T, N>& y_pack, const Pack<T, N>& dy_pack) {
  float y[N];
  float dy[N];
  unpack(y_pack, y);
  unpack(dy_pack, dy);
  Op::add(sum, y, dy);
}

/// The pack of dx, once the sum of the row is known.
template <class Op, class T, int N>
__device__ Pack<T, N> finish_packs(typename Op::State sum, const Pack<T, N>& y_pack,
                                   const Pack<T, N>& dy_pack) {
  float y[N];
  float dy[N];
  unpack(y_pack, y);
  unpack(dy_pack, dy);
#pragma unroll
  for (int i = 0; i < N; ++i) dy[i] = Op::finish(sum, y[i], dy[i]);
  return make_pack<T>(dy);
}
