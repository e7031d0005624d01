// The pair (m, d) of a thread's elements, at one multiply-add and one exponential for each: exp(x - m) is 2 to the power of
// x c - m c with c = log2(e).
#pragma once

#include "common/kernel/max_sum.cuh"

class RunningPair {
 public:
  template <int N>
  __device__ void add(const float (&values)[N]) {
    float max = max_;
#pragma unroll
    for (const float value : values) max = fmaxf(max, value);
    if (is_near(max)) {
      const float shift = shift_of(max);
      sum_ *= exp2f(shift_of(max_) - shift);
#pragma unroll
      for (const float value : values) sum_ += exp2f(fmaf(value, log2_e, -shift));
    } else {
      const float shift = safe_shift(max);
      sum_ *= __expf(max_ - shift);
#pragma unroll
      for (const float value : values) sum_ += __expf(value - shift);
    }
    max_ = max;
  }

  __device__ MaxSum pair() const {
    return {max_, is_near(max_) ? sum_ * exp2f(rounding_of(max_)) : sum_};
  }

 private:
  static constexpr float log2_e = 1.4426950408889634f;
  /// m c, rounded. All powers are of the same distance from it, so what was rounded off is a factor of the sum.
  static __device__ float shift_of(float max) {
    return __fmul_rn(max, log2_e);
  }
  /// What was rounded up: shift_of(max) - max c, exactly.
  static __device__ float rounding_of(float max) {
    return -fmaf(max, log2_e, -shift_of(max));
  }
  /// Beyond, more is rounded off than an exponent holds: there the maximum is subtracted first. -inf, too, is far.
  static __device__ bool is_near(float max) {
    return fabsf(max) < 1e6f;
  }

  float max_ = MaxSum{}.max;
  float sum_ = 0;  ///< of 2^(x c - shift_of(max_)); where max_ is far, of exp(x - max_)
};
