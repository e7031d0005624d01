// Functions that are called, not inlined: one body each, however many calls there are.
#include <array>
#include <string>
#include <utility>

#include "common/sim/tests/expect_fault.cuh"

namespace {

constexpr int threads = 32;

struct Pair {
  int sum;
  long long product;
};

__device__ __noinline__ Pair both(int a, int b) {
  return {a + b, static_cast<long long>(a) * b};
}

/// Each lane is called from one of three places, and some from within another call.
__global__ void calls_from_everywhere(int* x) {
  const int lane = static_cast<int>(threadIdx.x);
  Pair pair = both(lane, 2);
  if (lane % 3 == 0) {
    pair = both(pair.sum, static_cast<int>(pair.product));
  } else if (lane % 3 == 1) {
    pair = both(both(lane, lane).sum, 1);
  }
  x[lane] = pair.sum + static_cast<int>(pair.product);  // all lanes together again
}

__device__ __noinline__ int sum_of_warp(int value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
  return value;
}
__device__ __noinline__ int sum_of_block(int value) {
  __shared__ int sums[2];
  const int sum = sum_of_warp(value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  const int both_sums = sums[0] + sums[1];
  __syncthreads();
  return both_sums;
}
__global__ void sums_twice(int* x) {
  const int sum = sum_of_block(static_cast<int>(threadIdx.x));
  x[threadIdx.x % threads] = sum + sum_of_block(1);
}

template <int depth>
__device__ __noinline__ int doubled(int x) {
  if constexpr (depth == 0) {
    return x + static_cast<int>(clock());
  } else {
    const int first = x < 0 ? doubled<depth - 1>(x + 1) : x;
    return first + (x < -1 ? doubled<depth - 1>(first) : 1);
  }
}
/// If each call were a copy of the called function, there would be 2^24 copies.
__global__ void deep(int* x) {
  x[threadIdx.x] = doubled<24>(static_cast<int>(threadIdx.x));
}

__device__ __noinline__ int fibonacci(int n) {  // NOLINT(misc-no-recursion)
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
__global__ void recurses(int* x) {
  x[threadIdx.x] = fibonacci(static_cast<int>(threadIdx.x) % 8);
}

}  // namespace

int main() {
  const Simulator simulator(__FILE__);
  int* x = nullptr;
  cudaMalloc(&x, threads * sizeof(int));
  const auto value_of = [x](int index) {
    int value = -1;
    cudaMemcpy(&value, x + index, sizeof value, cudaMemcpyDeviceToHost);
    return value;
  };
  const auto is = [&](const char* name, int index, int wanted) {
    simulator.check(value_of(index) == wanted, name, std::to_string(value_of(index)));
  };

  if (!simulator.on_gpu()) simulator.api().begin();
  simulator.expect("calls from everywhere", cudaSuccess, "",
                   [&] { calls_from_everywhere<<<1, threads>>>(x); });
  is("in a branch", 3, 41);      // (5, 6): 11 + 30
  is("within a call", 4, 17);    // 8: 9 + 8
  is("before it alone", 5, 17);  // (5, 2): 7 + 10
  if (!simulator.on_gpu()) {
    simulator.api().end();
    const SimLaunch& launch = *simulator.api().launch(0);
    simulator.check(launch.counters.global_stores.requests == 1, "lanes meet behind the calls",
                    std::to_string(launch.counters.global_stores.requests));
  }

  simulator.expect("barriers and shuffles in functions", cudaSuccess, "", [&] { sums_twice<<<1, 64>>>(x); });
  is("of all threads", 7, 64 * 63 / 2 + 64);
  simulator.expect("deep calls", cudaSuccess, "", [&] { deep<<<1, threads>>>(x); });
  is("are called", 5, 6);
  simulator.expect("recursion", cudaErrorIllegalInstruction, "recursion is not simulated",
                   [&] { recurses<<<1, threads>>>(x); });
  return simulator.result();
}
