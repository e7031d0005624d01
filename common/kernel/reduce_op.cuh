// The two reductions of a softmax, which the first stages do one after the other.
#pragma once

/// fmaxf drops NaN, which is fine: the NaN comes back through exp(NaN - max).
struct MaxOp {
  // not 0: a row of -200 would give 0 / 0
  static constexpr float identity = -INFINITY;
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct SumOp {
  static constexpr float identity = 0;
  __device__ float operator()(float a, float b) const { return a + b; }
};
