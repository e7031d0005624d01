// Stage 01 once more: the five steps of naive.cuh as calls of a library, without a kernel of our own.
//
// A row is a run of equal keys; the key of an element is the number of its row.
#pragma once

#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/reduce.h>
#include <thrust/transform.h>

#include "01_naive/naive.cuh"

struct RowOfIndex {
  std::int64_t cols;
  __host__ __device__ std::int64_t operator()(std::int64_t index) const { return index / cols; }
};
struct ToFloat {
  template <class T>
  __device__ float operator()(T value) const {
    return static_cast<float>(value);
  }
};
struct Subtract {
  template <class T>
  __device__ float operator()(T x, float max) const {
    return static_cast<float>(x) - max;
  }
};
struct Exponential {
  __device__ float operator()(float shifted) const { return expf(shifted); }
};
template <class T>
struct Divide {
  __device__ T operator()(float exp, float sum) const { return static_cast<T>(exp / sum); }
};

/// As FiveKernels, but throws thrust::system_error. reduce_by_key allocates its temporary storage and waits
/// for the device to learn how many runs there were, in every call: it cannot be captured into a graph.
struct ThrustCalls {
  using Operations = OpList<Softmax>;
  static constexpr bool can_be_captured = false;
  static Need needs(const Matrix& matrix) {
    return {.workspace_bytes = NaiveWorkspace::bytes(matrix.shape())};
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const T* x = tensors.x;
    T* y = tensors.y;
    const auto [shifted, exps, row_max, row_sum] = NaiveWorkspace(tensors.workspace, tensors.shape);
    const std::int64_t n = tensors.shape.elements();
    const auto policy = thrust::cuda::par_nosync.on(stream);
    const auto rows = thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                                      RowOfIndex{tensors.shape.cols});
    const auto max_of_row = thrust::make_permutation_iterator(row_max, rows);
    const auto sum_of_row = thrust::make_permutation_iterator(row_sum, rows);
    const auto none = thrust::make_discard_iterator();
    const thrust::equal_to<std::int64_t> same_row;

    thrust::reduce_by_key(policy, rows, rows + n, thrust::make_transform_iterator(x, ToFloat{}), none,
                          row_max, same_row, MaxOp{});
    thrust::transform(policy, x, x + n, max_of_row, shifted, Subtract{});
    thrust::transform(policy, shifted, shifted + n, exps, Exponential{});
    thrust::reduce_by_key(policy, rows, rows + n, exps, none, row_sum, same_row, SumOp{});
    thrust::transform(policy, exps, exps + n, sum_of_row, y, Divide<T>{});
  }
};
