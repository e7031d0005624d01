#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "common/harness/ceiling.h"
#include "common/kernel/cuda_check.h"

namespace {

// One pack per thread and a block of 256 was the fastest of 19 shapes tried on an H200; more packs per
// thread, or blocks of 1024, lost up to 5 %.
constexpr int block_size = 256;
constexpr std::size_t max_tensors = 3;

struct Packs {
  int4* data = nullptr;
  std::int64_t count = 0;
};

struct Tensors {
  Packs packs[max_tensors];  ///< a missing tensor has none
};

__device__ int4 operator^(int4 a, int4 b) {
  return {a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w};
}

/// Thread i takes pack i of every tensor that has one.
__global__ void __launch_bounds__(block_size) ceiling(Tensors inputs, Tensors outputs) {
  const std::int64_t pack = blockIdx.x * std::int64_t{block_size} + threadIdx.x;
  int4 all{};
#pragma unroll
  for (const Packs& input : inputs.packs) {
    if (pack < input.count) all = all ^ input.data[pack];
  }
  bool written = false;
#pragma unroll
  for (const Packs& output : outputs.packs) {
    if (pack >= output.count) continue;
    output.data[pack] = all;
    written = true;
  }
  // Without this use of `all` the compiler would drop the loads.
  if (!written && all.x == 0x5eed5eed && all.y == 0x0dd5eed5) outputs.packs[0].data[0] = all;
}

/// Only the copy: a bound per tensor would make it a different kernel from the one that was tuned.
__global__ void __launch_bounds__(block_size)
    copy(const int4* __restrict__ x, int4* __restrict__ y, std::int64_t num_packs) {
  const std::int64_t pack = blockIdx.x * std::int64_t{block_size} + threadIdx.x;
  if (pack < num_packs) y[pack] = x[pack];
}

__global__ void read(const int4* __restrict__ x, std::int64_t num_packs, int* sink) {
  int all = 0;
  for (std::int64_t pack = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; pack < num_packs;
       pack += std::int64_t{gridDim.x} * blockDim.x) {
    const int4 value = x[pack];
    all |= value.x ^ value.y ^ value.z ^ value.w;
  }
  if (all == 0x5eed5eed) *sink = all;
}

/// Each multiprocessor has its own counter, so only one of them is read: with as many blocks as there are
/// multiprocessors, one block will run there.
__global__ void read_clock(ClockReading* reading) {
  unsigned multiprocessor = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  if (multiprocessor != 0) return;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(reading->nanoseconds));
  reading->cycles = static_cast<std::uint64_t>(clock64());
}

__global__ void wait(int microseconds) {
  const auto now = [] {
    std::uint64_t nanoseconds = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
  };
  const std::uint64_t begin = now();
  while (now() - begin < 1000 * static_cast<std::uint64_t>(microseconds)) {
  }
}

/// No memory holds more packs than a grid has threads. Not grid_for, which may return fewer blocks for
/// kernels that loop.
unsigned blocks_for(std::int64_t num_packs) {
  return static_cast<unsigned>((num_packs + block_size - 1) / block_size);
}

Packs whole_packs(const Bytes& tensor) {
  const std::size_t skipped =
      std::min(tensor.bytes, -reinterpret_cast<std::uintptr_t>(tensor.data) % sizeof(int4));
  return {reinterpret_cast<int4*>(static_cast<char*>(tensor.data) + skipped),
          static_cast<std::int64_t>((tensor.bytes - skipped) / sizeof(int4))};
}

}  // namespace

void launch_ceiling(std::span<const Bytes> inputs, std::span<const Bytes> outputs, cudaStream_t stream) {
  if (inputs.empty() || outputs.empty() || inputs.size() > max_tensors || outputs.size() > max_tensors) {
    throw std::invalid_argument("the ceiling takes 1 to 3 inputs and 1 to 3 outputs");
  }
  std::int64_t most_packs = 1;  // one block at least: a time of nothing would be no ceiling
  const auto packs_of = [&](std::span<const Bytes> tensors) {
    Tensors all{};
    std::transform(tensors.begin(), tensors.end(), all.packs, whole_packs);
    for (const Packs& tensor : all.packs) most_packs = std::max(most_packs, tensor.count);
    return all;
  };
  const Tensors in = packs_of(inputs);
  const Tensors out = packs_of(outputs);
  const unsigned grid = blocks_for(most_packs);
  if (inputs.size() == 1 && outputs.size() == 1 && inputs[0].bytes == outputs[0].bytes) {
    const auto [x, y] = std::pair{in.packs[0], out.packs[0]};
    copy<<<grid, block_size, 0, stream>>>(x.data, y.data, std::min(x.count, y.count));
  } else {
    ceiling<<<grid, block_size, 0, stream>>>(in, out);
  }
  CUDA_CHECK(cudaGetLastError());
}

void launch_read(const void* x, std::size_t bytes, int* sink, cudaStream_t stream) {
  const auto num_packs = static_cast<std::int64_t>(bytes / sizeof(int4));
  const unsigned grid = std::min(blocks_for(num_packs), 4096U);
  if (grid == 0) return;
  read<<<grid, block_size, 0, stream>>>(static_cast<const int4*>(x), num_packs, sink);
  CUDA_CHECK(cudaGetLastError());
}

void launch_read_clock(ClockReading* reading, int multiprocessors, cudaStream_t stream) {
  read_clock<<<static_cast<unsigned>(multiprocessors), 1, 0, stream>>>(reading);
  CUDA_CHECK(cudaGetLastError());
}

void launch_wait(int microseconds, cudaStream_t stream) {
  wait<<<1, 1, 0, stream>>>(microseconds);
  CUDA_CHECK(cudaGetLastError());
}

bool ceiling_is_loadable() {
  cudaFuncAttributes attributes{};
  const bool loadable = cudaFuncGetAttributes(&attributes, copy) == cudaSuccess;
  (void)cudaGetLastError();
  return loadable;
}
