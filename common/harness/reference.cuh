// The double-precision reference: small __host__ __device__ functors that Thrust runs over chunks, rows and
// elements, on the host for small shapes and on the device for large ones.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/harness/problem.h"

/// The running maximum of a row and the sum of exp(x - max): the pair (m, d) of the lessons, in double.
struct ReferenceMaxSum {
  double max;
  double sum;
};

/// Merges two parts of a row. A maximum of -inf means "nothing but -inf so far", for which exp(-inf - -inf)
/// would be NaN; any other value to subtract gives the right 0.
struct MergeReference {
  __host__ __device__ ReferenceMaxSum operator()(ReferenceMaxSum a, ReferenceMaxSum b) const {
    const double max = fmax(a.max, b.max);
    const double shift = max == -INFINITY ? 0 : max;
    return {max, a.sum * exp(a.max - shift) + b.sum * exp(b.max - shift)};
  }
};

/// Part of a row -> its pair. Rows are cut into chunks so that few long rows keep a whole GPU busy.
template <class T>
struct ReduceChunk {
  static constexpr std::int64_t chunk_cols = 1024;
  const T* x;
  std::int64_t cols;
  std::int64_t chunks_per_row;

  __host__ __device__ ReferenceMaxSum operator()(std::int64_t chunk) const {
    const std::int64_t begin_col = chunk % chunks_per_row * chunk_cols;
    const std::int64_t end_col = begin_col + chunk_cols < cols ? begin_col + chunk_cols : cols;
    const T* row = x + chunk / chunks_per_row * cols;
    double max = -INFINITY;
    for (std::int64_t col = begin_col; col < end_col; ++col) {
      max = fmax(max, static_cast<double>(static_cast<float>(row[col])));
    }
    const double shift = max == -INFINITY ? 0 : max;
    double sum = 0;
    for (std::int64_t col = begin_col; col < end_col; ++col) {
      sum += exp(static_cast<double>(static_cast<float>(row[col])) - shift);
    }
    return {max, sum};
  }
};

/// Row -> the pair of the whole row, from the pairs of its chunks.
struct ReduceRow {
  const ReferenceMaxSum* chunks;
  std::int64_t chunks_per_row;

  __host__ __device__ ReferenceMaxSum operator()(std::int64_t row) const {
    ReferenceMaxSum total{-INFINITY, 0};
    for (std::int64_t i = 0; i < chunks_per_row; ++i) {
      total = MergeReference{}(total, chunks[row * chunks_per_row + i]);
    }
    return total;
  }
};

/// One element of the result. NaN and infinities come out as torch.softmax has them: a NaN or +inf anywhere,
/// or nothing but -inf, makes the whole row NaN.
__host__ __device__ inline double reference_element(Op op, double x, ReferenceMaxSum row) {
  return op == Op::softmax ? exp(x - row.max) / row.sum : x - row.max - log(row.sum);
}
