// Arithmetic for which the compiler needs several instructions, or uncommon ones, on the device and on the host.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "common/harness/cuda_check.h"
#include "common/harness/cuda_handles.h"

namespace {

bool failed = false;

/// Compares function(value) on the device with the same on the host, bit by bit.
template <class Function, class Value>
__global__ void apply(Function function, const Value* values, decltype(Function{}(Value{})) * results,
                      int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) results[i] = function(values[i]);
}
template <class Function, class Value>
void expect_same(const char* name, Function function, const std::vector<Value>& values) {
  using Result = decltype(function(Value{}));
  const int n = static_cast<int>(values.size());
  const DeviceMemory in = allocate_device(n * sizeof(Value));
  const DeviceMemory out = allocate_device(n * sizeof(Result));
  CUDA_CHECK(cudaMemcpy(in.get(), values.data(), n * sizeof(Value), cudaMemcpyHostToDevice));
  constexpr int threads = 64;
  apply<<<(n + threads - 1) / threads, threads>>>(function, static_cast<const Value*>(in.get()),
                                                  static_cast<Result*>(out.get()), n);
  CUDA_CHECK(cudaGetLastError());
  std::vector<Result> results(values.size());
  CUDA_CHECK(cudaMemcpy(results.data(), out.get(), n * sizeof(Result), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < n; ++i) {
    const Result expected = function(values[i]);
    if (std::memcmp(&results[i], &expected, sizeof expected) != 0) ++wrong;
  }
  std::printf("%-4s %s: %d values, %d wrong\n", wrong == 0 ? "ok" : "FAIL", name, n, wrong);
  failed = failed || wrong != 0;
}

// ---- 128 bits

using u128 = unsigned __int128;
struct Pair {
  u128 a;
  u128 b;
};
struct Divide {
  __host__ __device__ u128 operator()(const Pair& pair) const { return pair.a / pair.b; }
};
struct Remainder {
  __host__ __device__ u128 operator()(const Pair& pair) const { return pair.a % pair.b; }
};
struct DivideSigned {
  __host__ __device__ __int128 operator()(const Pair& pair) const {
    return static_cast<__int128>(pair.a) / static_cast<__int128>(pair.b);
  }
};
struct Multiply {
  __host__ __device__ u128 operator()(const Pair& pair) const { return pair.a * pair.b; }
};
struct Subtract {
  __host__ __device__ u128 operator()(const Pair& pair) const { return pair.a - pair.b; }
};

/// Of all lengths, none of the divisors 0 or -1.
std::vector<Pair> pairs() {
  std::vector<Pair> values;
  std::uint64_t state = 1;
  const auto next = [&state] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return state ^ state >> 29U;
  };
  for (unsigned a = 0; a < 128; a += 3) {
    for (unsigned b = 0; b < 127; b += 5) {
      const u128 low = next();
      const u128 high = next();
      const u128 first = (high << 64U | low) >> a;
      const u128 second = (static_cast<u128>(next()) << 64U | next()) >> b | 1U;
      values.push_back({first, second});
    }
  }
  return values;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    std::printf("neither a GPU nor the simulator\n");
    return 3;
  }
  expect_same("128-bit division", Divide{}, pairs());
  expect_same("128-bit remainder", Remainder{}, pairs());
  expect_same("128-bit division with sign", DivideSigned{}, pairs());
  expect_same("128-bit multiplication", Multiply{}, pairs());
  expect_same("128-bit subtraction", Subtract{}, pairs());
  return failed ? 1 : 0;
}
