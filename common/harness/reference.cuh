// The double-precision reference: small __host__ __device__ functors that are run over chunks, rows and
// elements, on the host for small shapes and on the device for large ones. It shares nothing with the
// kernels: a mistake there must not make the reference wrong in the same way.
#pragma once

#include "common/harness/compare.cuh"
#include "common/harness/reference.h"

/// The number to subtract before exp: if all elements so far are -inf, any other number gives the right 0.
__host__ __device__ inline double reference_shift(double max) {
  return max == -INFINITY ? 0 : max;
}

template <class T>
struct ElementOf {
  const T* x;
  __host__ __device__ double operator()(std::int64_t index) const { return as_double(x[index]); }
};

/// Part of a row -> its pair.
template <class Element>
struct ReduceChunk {
  Element element;
  std::int64_t cols;
  std::int64_t chunks_per_row;

  __host__ __device__ ReferenceRow operator()(std::int64_t chunk) const {
    const std::int64_t begin_col = chunk % chunks_per_row * reference_chunk_cols;
    const std::int64_t end_of_chunk = begin_col + reference_chunk_cols;
    const std::int64_t end_col = end_of_chunk < cols ? end_of_chunk : cols;
    const std::int64_t row = chunk / chunks_per_row * cols;
    ReferenceRow pair;
    for (std::int64_t i = row + begin_col; i < row + end_col; ++i) pair.max = fmax(pair.max, element(i));
    const double shift = reference_shift(pair.max);
    for (std::int64_t i = row + begin_col; i < row + end_col; ++i) pair.sum += exp(element(i) - shift);
    return pair;
  }
};

/// Row -> the pair of the row, from the pairs of its chunks.
struct ReduceRow {
  const ReferenceRow* chunks;
  std::int64_t chunks_per_row;

  __host__ __device__ ReferenceRow operator()(std::int64_t row) const {
    ReferenceRow total;
    for (std::int64_t i = 0; i < chunks_per_row; ++i) {
      const ReferenceRow chunk = chunks[row * chunks_per_row + i];
      const double max = fmax(total.max, chunk.max);
      const double shift = reference_shift(max);
      total = {max, total.sum * exp(total.max - shift) + chunk.sum * exp(chunk.max - shift)};
    }
    return total;
  }
};

/// The pair of each row of element(index), by Where (OnHost or OnDevice).
template <class Where, class Element>
auto reference_rows(Shape shape, Element element) {
  const std::int64_t chunks_per_row = (shape.cols + reference_chunk_cols - 1) / reference_chunk_cols;
  const auto chunks = make_vector<Where>(shape.rows * chunks_per_row,
                                         ReduceChunk<Element>{element, shape.cols, chunks_per_row});
  return make_vector<Where>(shape.rows, ReduceRow{chunks.data(), chunks_per_row});
}

/// Likewise of x, a matrix in the memory of Where.
template <class Where, class T>
auto reference_rows(const T* x, Shape shape) {
  return reference_rows<Where>(shape, ElementOf<T>{x});
}

/// A sum over a row or a chunk of it, and the sum of its terms' magnitudes.
struct ReferenceSum {
  double sum = 0;
  double magnitudes = 0;
};

template <class Summand>
struct SumChunk {
  Summand summand;
  std::int64_t cols;
  std::int64_t chunks_per_row;
  __host__ __device__ ReferenceSum operator()(std::int64_t chunk) const {
    const std::int64_t begin_col = chunk % chunks_per_row * reference_chunk_cols;
    const std::int64_t end_of_chunk = begin_col + reference_chunk_cols;
    const std::int64_t end_col = end_of_chunk < cols ? end_of_chunk : cols;
    const std::int64_t row = chunk / chunks_per_row * cols;
    ReferenceSum sums;
    for (std::int64_t i = row + begin_col; i < row + end_col; ++i) {
      const double term = summand(i);
      sums.sum += term;
      sums.magnitudes += fabs(term);
    }
    return sums;
  }
};

struct SumRow {
  const ReferenceSum* chunks;
  std::int64_t chunks_per_row;
  __host__ __device__ ReferenceSum operator()(std::int64_t row) const {
    ReferenceSum sums;
    for (std::int64_t i = row * chunks_per_row; i < (row + 1) * chunks_per_row; ++i) {
      sums.sum += chunks[i].sum;
      sums.magnitudes += chunks[i].magnitudes;
    }
    return sums;
  }
};

/// The sum of summand(index) over each row of a matrix of that shape.
template <class Where, class Summand>
auto reference_sums(Shape shape, Summand summand) {
  const std::int64_t chunks_per_row = (shape.cols + reference_chunk_cols - 1) / reference_chunk_cols;
  const auto chunks =
      make_vector<Where>(shape.rows * chunks_per_row, SumChunk<Summand>{summand, shape.cols, chunks_per_row});
  return make_vector<Where>(shape.rows, SumRow{chunks.data(), chunks_per_row});
}
