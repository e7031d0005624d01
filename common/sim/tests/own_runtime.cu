// A library that is linked with the static runtime.
__global__ void nothing() {}

bool own_runtime_runs() {
  nothing<<<1, 1>>>();
  return cudaGetLastError() == cudaSuccess;
}
