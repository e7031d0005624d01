// Philox4x32-10: random numbers without a state. The number of any element can be recomputed from its index,
// so dropout does not have to store its mask.
//
// Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3". cuRAND has the same as
// curand_Philox4x32_10, in a header of the toolkit that not every installation has.
#pragma once

#include <cuda_runtime.h>

#include <cuda/std/cstdint>

/// 128 random bits, which depend on nothing but the counter and the key. Ten rounds of two multiplications.
__device__ inline uint4 philox4x32(std::uint64_t counter, std::uint64_t key) {
  const auto low = [](std::uint64_t value) { return static_cast<unsigned>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<unsigned>(value >> 32); };
  uint4 bits{low(counter), high(counter), 0, 0};
  uint2 round_key{low(key), high(key)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    // Note N30: nvcc 13.0 would turn one product of 64 bits into multiplications of 64 bits.
    bits = {__umulhi(0xCD9E8D57, bits.z) ^ bits.y ^ round_key.x, 0xCD9E8D57 * bits.z,
            __umulhi(0xD2511F53, bits.x) ^ bits.w ^ round_key.y, 0xD2511F53 * bits.x};
    round_key.x += 0x9E3779B9;
    round_key.y += 0xBB67AE85;
  }
  return bits;
}
