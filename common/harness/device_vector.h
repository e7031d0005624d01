// A std::vector's elements in device memory.
#pragma once

#include <cstdint>
#include <vector>

#include "common/harness/cuda_handles.h"

/// Device memory for `size` elements, uninitialised or with the elements of a vector.
template <class T>
class DeviceVector {
 public:
  explicit DeviceVector(std::int64_t size)
      : memory_(allocate_device(static_cast<std::size_t>(size) * sizeof(T))), size_(size) {}
  explicit DeviceVector(const std::vector<T>& host) : DeviceVector(static_cast<std::int64_t>(host.size())) {
    CUDA_CHECK(cudaMemcpy(data(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.get()); }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  DeviceMemory memory_;
  std::int64_t size_;
};

template <class T>
std::vector<T> to_host(const DeviceVector<T>& device) {
  std::vector<T> host(static_cast<std::size_t>(device.size()));
  CUDA_CHECK(cudaMemcpy(host.data(), device.data(), host.size() * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}
template <class T>
std::vector<T> to_host(std::vector<T> host) {
  return host;
}
