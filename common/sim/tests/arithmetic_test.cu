// Arithmetic for which the compiler needs several instructions, or uncommon ones, on the device and on the host.
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "common/sim/tests/cuda_check.h"

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
/// Through loads and stores of 128 bits, as nvcc makes them for atomics alone.
struct Copy {
  __host__ __device__ u128 operator()(const Pair& pair) const {
#ifdef __CUDA_ARCH__
    u128 copied = 0;
    asm volatile(
        "{ .reg .b128 %%a, %%b; ld.global.b128 %%a, [%2]; mov.b128 %%b, %%a; mov.b128 {%0, %1}, %%b; }"
        : "=l"(reinterpret_cast<std::uint64_t*>(&copied)[0]),
          "=l"(reinterpret_cast<std::uint64_t*>(&copied)[1])
        : "l"(&pair));
    return copied;
#else
    return pair.a;
#endif
  }
};

/// Numbers of all lengths; no divisor is 0 or -1.
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

// ---- Rounding, roots and the small types

struct Round {
  __host__ __device__ double operator()(double value) const { return round(value); }
};
struct RoundToLong {
  __host__ __device__ long long operator()(double value) const { return llround(value); }
};
struct ReciprocalRoot {
  __host__ __device__ float operator()(
      double value) const {  // as f32, which does not show the last bits of f64
#ifdef __CUDA_ARCH__
    return static_cast<float>(rsqrt(value));
#else
    return static_cast<float>(1 / std::sqrt(value));
#endif
  }
};
template <__nv_fp8_interpretation_t format>
struct ToFp8 {
  __host__ __device__ std::uint16_t operator()(float value) const {
    return __nv_cvt_float2_to_fp8x2(make_float2(value, -value / 3), __NV_SATFINITE, format);
  }
};
template <__nv_fp8_interpretation_t format>
struct FromFp8 {
  __host__ __device__ std::uint32_t operator()(std::uint16_t pair) const {
    const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(pair, format);
    return static_cast<std::uint32_t>(halves.y) << 16U | halves.x;
  }
};

std::vector<double> doubles() {
  std::vector<double> values;
  for (int i = -400; i <= 400; ++i) values.push_back(i * 0.25);
  for (const double value : {0.49999999999999994, 4503599627370495.5, 4503599627370497.0, 1e18, 0x1p-1074}) {
    values.push_back(value);
    values.push_back(-value);
  }
  return values;
}
std::vector<double> positive_doubles() {
  std::vector<double> values;
  for (int i = -70; i <= 70; ++i) values.push_back(std::pow(10.0, i) * (1 + i * i % 7));
  return values;
}
std::vector<float> floats() {
  std::vector<float> values;
  for (int i = 0; i < 2000; ++i)
    values.push_back(std::ldexp(1.0F + static_cast<float>(i % 37) / 37, i % 44 - 22));
  return values;
}
std::vector<std::uint16_t> all_pairs_of_bytes() {
  std::vector<std::uint16_t> values;
  for (int i = 0; i < 256; ++i) {
    const int other = 255 - i;
    if ((i & 0x7c) == 0x7c || (other & 0x7c) == 0x7c) continue;  // NaN and infinity of one of the two formats
    values.push_back(static_cast<std::uint16_t>(i << 8 | other));
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
  expect_same("128-bit moves", Copy{}, pairs());
  expect_same("round", Round{}, doubles());
  expect_same("llround", RoundToLong{}, doubles());
  expect_same("rsqrt", ReciprocalRoot{}, positive_doubles());
  expect_same("to e4m3", ToFp8<__NV_E4M3>{}, floats());
  expect_same("to e5m2", ToFp8<__NV_E5M2>{}, floats());
  expect_same("from e4m3", FromFp8<__NV_E4M3>{}, all_pairs_of_bytes());
  expect_same("from e5m2", FromFp8<__NV_E5M2>{}, all_pairs_of_bytes());
  return failed ? 1 : 0;
}
