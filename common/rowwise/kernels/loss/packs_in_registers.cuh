// From the stage cross_entropy: operations on packs of a row that are in registers.
#pragma once

#include <type_traits>

#include "common/kernel/reduce_op.cuh"
#include "common/rowwise/kernels/forward/finish_row.cuh"
#include "common/rowwise/kernels/loss/row_loss.cuh"

namespace rowwise {

/// The largest element of `count` packs. For 16-bit elements, one instruction compares two at a time.
template <int count, class T, int N>
__device__ float max_of(const Pack<T, N>* packs) {
  float max = MaxOp::identity;
  if constexpr (sizeof(T) == 2 && N > 1) {
    using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    Two max_of_two = reinterpret_cast<const Two&>(packs[0].word);
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (int j = 0; j < N / 2; ++j) {
        max_of_two = __hmax2(max_of_two, reinterpret_cast<const Two*>(&packs[i].word)[j]);
      }
    }
    max = fmaxf(static_cast<float>(max_of_two.x), static_cast<float>(max_of_two.y));
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      float values[N];
      unpack(packs[i], values);
#pragma unroll
      for (const float value : values) max = fmaxf(max, value);
    }
  }
  return max;
}

/// Adds `count` packs to a thread's share of a row; the sum is rescaled once for all of them.
template <int count, class Own, class T, int N, class Exists = AllExist>
__device__ void add_packs(Own& own, const Pack<T, N>* packs, Exists pack_exists = {}) {
  float values[count * N];
#pragma unroll
  for (int i = 0; i < count; ++i) unpack(packs[i], values_of_pack<N>(values, i));
  own.add_below(max_of<count>(packs), values, [&](int element) { return pack_exists(element / N); });
}

/// Note N21: keeps nvcc from loading x[label], and so waiting for the label, before the packs.
__device__ inline void packs_are_asked_for() {
  asm volatile("" ::: "memory");
}

}  // namespace rowwise
