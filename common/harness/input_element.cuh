// The element of a row that an input singles out; labels point at it as well.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// A well-mixed 64-bit hash (the finaliser of SplitMix64, by Steele, Lea and Flood).
__host__ __device__ inline std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// The outlier of the row, the element that is NaN, or nearly 1 after softmax.
__host__ __device__ inline std::int64_t chosen_col(std::uint64_t seed, std::int64_t row, std::int64_t cols) {
  return static_cast<std::int64_t>(mix(seed ^ static_cast<std::uint64_t>(row)) % cols);
}
