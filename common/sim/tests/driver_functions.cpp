// A program that calls the driver itself, and acts on its answers.
#include <cuda.h>

#include <cstdio>

int main() {
  const CUresult result = cuInit(0);
  const char* name = nullptr;
  if (result == CUDA_SUCCESS || cuGetErrorName(result, &name) != CUDA_SUCCESS) return 1;
  std::printf("cuInit: %s\n", name);
  int devices = 0;
  return cuDeviceGetCount(&devices) == CUDA_SUCCESS ? 1 : 3;
}
