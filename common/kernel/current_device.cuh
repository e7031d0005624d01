// What launchers ask of the current device. They throw CudaError.
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

/// The most shared memory that a block may ask for.
inline int most_shared_bytes() {
  return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
}

/// What is read leaves the L2 last, where so many matrices of T, read or written, fill half of it or more: of smaller ones what
/// is written may stay until the kernel has ended. From a quarter on, if there are more rows than SMs: where all rows are on
/// their way at once, the first write comes after most of the reads.
template <class T>
L2Policy policy_of_reads(int matrices, Shape shape) {
  const std::int64_t l2_elements = device_attribute(cudaDevAttrL2CacheSize) / std::int64_t{sizeof(T)};
  const std::int64_t elements = matrices * shape.elements();
  const bool crowded =
      elements > l2_elements / 2 || (elements > l2_elements / 4 && shape.rows > multiprocessors());
  return crowded ? L2Policy::evict_last : L2Policy::as_usual;
}
