// Verification: when an element is right, and the verdict on a result. The comparison itself is in
// compare.cuh, the references of softmax in softmax_operation.cu.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/harness/problem.h"

/// An element is right if |got - reference| <= absolute + relative * scale. The scale is |reference|
/// if the operation does not say otherwise; NaN is right exactly if the reference is NaN, and each infinity
/// exactly if the reference is the same infinity.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

/// A few roundings of the dtype, and as absolute error at most a few of its smallest values, because a mean
/// result of 2e-5 (softmax of 50 000 columns) would pass under 1e-4 whatever it is.
Tolerance tolerance(DType dtype);

struct Verdict {
  bool correct = false;
  std::string explanation{};  ///< the mistake in one line; empty when correct
  double max_error = 0;       ///< worst |got - reference| / allowed; above 1 (the tolerance factor) is wrong
  std::int64_t first_wrong = -1;  ///< index in the output that is wrong; -1: none
};

/// Every byte of an output before a launch: NaN in each dtype, with a payload that arithmetic never makes. An
/// element that still holds it counts as not written.
inline constexpr unsigned char poison_byte = 0xff;

template <class T>
__host__ __device__ bool is_poison(const T& value) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    if (bytes[i] != poison_byte) return false;
  }
  return true;
}

/// A number that changes when any element of the tensor changes.
std::uint64_t checksum(const Tensor& tensor, const void* data, Space space);
