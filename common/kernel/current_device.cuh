// Queries of the current device for launchers. They throw CudaError.
#pragma once

#include "common/kernel/cuda_check.h"
#include "common/kernel/l2_policy.cuh"
#include "common/kernel/shape.h"

inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

inline std::int64_t multiprocessors() {
  return device_attribute(cudaDevAttrMultiProcessorCount);
}

/// The most shared memory per block that a launch can request.
inline int most_shared_bytes() {
  return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
}

/// Whether reads should carry the hint that the L2 evicts their lines last, for a launch that reads and
/// writes `matrices` matrices of T. Note N12 of common/rowwise/NOTES.md: the hint pays if the matrices
/// together fill half of the L2, and from a quarter of it on if there are more rows than SMs.
template <class T>
L2Policy policy_of_reads(int matrices, Shape shape) {
  const std::int64_t l2_elements = device_attribute(cudaDevAttrL2CacheSize) / std::int64_t{sizeof(T)};
  const std::int64_t elements = matrices * shape.elements();
  const bool crowded =
      elements > l2_elements / 2 || (elements > l2_elements / 4 && shape.rows > multiprocessors());
  return crowded ? L2Policy::evict_last : L2Policy::as_usual;
}
