// The pair at the heart of this repository: the maximum m of some elements and the sum d of exp(x - m), and
// how two parts of a row are merged. Merging is associative and has the identity (-inf, 0): a commutative
// monoid, so a row may be cut into parts in any way and merged in any order. Kernels use it in float, the
// reference that verifies them in double. Source: Milakov and Gimelshein, "Online normalizer calculation for
// softmax".
#pragma once

#include <cuda/std/limits>

/// Of no element: -inf and 0. Not 0 and 0: a row of -200 would give 0 / 0.
template <class Float>
struct MaxSum {
  Float max = -cuda::std::numeric_limits<Float>::infinity();
  Float sum = 0;
};

/// What to subtract before exp: the maximum, but never -inf. Where all elements so far are -inf, exp(-inf -
/// -inf) would be NaN; with the lowest float it is exp(-inf) = 0, and a row that starts with masked elements
/// comes out right. Subtracting 0 there would do for merging, but not for fused_register_softmax of stage 06:
/// see its factor `to_row`.
template <class Float>
__host__ __device__ Float safe_shift(Float max) {
  return fmax(max, cuda::std::numeric_limits<Float>::lowest());
}

/// The float version is one multiplication and one instruction of the special-function unit.
__host__ __device__ inline float fast_exp(float x) {
#ifdef __CUDA_ARCH__
  return __expf(x);
#else
  return expf(x);
#endif
}
__host__ __device__ inline double fast_exp(double x) {
  return exp(x);
}

/// The pair of both parts together: what was summed against the smaller maximum is rescaled.
template <class Float>
__host__ __device__ MaxSum<Float> merge(MaxSum<Float> a, MaxSum<Float> b) {
  const Float max = fmax(a.max, b.max);
  const Float shift = safe_shift(max);
  return {max, a.sum * fast_exp(a.max - shift) + b.sum * fast_exp(b.max - shift)};
}

/// Adds N elements: the sum so far is rescaled once for all of them, so that an element costs little more than
/// one exponential.
template <class Float, int N>
__host__ __device__ void add(MaxSum<Float>& total, const Float (&values)[N]) {
  Float max = total.max;
#pragma unroll
  for (const Float value : values) max = fmax(max, value);
  const Float shift = safe_shift(max);
  total.sum *= fast_exp(total.max - shift);
#pragma unroll
  for (const Float value : values) total.sum += fast_exp(value - shift);
  total.max = max;
}
