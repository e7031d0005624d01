// The pair at the heart of this repository: the maximum m of some elements and the sum d of exp(x - m), and
// how two parts of a row are merged. Merging is associative and has the identity (-inf, 0): a commutative
// monoid, so a row may be cut into parts in any way and merged in any order. Source: Milakov and Gimelshein,
// "Online normalizer calculation for softmax".
#pragma once

#include <cfloat>
#include <cmath>

#include "common/kernel/softmax_math.cuh"

/// What to subtract before exp: the maximum, but never -inf. Where all elements so far are -inf, exp(-inf -
/// -inf) would be NaN; with the lowest float it is exp(-inf) = 0, and a row that starts with masked elements
/// comes out right. Subtracting 0 there would do for merging, but not for fused_register_softmax: see its
/// factor `to_row`.
__device__ inline float safe_shift(float max) {
  return fmaxf(max, -FLT_MAX);
}

struct MaxSum {
  float max = -INFINITY;
  float sum = 0;
};

__device__ inline MaxSum merge(MaxSum a, MaxSum b) {
  const float max = fmaxf(a.max, b.max);
  const float shift = safe_shift(max);
  return {max, a.sum * __expf(a.max - shift) + b.sum * __expf(b.max - shift)};
}

/// Merges the pairs of all threads of a block; every thread gets the result. One barrier before the result,
/// one after it, where the maximum and the sum one after the other took two each. `storage`: shared, one
/// pair per warp. The block size is a multiple of 32.
__device__ inline MaxSum block_merge(MaxSum value, MaxSum (&storage)[32]) {
  const auto merge_lanes = [](MaxSum pair) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      pair = merge(
          pair, {__shfl_xor_sync(0xffffffff, pair.max, mask), __shfl_xor_sync(0xffffffff, pair.sum, mask)});
    }
    return pair;
  };
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  value = merge_lanes(value);
  if (lane == 0) storage[warp] = value;
  __syncthreads();
  // Every warp merges the warps' pairs for itself: that costs less than a second barrier to hand out the
  // result.
  value = merge_lanes(lane < blockDim.x / 32 ? storage[lane] : MaxSum{});
  __syncthreads();
  return value;
}
