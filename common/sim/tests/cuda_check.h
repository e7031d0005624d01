// For tests that call CUDA: a call that fails ends the test, and all resources are released.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

/// Throws std::runtime_error, which names the error, the call and its line, when `call` does not return cudaSuccess.
#define CUDA_CHECK(call)                                                                                     \
  do {                                                                                                       \
    if (const cudaError_t cuda_check_code = (call); cuda_check_code != cudaSuccess) {                        \
      (void)cudaGetLastError(); /* it must not show up again in a later call */                              \
      throw std::runtime_error(std::string(cudaGetErrorName(cuda_check_code)) + " from " #call " at line " + \
                               std::to_string(__LINE__));                                                    \
    }                                                                                                        \
  } while (false)

template <auto Destroy>
struct Destroyer {
  template <class T>
  void operator()(T* handle) const {
    (void)Destroy(handle);
  }
};
template <class Handle, auto Destroy>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Destroy>>;

using DeviceMemory = Owner<void*, cudaFree>;
using Stream = Owner<cudaStream_t, cudaStreamDestroy>;
using Event = Owner<cudaEvent_t, cudaEventDestroy>;
using Graph = Owner<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owner<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Uninitialised device memory.
inline DeviceMemory allocate_device(std::size_t bytes) {
  void* pointer = nullptr;
  CUDA_CHECK(cudaMalloc(&pointer, bytes));
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
