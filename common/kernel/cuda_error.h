// The exception that CUDA_CHECK throws, for code that catches it. Kernels and launchers do not include this
// header, because it needs the host's standard library.
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
