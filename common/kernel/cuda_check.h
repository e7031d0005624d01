// Every CUDA call and every launch goes through this macro.
#pragma once

#include <cuda_runtime.h>

/// Throws a CudaError (cuda_error.h), which names the error, the call, and the place of the call.
[[noreturn]] void throw_cuda_error(cudaError_t code, const char* call, const char* file, int line);

/// Throws CudaError if `call` does not return cudaSuccess. After a launch: CUDA_CHECK(cudaGetLastError()).
#define CUDA_CHECK(call)                                                                                 \
  do {                                                                                                   \
    if (const cudaError_t cuda_check_code = (call); cuda_check_code != cudaSuccess) {                    \
      (void)cudaGetLastError(); /* an error that is not sticky must not show up again in a later call */ \
      throw_cuda_error(cuda_check_code, #call, __FILE__, __LINE__);                                      \
    }                                                                                                    \
  } while (false)
