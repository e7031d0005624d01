// The template parameter of the kernels: an operation on a row, as a type. All arithmetic is float, whatever
// type the matrix is stored in.
//
// An operation has a State, the information about a part of a row: State{} is the state of no element, add()
// adds elements, and merge() merges two parts. It also has the last step, which turns elements into results
// once the state of the whole row is known. `name` is the operation's name on the command line.
#pragma once

#include "common/kernel/max_sum.cuh"

/// The operations of a launcher, which has `using Operations = OpList<...>`. Without it the launcher does
/// softmax and log-softmax.
template <class... Ops>
struct OpList {};

/// The State of both is the pair (m, d).
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
  /// The value that a kernel may keep of an element between the sum and the last step, so that each element
  /// costs one exponential; and the term that the element adds to the sum. Both are the exponential here;
  /// they differ for log-softmax.
  static __device__ float kept(float x, float max) { return __expf(x - max); }
  static __device__ float summand(float kept) { return kept; }

  /// Once per row: per element, the division would be the longest instruction sequence of the kernel.
  /// Note N8 of common/rowwise/NOTES.md: the approximate division has no branch for special divisors, which a
  /// sum of at least 1 never is.
  static __device__ float sum_term(float sum) { return __fdividef(1.0f, sum); }
  static __device__ float finish(float kept, float sum_term) { return kept * sum_term; }

  /// If `kept` is relative to the maximum of a part of the row, `to_row` is the result of that maximum.
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
