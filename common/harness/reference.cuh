// The double-precision reference: small __host__ __device__ functors that Thrust runs over chunks, rows and
// elements, on the host for small shapes and on the device for large ones.
#pragma once

#include "common/harness/compare.cuh"
#include "common/kernel/max_sum.cuh"

/// One element of the result. NaN and infinities come out as torch.softmax has them: a NaN or +inf anywhere, or
/// nothing but -inf, makes the whole row NaN.
__host__ __device__ inline double reference_softmax(double x, MaxSum<double> row) {
  return exp(x - row.max) / row.sum;
}

/// Part of a row -> its pair. Rows are cut into chunks so that few long rows keep a whole GPU busy.
template <class T>
struct ReduceChunk {
  static constexpr std::int64_t chunk_cols = 1024;
  const T* x;
  std::int64_t cols;
  std::int64_t chunks_per_row;

  __host__ __device__ MaxSum<double> operator()(std::int64_t chunk) const {
    const std::int64_t begin_col = chunk % chunks_per_row * chunk_cols;
    const std::int64_t end_col = begin_col + chunk_cols < cols ? begin_col + chunk_cols : cols;
    const T* row = x + chunk / chunks_per_row * cols;
    MaxSum<double> pair;
    for (std::int64_t col = begin_col; col < end_col; ++col) {
      pair.max = fmax(pair.max, as_double(row[col]));
    }
    const double shift = safe_shift(pair.max);
    for (std::int64_t col = begin_col; col < end_col; ++col) {
      pair.sum += exp(as_double(row[col]) - shift);
    }
    return pair;
  }
};

/// Row -> the pair of the row, from the pairs of its chunks.
struct ReduceRow {
  const MaxSum<double>* chunks;
  std::int64_t chunks_per_row;

  __host__ __device__ MaxSum<double> operator()(std::int64_t row) const {
    MaxSum<double> total;
    for (std::int64_t i = 0; i < chunks_per_row; ++i) {
      total = merge(total, chunks[row * chunks_per_row + i]);
    }
    return total;
  }
};

/// The pair of each row of x, a matrix in the memory of Where (OnHost or OnDevice).
template <class Where, class T>
auto reference_rows(const T* x, Shape shape) {
  const std::int64_t chunks_per_row =
      (shape.cols + ReduceChunk<T>::chunk_cols - 1) / ReduceChunk<T>::chunk_cols;
  const auto chunks =
      make_vector<Where>(shape.rows * chunks_per_row, ReduceChunk<T>{x, shape.cols, chunks_per_row});
  return make_vector<Where>(shape.rows, ReduceRow{thrust::raw_pointer_cast(chunks.data()), chunks_per_row});
}
