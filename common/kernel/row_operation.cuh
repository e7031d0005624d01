// What kernels are templated on: an operation on a row, as a type. All arithmetic is float, whatever type the
// matrix is stored in.
//
// An operation has a State, what is known of a part of a row: State{} is that of no element, add() adds
// elements, merge() merges two parts. And it has the last step, which makes results of elements once the
// state of the whole row is known. `name` is the operation's name on the command line.
#pragma once

#include "common/kernel/max_sum.cuh"

/// The operations that a launcher does: `using Operations = OpList<...>` in it; none: softmax and log-softmax.
template <class... Ops>
struct OpList {};

/// The State of both: the pair (m, d).
struct ReducesToMaxSum {
  using State = MaxSum;
  template <int N>
  static __device__ void add(State& state, const float (&values)[N]) {
    ::add(state, values);
  }
  static __device__ State merge(State a, State b) { return ::merge(a, b); }
};

/// y = exp(x - max) / sum
struct Softmax : ReducesToMaxSum {
  static constexpr const char* name = "softmax";
  /// What a kernel may keep of an element between the sum and the last step, so that each element costs one
  /// exponential; and what that element adds to the sum.
  static __device__ float kept(float x, float max) { return __expf(x - max); }
  static __device__ float summand(float kept) { return kept; }

  /// Once per row: per element, the division would be the longest instruction sequence of the kernel. Rounded as IEEE 754 asks
  /// for, it has a branch for divisors that a sum of 1 and more never is; in rows of a few packs all of the row waits for it.
  static __device__ float sum_term(float sum) { return __fdividef(1.0f, sum); }
  static __device__ float finish(float kept, float sum_term) { return kept * sum_term; }

  /// Where `kept` is relative to the maximum of a part of the row, `to_row` is the result of that maximum.
  static __device__ float finish_part(float kept, float to_row) { return kept * to_row; }
};

/// y = x - max - log(sum)
struct LogSoftmax : ReducesToMaxSum {
  static constexpr const char* name = "log_softmax";
  static __device__ float kept(float x, float max) { return x - max; }
  static __device__ float summand(float kept) { return __expf(kept); }
  static __device__ float sum_term(float sum) { return logf(sum); }
  static __device__ float finish(float kept, float sum_term) { return kept - sum_term; }
  static __device__ float finish_part(float kept, float to_row) { return kept + to_row; }
};

using SoftmaxOperations = OpList<Softmax, LogSoftmax>;

/// The last step of a row, once its maximum and sum are known.
template <class Op>
class RowResult {
 public:
  __device__ RowResult(float max, float sum) : max_(max), sum_term_(Op::sum_term(sum)) {}
  __device__ explicit RowResult(MaxSum row) : RowResult(row.max, row.sum) {}

  __device__ float operator()(float x) const { return finish(Op::kept(x, max_)); }
  __device__ float finish(float kept) const { return Op::finish(kept, sum_term_); }

 private:
  float max_;
  float sum_term_;
};
