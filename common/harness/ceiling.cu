#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>

#include "common/harness/ceiling.h"
#include "common/harness/cuda_check.h"

namespace {

// One pack per thread and a block of 256 was the fastest of 19 shapes tried on an H200; two or more packs per
// thread, or blocks of 1024, lost up to 5 %.
constexpr int block_size = 256;
constexpr std::size_t max_tensors = 3;

struct Packs {
  int4* data = nullptr;
  std::int64_t count = 0;
};

template <int n>
struct TensorPacks {
  Packs tensors[n];
};

__device__ int4 operator^(int4 a, int4 b) {
  return {a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w};
}

/// Thread i takes pack i of every tensor that has so many.
template <int num_inputs, int num_outputs>
__global__ void __launch_bounds__(block_size)
    ceiling(TensorPacks<num_inputs> inputs, TensorPacks<num_outputs> outputs) {
  const std::int64_t pack = blockIdx.x * std::int64_t{block_size} + threadIdx.x;
  int4 all{};
#pragma unroll
  for (const Packs& input : inputs.tensors) {
    if (pack < input.count) all = all ^ input.data[pack];
  }
  bool written = false;
#pragma unroll
  for (const Packs& output : outputs.tensors) {
    if (pack >= output.count) continue;
    output.data[pack] = all;
    written = true;
  }
  // Without this use of `all` the compiler would drop the loads.
  if (!written && all.x == 0x5eed5eed && all.y == 0x0dd5eed5) outputs.tensors[0].data[0] = all;
}

/// The copy alone: with a bound for each tensor it would be another kernel than the one that was tried out.
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

/// Each multiprocessor has a counter of its own, so that one alone is read; of as many blocks as there are
/// multiprocessors one will run there.
__global__ void read_clock(ClockReading* reading) {
  unsigned multiprocessor = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  if (multiprocessor != 0) return;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(reading->nanoseconds));
  reading->cycles = static_cast<std::uint64_t>(clock64());
}

/// No memory holds more packs than a grid has threads. Not grid_for, which may cut off what kernels then do
/// in a loop.
unsigned blocks_for(std::int64_t num_packs) {
  return static_cast<unsigned>((num_packs + block_size - 1) / block_size);
}

Packs whole_packs(const Bytes& tensor) {
  const std::size_t skipped =
      std::min(tensor.bytes, -reinterpret_cast<std::uintptr_t>(tensor.data) % sizeof(int4));
  return {reinterpret_cast<int4*>(static_cast<char*>(tensor.data) + skipped),
          static_cast<std::int64_t>((tensor.bytes - skipped) / sizeof(int4))};
}

template <int n>
TensorPacks<n> first(const std::array<Packs, max_tensors>& tensors) {
  TensorPacks<n> packs;
  std::copy_n(tensors.begin(), n, packs.tensors);
  return packs;
}

}  // namespace

void launch_ceiling(std::span<const Bytes> inputs, std::span<const Bytes> outputs, cudaStream_t stream) {
  if (inputs.empty() || outputs.empty() || inputs.size() > max_tensors || outputs.size() > max_tensors) {
    throw std::invalid_argument("the ceiling takes 1 to 3 inputs and 1 to 3 outputs");
  }
  std::array<Packs, max_tensors> in;
  std::array<Packs, max_tensors> out;
  std::transform(inputs.begin(), inputs.end(), in.begin(), whole_packs);
  std::transform(outputs.begin(), outputs.end(), out.begin(), whole_packs);
  std::int64_t most_packs = 1;  // one block at least: a time of nothing would be no ceiling
  for (const Packs& tensor : in) most_packs = std::max(most_packs, tensor.count);
  for (const Packs& tensor : out) most_packs = std::max(most_packs, tensor.count);
  const unsigned grid = blocks_for(most_packs);

  if (inputs.size() == 1 && outputs.size() == 1 && inputs[0].bytes == outputs[0].bytes) {
    copy<<<grid, block_size, 0, stream>>>(in[0].data, out[0].data, std::min(in[0].count, out[0].count));
  } else if (inputs.size() == 1 && outputs.size() == 1) {
    ceiling<<<grid, block_size, 0, stream>>>(first<1>(in), first<1>(out));
  } else if (inputs.size() == 2 && outputs.size() == 1) {
    ceiling<<<grid, block_size, 0, stream>>>(first<2>(in), first<1>(out));
  } else {
    ceiling<<<grid, block_size, 0, stream>>>(first<3>(in), first<3>(out));
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

bool ceiling_is_loadable() {
  cudaFuncAttributes attributes{};
  const bool loadable = cudaFuncGetAttributes(&attributes, copy) == cudaSuccess;
  (void)cudaGetLastError();
  return loadable;
}
