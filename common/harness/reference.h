// The double-precision reference of a row, also on the host, for messages that explain the right value of an
// element.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

struct ReferenceRow {
  double max = -INFINITY;
  double sum = 0;  ///< of exp(x - max)

  /// One element of the result. NaN and infinities come out as torch.softmax has them: a NaN or +inf
  /// anywhere, or nothing but -inf, makes the whole row NaN.
  [[nodiscard]] __host__ __device__ double softmax(double x) const { return exp(x - max) / sum; }
};

/// Columns per chunk: rows are reduced in chunks, so that a few long rows keep a whole GPU busy.
inline constexpr std::int64_t reference_chunk_cols = 1024;

ReferenceRow reference_row(const float* x, std::int64_t cols);
