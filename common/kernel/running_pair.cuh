// The pair (m, d) of a thread's elements, at one multiply-add and one exponential for each: exp(x - m) is 2 to the power of
// x c - m c with c = log2(e).
#pragma once

#include "common/kernel/max_sum.cuh"

/// Powers that are exp(x - max) but for a factor that all x have in common: what max c was rounded by.
class PowersBelow {
 public:
  explicit __device__ PowersBelow(float max) { shift_ = __fmul_rn(max, log2_e); }

  __device__ float operator()(float x) const { return exp2f(fmaf(x, log2_e, -shift_)); }
  /// Of those below `other` relative to these.
  __device__ float of(PowersBelow other) const { return exp2f(other.shift_ - shift_); }
  /// The factor that makes them exp(x - max).
  __device__ float correction(float max) const { return exp2f(-fmaf(max, log2_e, -shift_)); }

  /// Below a million at most 1/16 is rounded off. Further, the least powers would be zeros sooner than the exponentials. -inf is far.
  static __device__ bool is_near(float max) { return fabsf(max) < 1e6f; }
  /// Of sums nobody asks for the least. Below 2^30 at most 64 is rounded off, and an exponent holds that.
  static __device__ bool can_add_up(float max) { return fabsf(max) < 0x1p30f; }

 private:
  static constexpr float log2_e = 1.4426950408889634f;
  float shift_;
};

/// The largest of them and of `max`.
template <int N>
__device__ float max_of(const float (&values)[N], float max = MaxSum{}.max) {
#pragma unroll
  for (const float value : values) max = fmaxf(max, value);
  return max;
}

class RunningPair {
 public:
  template <int N>
  __device__ void add(const float (&values)[N]) {
    add_up_to(max_of(values, max_), values);
  }
  /// Where the largest of them is known.
  template <int N>
  __device__ void add_below(float largest, const float (&values)[N]) {
    add_up_to(fmaxf(max_, largest), values);
  }

  __device__ float max() const { return max_; }
  __device__ MaxSum pair() const {
    return {max_, PowersBelow::can_add_up(max_) ? sum_ * PowersBelow(max_).correction(max_) : sum_};
  }

 private:
  /// max: of what was added before, too.
  template <int N>
  __device__ void add_up_to(float max, const float (&values)[N]) {
    if (PowersBelow::can_add_up(max)) {  // asked before the powers are made, it costs nvcc ten registers less
      const PowersBelow power(max);
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

  float max_ = MaxSum{}.max;
  /// Of powers below max_, or, where those cannot add up, of exp(x - max_). The factor between them may be missing: where a maximum passes
  /// that border, floats are 64 apart, and exp(-64) leaves nothing of what was added before.
  float sum_ = 0;
};
