// Owners of the CUDA runtime's handles and memory, which release them on every way out of a scope.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <type_traits>

#include "common/kernel/cuda_check.h"

template <auto Destroy>
struct CudaDestroyer {
  template <class T>
  void operator()(T* handle) const {
    Destroy(handle);  // an error here was already reported by the call that caused it
  }
};

using DeviceMemory = std::unique_ptr<void, CudaDestroyer<cudaFree>>;
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, CudaDestroyer<cudaStreamDestroy>>;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, CudaDestroyer<cudaEventDestroy>>;
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, CudaDestroyer<cudaGraphDestroy>>;
using GraphExec =
    std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, CudaDestroyer<cudaGraphExecDestroy>>;

/// Uninitialised device memory; null for 0 bytes. Throws CudaError when there is not enough.
inline DeviceMemory allocate_device(std::size_t bytes) {
  void* pointer = nullptr;
  if (bytes > 0) CUDA_CHECK(cudaMalloc(&pointer, bytes));
  return DeviceMemory(pointer);
}

inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

inline Event make_event() {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreate(&event));
  return Event(event);
}
