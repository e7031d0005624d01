// What CUDA_CHECK throws, for who catches it. Kernels and launchers do not include this header: it needs the host's library.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

/// A CUDA call that failed. what() names the error, the call, and the place of the call.
class CudaError : public std::runtime_error {
 public:
  CudaError(cudaError_t code, const char* call, const char* file, int line)
      : std::runtime_error(std::string(cudaGetErrorName(code)) + " (" + cudaGetErrorString(code) + ") from " +
                           call + " at " + file + ":" + std::to_string(line)),
        code(code) {}
  cudaError_t code;
};
