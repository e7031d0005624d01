// From the stage backward: the gradient. A kernel reads two matrices, y and dy, and writes one; all it has to
// know of a row is one sum.
//
// Cost: 3 passes, 2 reads and 1 write. Each kernel keeps two rows in a place where an earlier stage kept one:
// the registers of a warp (warp_reduce) or of a block (online), shared memory (async_copy), a cluster
// (cluster), a split row (split_row), and rows that no pack divides (unaligned_rows). recomputed.cuh of the
// stage reads x instead of y.
// Sources: PyTorch's and OneFlow's softmax backward use these formulas; quack keeps both rows on chip as
// well. The sum in two floats is Dekker's and Knuth's arithmetic (Ogita, Rump and Oishi, "Accurate sum and
// dot product").
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

// ---- The sum in two floats: the second holds the rounding error of the first.

struct TwoFloats {
  float sum = 0;
  float rest = 0;
};

/// a + b without any error: the rounded sum and its rounding error. The _rn functions are never contracted
/// into a fused multiply-add.
__device__ inline TwoFloats exact_sum(float a, float b) {
  const float sum = __fadd_rn(a, b);
  const float of_b = __fadd_rn(sum, -a);
  const float of_a = __fadd_rn(sum, -of_b);
  return {sum, __fadd_rn(__fadd_rn(a, -of_a), __fadd_rn(b, -of_b))};
}

__device__ inline TwoFloats shuffle_xor(TwoFloats value, int mask) {
  return {shuffle_xor(value.sum, mask), shuffle_xor(value.rest, mask)};
}

/// SoftmaxBackward, also accurate if y is nearly 1. The sum is then nearly dy, and a sum in one float would
/// have only few of the digits of their difference.
struct AccurateSoftmaxBackward {
  static constexpr const char* name = SoftmaxBackward::name;
  using State = TwoFloats;
  template <int N>
  static __device__ void add(State& state, const float (&y)[N], const float (&dy)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float product = __fmul_rn(y[i], dy[i]);
      state = merge(state, {product, fmaf(y[i], dy[i], -product)});
    }
  }
  static __device__ State merge(State a, State b) {
    const TwoFloats sum = exact_sum(a.sum, b.sum);
    return {sum.sum, sum.rest + (a.rest + b.rest)};
  }
  static __device__ float finish(State sum, float y, float dy) {
    return y * ((dy - sum.sum) - sum.rest);
  }
};

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
