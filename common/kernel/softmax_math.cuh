// The arithmetic that all stages share. Everything is float, whatever type the matrix is stored in.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/harness/problem.h"

/// The two reductions of a softmax. fmaxf drops NaN, which is fine: the NaN comes back through exp(NaN -
/// max).
struct MaxOp {
  static constexpr float identity = -INFINITY;  // not 0: a row of -200 would give 0 / 0
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct SumOp {
  static constexpr float identity = 0;
  __device__ float operator()(float a, float b) const { return a + b; }
};

/// The last step of a row, once its maximum and sum are known: exp(x - max) / sum, or its logarithm.
template <Op op>
class RowResult {
 public:
  /// One division (or logarithm) per row: per element it would be the longest instruction sequence of the
  /// kernel.
  __device__ RowResult(float max, float sum)
      : max_(max), sum_term_(op == Op::softmax ? 1.0f / sum : logf(sum)) {}

  __device__ float operator()(float x) const { return finish(kept(x, max_)); }

  /// What a kernel may keep of an element between the sum and the last step, so that each element costs one
  /// exponential: exp(x - max) for softmax, x - max for log-softmax.
  __device__ static float kept(float x, float max) { return op == Op::softmax ? __expf(x - max) : x - max; }
  /// What that element adds to the sum.
  __device__ static float summand(float kept) { return op == Op::softmax ? kept : __expf(kept); }
  __device__ float finish(float kept) const {
    return op == Op::softmax ? kept * sum_term_ : kept - sum_term_;
  }

 private:
  float max_;
  float sum_term_;
};

/// Grid size for `items` pieces of work, one a block. Kernels loop with stride gridDim.x, because a grid has
/// at most 2^31 - 1 blocks and a matrix may have more rows.
inline unsigned grid_for(std::int64_t items) {
  return static_cast<unsigned>(std::min<std::int64_t>(items, 0x7fffffff));
}

__host__ __device__ constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
__host__ __device__ constexpr std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return divide_up(a, multiple) * multiple;
}
