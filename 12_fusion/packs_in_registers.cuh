// Packs of a row that are in registers before the first is used.
#pragma once

#include <type_traits>

#include "common/kernel/pack.cuh"
#include "common/kernel/reduce_op.cuh"

/// The largest of some packs; of 16-bit elements two by one instruction.
template <class T, int N, int packs>
__device__ float max_of(const Pack<T, N> (&all)[packs]) {
  float max = MaxOp::identity;
  if constexpr (sizeof(T) == 2 && N > 1) {
    using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    Two max_of_two = reinterpret_cast<const Two&>(all[0].word);
#pragma unroll
    for (const auto& pack : all) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        max_of_two = __hmax2(max_of_two, reinterpret_cast<const Two*>(&pack.word)[i]);
      }
    }
    max = fmaxf(static_cast<float>(max_of_two.x), static_cast<float>(max_of_two.y));
  } else {
#pragma unroll
    for (const auto& pack : all) {
      float values[N];
      unpack(pack, values);
#pragma unroll
      for (const float value : values) max = fmaxf(max, value);
    }
  }
  return max;
}

/// For the compiler, which would read x at the label before the packs, and to do so wait for the label.
__device__ inline void packs_are_asked_for() {
  asm volatile("" ::: "memory");
}
