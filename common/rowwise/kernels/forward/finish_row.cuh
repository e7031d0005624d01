// The arithmetic that the variants with a row in registers share; they differ in how it gets there.
#pragma once

#include "common/kernel/block_merge.cuh"
#include "common/kernel/pack.cuh"
#include "common/kernel/row_operation.cuh"

/// Stands for an element that does not exist: it adds exp(-inf) = 0 to the sum.
constexpr float no_element = MaxSum{}.max;
template <class T, int N>
__device__ Pack<T, N> no_elements() {
  float values[N];
#pragma unroll
  for (float& value : values) value = no_element;
  return make_pack<T>(values);
}

/// Values i * N to i * N + N - 1: those of pack i.
template <int N, int count>
__device__ auto part_of(float (&values)[count], int i) -> float (&)[N] {
  return reinterpret_cast<float(&)[N]>(values[i * N]);
}

/// A thread's elements of a row become what Op keeps of them, one exponential an element, against the maximum of the thread's
/// own, which is returned (see safe_shift). `own`: their pair.
template <class Op, int count>
__device__ float keep_exponentials(float (&values)[count], MaxSum& own) {
  own = {};
#pragma unroll
  for (const float value : values) own.max = fmaxf(own.max, value);
  const float shift = safe_shift(own.max);
#pragma unroll
  for (float& value : values) {
    value = Op::kept(value, shift);
    own.sum += Op::summand(value);
  }
  return shift;
}

/// They become their results; merge(State) gives the state of the whole row. As fused_register_softmax of stage 06.
template <class Op, int count, class Merge>
__device__ void finish_row(float (&values)[count], Merge merge) {
  typename Op::State own;
  const float shift = keep_exponentials<Op>(values, own);
  const float to_row = RowResult<Op>(merge(own))(shift);
#pragma unroll
  for (float& value : values) value = Op::finish_part(value, to_row);
}
