// How the threads of a block combine the states of their shares of a row, for any operation. For softmax a
// state is the pair (m, d); other operations have a State with its own merge.
#pragma once

#include "common/kernel/row_operation.cuh"

/// Exchanges states between the lanes of a warp: each lane gets the state of lane ^ mask. All 32 lanes call
/// it together.
__device__ inline float shuffle_xor(float sum, int mask) {
  return __shfl_xor_sync(0xffffffff, sum, mask);
}

/// The maximum over the lanes of a warp. From compute capability 8.0 on this is one instruction, but only for
/// integers. The bits of positive floats are ordered like the floats, those of negative ones in reverse: -1 is
/// 0xbf800000, and -2 is 0xc0000000. So `order` inverts all bits of a negative float but the sign.
__device__ inline float warp_max(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto order = [](int bits) { return bits ^ ((bits >> 31) & 0x7fffffff); };  // is its own inverse
  return __int_as_float(order(__reduce_max_sync(0xffffffff, order(__float_as_int(value)))));
#else
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value = fmaxf(value, shuffle_xor(value, distance));
  return value;
#endif
}

/// Merges the states of all lanes of a warp; every lane gets the result. If lane i holds the state of lane i
/// % states, fewer exchanges are enough.
template <class Op, int states = 32>
__device__ typename Op::State warp_merge(typename Op::State state) {
  if constexpr (requires { state.max; }) {  // if the state has a member `max`: MaxSum
    // The maximum of all lanes comes first, so that each sum is rescaled once. Merging pair by pair would
    // need two exponentials in each of the five exchanges, and each exchange would wait for those of the one
    // before.
    const float max = warp_max(state.max);
    float sum = state.sum * __expf(state.max - safe_shift(max));
#pragma unroll
    for (int distance = states / 2; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
    return {max, sum};
  } else {
#pragma unroll
    for (int distance = states / 2; distance > 0; distance /= 2) {
      state = Op::merge(state, shuffle_xor(state, distance));
    }
    return state;
  }
}

/// Merges the states of all threads of a block; every thread gets the result. `storage` is shared and holds
/// one state per warp; it may be written again only after another barrier. The block size is a multiple of
/// 32. `warps`, a power of two, is the number of warps if the compiler knows it; otherwise 0.
template <class Op, int warps = 0>
__device__ typename Op::State block_merge_once(typename Op::State state, typename Op::State (&storage)[32]) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  state = warp_merge<Op>(state);
  if constexpr (warps == 1) return state;
  if (lane == 0) storage[warp] = state;
  __syncthreads();
  // Every warp merges the states of all warps itself: that costs less than a second barrier to hand out the
  // result.
  if constexpr (warps > 0) return warp_merge<Op, warps>(storage[lane % warps]);
  return warp_merge<Op>(lane < blockDim.x / 32 ? storage[lane] : typename Op::State{});
}

/// The same for a loop over rows: one barrier before the result and one after it. Reducing the maximum and
/// then the sum took two barriers each.
template <class Op>
__device__ typename Op::State block_merge(typename Op::State state, typename Op::State (&storage)[32]) {
  state = block_merge_once<Op>(state, storage);
  __syncthreads();
  return state;
}
