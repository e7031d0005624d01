// From the stage online: its replace_by_results, in two steps, because some kernels need a thread's pair
// before they merge. Each element costs one exponential.
#pragma once

#include "common/kernel/block_merge.cuh"
#include "common/kernel/pack.cuh"
#include "common/kernel/row_operation.cuh"

namespace rowwise {

/// Replaces a thread's elements of a row by the values that Op keeps of them, with one exponential per
/// element. They are relative to the thread's own maximum, which is returned (see safe_shift). `own` becomes
/// their pair.
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

/// Replaces the elements by their results; merge(State) returns the state of the whole row.
template <class Op, int count, class Merge>
__device__ void finish_row(float (&values)[count], Merge merge) {
  typename Op::State own;
  const float shift = keep_exponentials<Op>(values, own);
  const float to_row = RowResult<Op>(merge(own))(shift);
#pragma unroll
  for (float& value : values) value = Op::finish_part(value, to_row);
}

}  // namespace rowwise
