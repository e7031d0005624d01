// The pair (m, d) of a thread's elements, with one multiply-add and one exponential per element: exp(x - m)
// is 2 to the power of x c - m c with c = log2(e).
#pragma once

#include "common/kernel/max_sum.cuh"

namespace rowwise {

/// Powers that equal exp(x - max) except for a factor that is the same for all x. The factor comes from
/// rounding max c.
class PowersBelow {
 public:
  explicit __device__ PowersBelow(float max) { shift_ = __fmul_rn(max, log2_e); }

  __device__ float operator()(float x) const { return exp2f(fmaf(x, log2_e, -shift_)); }
  /// The factor that converts powers below `other` into powers below this maximum.
  __device__ float of(PowersBelow other) const { return exp2f(other.shift_ - shift_); }
  /// The factor that converts the powers into exp(x - max).
  __device__ float correction(float max) const { return exp2f(-fmaf(max, log2_e, -shift_)); }

  /// Below a million, at most 1/16 is rounded off. Above it, the smallest powers would become 0 earlier than
  /// the exponentials do. -inf counts as far.
  static __device__ bool is_near(float max) { return fabsf(max) < 1e6f; }
  /// Sums do not depend on the smallest powers. Below 2^30 at most 64 is rounded off, and an exponent can
  /// hold that.
  static __device__ bool can_add_up(float max) { return fabsf(max) < 0x1p30f; }

 private:
  static constexpr float log2_e = 1.4426950408889634f;
  float shift_;
};

/// The largest of `values` and `max`.
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
  /// For values whose maximum, `largest`, is known already.
  template <int N>
  __device__ void add_below(float largest, const float (&values)[N]) {
    add_up_to(fmaxf(max_, largest), values);
  }

  __device__ float max() const { return max_; }
  __device__ MaxSum pair() const {
    return {max_, PowersBelow::can_add_up(max_) ? sum_ * PowersBelow(max_).correction(max_) : sum_};
  }

 private:
  /// max: the maximum of all elements, including those that were added before.
  template <int N>
  __device__ void add_up_to(float max, const float (&values)[N]) {
    // Note N25: tested before the powers are computed, it saves ten registers.
    if (PowersBelow::can_add_up(max)) {
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
  /// The sum of powers below max_ or, if those cannot add up, of exp(x - max_). The conversion between the
  /// two may be missing: if a maximum passes that limit, neighbouring floats are 64 apart, and exp(-64)
  /// leaves nothing of the elements that were added before.
  float sum_ = 0;
};

}  // namespace rowwise
