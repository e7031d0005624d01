// A program that the simulator cannot run. Exits 3 where its kernel does not.
#include <cuda_runtime.h>

__global__ void nothing() {}

int main() {
  nothing<<<1, 1>>>();
  return cudaGetLastError() == cudaSuccess ? 0 : 3;
}
