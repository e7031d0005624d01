// Kernels that a simulator spends its time on in different ways; benchmark.py runs them.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr int tile = 16;

/// C = A B, n a multiple of the tile: shared memory, barriers, a broadcast and a contiguous read for each fma.
__global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float as[tile][tile];
  __shared__ float bs[tile][tile];
  const int row = blockIdx.y * tile + threadIdx.y;
  const int col = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += tile) {
    as[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + col];
    __syncthreads();
    for (int i = 0; i < tile; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

__global__ void fma_chain(float* x, int steps) {
  float value = static_cast<float>(threadIdx.x);
  for (int i = 0; i < steps; ++i) value = fmaf(value, 0.999F, 0.5F);
  x[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

/// Lanes that leave a loop one by one.
__global__ void collatz(int* lengths, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  unsigned long long value = i + 1;
  int length = 0;
  for (; value != 1; ++length) value = value % 2 == 0 ? value / 2 : 3 * value + 1;
  lengths[i] = length;
}

/// Each lane reads somewhere else.
__global__ void gather(const float* from, float* to, int n, int steps) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at = i;
  float sum = 0;
  for (int step = 0; step < steps; ++step) {
    at = at * 1664525U + 1013904223U;
    sum += from[(at >> 8U) % n];
  }
  to[i] = sum;
}

template <class T>
T* made_of(std::size_t count) {
  T* memory = nullptr;
  const std::vector<T> ones(count, T{1});
  if (cudaMalloc(&memory, count * sizeof(T)) != cudaSuccess) return nullptr;
  (void)cudaMemcpy(memory, ones.data(), count * sizeof(T), cudaMemcpyHostToDevice);
  return memory;
}

}  // namespace

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  constexpr int threads = 256;
  constexpr int many = 1 << 16;
  if (std::strcmp(which, "matmul") == 0) {
    constexpr int n = 192;
    auto* a = made_of<float>(n * n);
    matmul<<<dim3(n / tile, n / tile), dim3(tile, tile)>>>(a, made_of<float>(n * n), made_of<float>(n * n),
                                                           n);
  } else if (std::strcmp(which, "fma_chain") == 0) {
    fma_chain<<<16, threads>>>(made_of<float>(16 * threads), 4000);
  } else if (std::strcmp(which, "collatz") == 0) {
    collatz<<<many / 4 / threads, threads>>>(made_of<int>(many / 4), many / 4);
  } else if (std::strcmp(which, "gather") == 0) {
    gather<<<many / 2 / threads, threads>>>(made_of<float>(many), made_of<float>(many), many, 50);
  } else {
    std::fprintf(stderr, "usage: %s matmul|fma_chain|collatz|gather\n", argv[0]);
    return 2;
  }
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
