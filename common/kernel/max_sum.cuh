// The pair at the heart of this repository: the maximum m of some elements and the sum d of exp(x - m), and
// how two parts of a row are merged. Merging is associative and has the identity (-inf, 0): a commutative
// monoid, so a row may be cut into parts in any way and merged in any order. Source: Milakov and Gimelshein,
// "Online normalizer calculation for softmax".
#pragma once

#include <cuda/std/cfloat>

/// The default is the pair of no element, -inf and 0. With 0 and 0, a row of -200 would give 0 / 0.
struct MaxSum {
  float max = -INFINITY;
  float sum = 0;
};

/// The value to subtract before exp: the maximum, but never -inf. If all elements so far are -inf, exp(-inf -
/// -inf) would be NaN. With the lowest float it is exp(-inf) = 0, and a row that starts with masked elements
/// comes out right. Subtracting 0 would be enough for merging, but not for replace_by_results of the
/// stage online: see its factor `to_row`.
__device__ inline float safe_shift(float max) {
  return fmaxf(max, -FLT_MAX);
}

/// The pair of both parts together: the sum that belongs to the smaller maximum is rescaled.
__device__ inline MaxSum merge(MaxSum a, MaxSum b) {
  const float max = fmaxf(a.max, b.max);
  const float shift = safe_shift(max);
  return {max, a.sum * __expf(a.max - shift) + b.sum * __expf(b.max - shift)};
}

/// Adds N elements: the sum so far is rescaled once for all of them, so that an element costs little more
/// than one exponential.
template <int N>
__device__ void add(MaxSum& total, const float (&values)[N]) {
  float max = total.max;
#pragma unroll
  for (const float value : values) max = fmaxf(max, value);
  const float shift = safe_shift(max);
  total.sum *= __expf(total.max - shift);
#pragma unroll
  for (const float value : values) total.sum += __expf(value - shift);
  total.max = max;
}
