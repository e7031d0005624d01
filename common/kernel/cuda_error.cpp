#include "common/kernel/cuda_error.h"

#include "common/kernel/cuda_check.h"

void throw_cuda_error(cudaError_t code, const char* call, const char* file, int line) {
  throw CudaError(code, call, file, line);
}
