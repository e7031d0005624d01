// compute_capability_test ARCHITECTURE: a kernel must run from the PTX of this architecture (800:
// compute_80), and the runtime must report the same architecture for it.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "common/sim/tests/cuda_check.h"

namespace {

__global__ void write_architecture(int* architecture) {
#ifdef __CUDA_ARCH__
  *architecture = __CUDA_ARCH__;
#endif
}

int run(int want) {
  const DeviceMemory memory = allocate_device(sizeof(int));
  write_architecture<<<1, 1>>>(static_cast<int*>(memory.get()));
  CUDA_CHECK(cudaGetLastError());
  int got = 0;
  CUDA_CHECK(cudaMemcpy(&got, memory.get(), sizeof got, cudaMemcpyDeviceToHost));
  cudaFuncAttributes attributes{};
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, write_architecture));
  std::printf("ran for %d, attributes say %d, expected %d\n", got, 10 * attributes.ptxVersion, want);
  return got == want && 10 * attributes.ptxVersion == want ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::atoi(argv[1]) : 0);
  } catch (const std::runtime_error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
