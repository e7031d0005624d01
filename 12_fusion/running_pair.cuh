// The pair (m, d) of a thread's elements, at one multiply-add and one exponential for each: exp(x - m) is 2 to the power of
// x c - m c with c = log2(e).
#pragma once

#include "common/kernel/max_sum.cuh"

/// exp(x - max), but for a factor that all x have in common: what m c was rounded by.
class PowersBelow {
 public:
  explicit __device__ PowersBelow(float max) : max_(max) { shift_ = __fmul_rn(max, log2_e); }

  /// Beyond, more is rounded off than an exponent holds: there the maximum must be subtracted first. -inf, too, is far.
  __device__ bool is_near() const { return fabsf(max_) < 1e6f; }

  // Where it is near:
  __device__ float operator()(float x) const { return exp2f(fmaf(x, log2_e, -shift_)); }
  /// Of those below `other` relative to these.
  __device__ float of(PowersBelow other) const { return exp2f(other.shift_ - shift_); }
  /// The factor that makes them exp(x - max).
  __device__ float correction() const { return exp2f(-fmaf(max_, log2_e, -shift_)); }

 private:
  static constexpr float log2_e = 1.4426950408889634f;
  float max_;
  float shift_;
};

class RunningPair {
 public:
  template <int N>
  __device__ void add(const float (&values)[N]) {
    float max = max_;
#pragma unroll
    for (const float value : values) max = fmaxf(max, value);
    if (const PowersBelow power(max); power.is_near()) {
      sum_ *= power.of(PowersBelow(max_));
#pragma unroll
      for (const float value : values) sum_ += power(value);
    } else {
      const float shift = safe_shift(max);
      sum_ *= __expf(max_ - shift);
#pragma unroll
      for (const float value : values) sum_ += __expf(value - shift);
    }
    max_ = max;
  }

  __device__ MaxSum pair() const {
    const PowersBelow power(max_);
    return {max_, power.is_near() ? sum_ * power.correction() : sum_};
  }

 private:
  float max_ = MaxSum{}.max;
  float sum_ = 0;  ///< of powers below max_; where it is far, of exp(x - max_)
};
