// The harness's own computations on every element or row, on the host or the device: first[i] = function(i) for all i,
// and reductions of function(i). Thrust does the same; its headers and algorithms were an eighth of a first build's time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

#include "common/harness/device_vector.h"
#include "common/harness/dtype.cuh"
#include "common/harness/problem.h"

namespace tabulate_detail {

inline constexpr unsigned block_size = 256;
inline constexpr std::int64_t max_grid_blocks = 0x7fffffff;

template <class T, class Function>
__global__ void __launch_bounds__(block_size) tabulate(T* first, std::int64_t n, Function function) {
  const std::int64_t threads = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t i = blockIdx.x * std::int64_t{block_size} + threadIdx.x; i < n; i += threads) {
    first[i] = function(i);
  }
}

/// The results of function(part), function(part + num_parts), ... below n, merged.
template <class Function, class Merge>
struct ReducePart {
  std::int64_t n;
  std::int64_t num_parts;
  Function function;
  Merge merge;
  __host__ __device__ auto operator()(std::int64_t part) const {
    auto result = function(part);
    for (std::int64_t i = part + num_parts; i < n; i += num_parts) result = merge(result, function(i));
    return result;
  }
};

}  // namespace tabulate_detail

struct OnHost {
  template <class T>
  using Vector = std::vector<T>;
  static constexpr std::int64_t max_parts = 1;

  /// first[i] = function(i) for all i below n
  template <class T, class Function>
  static void tabulate(T* first, std::int64_t n, Function function) {
    for (std::int64_t i = 0; i < n; ++i) first[i] = function(i);
  }
};

struct OnDevice {
  template <class T>
  using Vector = DeviceVector<T>;
  static constexpr std::int64_t max_parts =
      1 << 16;  // enough threads for a GPU, few enough to be merged on the host

  /// The same. It returns when they are written.
  template <class T, class Function>
  static void tabulate(T* first, std::int64_t n, Function function) {
    using namespace tabulate_detail;
    if (n == 0) return;
    const std::int64_t blocks = std::min((n + block_size - 1) / block_size, max_grid_blocks);
    tabulate_detail::tabulate<<<static_cast<unsigned>(blocks), block_size>>>(first, n, function);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaStreamSynchronize(nullptr));
  }
};

/// A Where::Vector of function(0), function(1), ..., function(n - 1). `Where`: OnHost or OnDevice.
template <class Where, class Function>
auto make_vector(std::int64_t n, Function function) {
  typename Where::template Vector<std::invoke_result_t<Function, std::int64_t>> vector(n);
  Where::tabulate(vector.data(), n, function);
  return vector;
}

/// function(0), function(1), ..., function(n - 1), merged in an order of its own; `identity` where n is 0.
template <class Where, class Function, class Result, class Merge>
Result reduce(std::int64_t n, Function function, Result identity, Merge merge) {
  const std::int64_t parts = std::min(n, Where::max_parts);
  const tabulate_detail::ReducePart<Function, Merge> reduce_part{n, parts, function, merge};
  const std::vector<Result> results = to_host(make_vector<Where>(parts, reduce_part));
  return std::accumulate(results.begin(), results.end(), identity, merge);
}

/// Calls function.template operator()<OnHost or OnDevice>().
template <class Function>
auto dispatch_space(Space space, Function function) {
  return space == Space::host ? function.template operator()<OnHost>()
                              : function.template operator()<OnDevice>();
}

/// Calls function.template operator()<Where, T>(): as above, with the C++ type of the problem's matrix.
template <class Function>
auto dispatch_space_and_dtype(Space space, DType dtype, Function function) {
  return dispatch_dtype(dtype, [&]<class T>() {
    return dispatch_space(space, [&]<class Where>() { return function.template operator()<Where, T>(); });
  });
}
