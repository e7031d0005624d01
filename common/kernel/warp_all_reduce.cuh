// Lanes of a warp combine one float each by exchanging registers: there is no shared memory and no barrier.
#pragma once

/// All-reduce over groups of `group_width` neighbouring lanes (a power of two, at most 32): each lane gets
/// the result of its group, after log2(group_width) exchanges. All 32 lanes of the warp call it together.
template <class ReduceOp, int group_width>
__device__ float warp_all_reduce(float value) {
  static_assert(group_width >= 1 && group_width <= 32 && (group_width & (group_width - 1)) == 0);
#pragma unroll
  for (int distance = group_width / 2; distance > 0; distance /= 2) {
    value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
  return value;
}

/// The same for several values at once: each exchange overlaps those of the other values.
template <class ReduceOp, int group_width, int count>
__device__ void warp_all_reduce(float (&values)[count]) {
#pragma unroll
  for (int distance = group_width / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (float& value : values) value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
}
