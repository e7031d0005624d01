// Every CUDA call and every launch goes through this macro.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

/// A CUDA call that failed. what() names the error, the call, and where it stands.
class CudaError : public std::runtime_error {
 public:
  CudaError(cudaError_t code, const char* call, const char* file, int line)
      : std::runtime_error(std::string(cudaGetErrorName(code)) + " (" + cudaGetErrorString(code) + ") from " +
                           call + " at " + file + ":" + std::to_string(line)),
        code(code) {}
  cudaError_t code;
};

/// Throws CudaError when `call` does not return cudaSuccess. After a launch: CUDA_CHECK(cudaGetLastError()).
#define CUDA_CHECK(call)                                                                                 \
  do {                                                                                                   \
    if (const cudaError_t cuda_check_code = (call); cuda_check_code != cudaSuccess) {                    \
      (void)cudaGetLastError(); /* an error that is not sticky must not show up again in a later call */ \
      throw CudaError(cuda_check_code, #call, __FILE__, __LINE__);                                       \
    }                                                                                                    \
  } while (false)
