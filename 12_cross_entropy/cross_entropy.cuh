// Cross-entropy and its gradient, as operations on a row. Both need the pair (m, d) of the row, and few steps
// more.
#pragma once

#include "common/kernel/constants.h"
#include "common/kernel/pack.cuh"
#include "common/kernel/row_operation.cuh"

struct CrossEntropy : ReducesToMaxSum {
  static constexpr const char* name = "cross_entropy";
};
/// The loss and its gradient.
struct CrossEntropyGradient : ReducesToMaxSum {
  static constexpr const char* name = "cross_entropy_gradient";
};

/// x[label] of a row; NaN if there is no such column.
template <class T>
__device__ float element_at(const T* row, std::int64_t label, std::int64_t cols) {
  return 0 <= label && label < cols ? static_cast<float>(row[label]) : NAN;
}

/// The loss of a row. Rows with the label -100 are ignored: their loss is 0.
__device__ inline float loss_of_row(MaxSum row, float x_label, std::int64_t label) {
  // Not m + log(d) - x[label]: next to a large maximum the logarithm would lose its digits.
  return label == ignored_label ? 0 : logf(row.sum) + (row.max - x_label);
}

/// The 1 at the label, which the gradient of a row subtracts.
class Target {
 public:
  __device__ Target(std::int64_t label, int cols)
      : col_(0 <= label && label < cols ? static_cast<int>(label) : -1),
        is_ignored_(label == ignored_label) {}

  /// Turns probabilities of the columns from `col` on into their gradients. An ignored row has the gradient
  /// 0. A label that is not a column makes it NaN.
  template <int N>
  __device__ void subtract_from(float (&values)[N], int col) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (col_ == col + i) values[i] -= 1;
      if (col_ < 0) values[i] = is_ignored_ ? 0 : NAN;
    }
  }

 private:
  int col_;  ///< -1: the label is not a column
  bool is_ignored_;
};
