// Cross-entropy and its gradient, as operations on a row. Both need the pair (m, d) of the row, and a few
// further steps.
#pragma once

#include "common/kernel/constants.h"
#include "common/kernel/row_operation.cuh"

struct CrossEntropy : ReducesToMaxSum {
  static constexpr const char* name = "cross_entropy";
};
/// The loss and its gradient.
struct CrossEntropyGradient : ReducesToMaxSum {
  static constexpr const char* name = "cross_entropy_gradient";
};

/// A label comes from outside and may be any number.
__device__ inline bool is_column(std::int64_t label, std::int64_t cols) {
  return 0 <= label && label < cols;
}

/// x[label] of a row; NaN if there is no such column.
template <class T>
__device__ float element_at(const T* row, std::int64_t label, std::int64_t cols) {
  return is_column(label, cols) ? static_cast<float>(row[label]) : NAN;
}

/// The loss of a row. Rows with the label -100 are ignored: their loss is 0.
__device__ inline float loss_of_row(MaxSum row, float x_label, std::int64_t label) {
  // Not m + log(d) - x[label]: next to a large maximum the logarithm would lose its digits.
  return label == ignored_label ? 0 : logf(row.sum) + (row.max - x_label);
}

/// The gradient of an element that is not at the label. An ignored row has the gradient 0; a label that is
/// not a column makes it NaN.
__device__ inline float gradient_of(float probability, std::int64_t label, std::int64_t cols) {
  if (label == ignored_label) return 0;
  return is_column(label, cols) ? probability : NAN;
}

/// Whether this thread has the element at the label, if pack i of N elements belongs to thread i %
/// blockDim.x. That thread writes this element a second time, with 1 subtracted.
template <int N>
__device__ bool has_label(std::int64_t label, std::int64_t cols) {
  return is_column(label, cols) && static_cast<unsigned>(label / N) % blockDim.x == threadIdx.x;
}
