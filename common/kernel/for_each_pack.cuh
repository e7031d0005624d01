// How the threads of a block walk over a row in memory.
#pragma once

#include "common/kernel/grid.cuh"
#include "common/kernel/load_store.cuh"

enum class Direction { forward, backward };

constexpr int uncached_packs_in_flight = 4;

/// Calls use(values, col) for each pack of the row that belongs to this thread. Four packs are in flight
/// before the first is used: a loop that waits for each read before it issues the next leaves the memory
/// idle.
template <int pack_size, Direction direction = Direction::forward, class Load, class Use>
__device__ void for_each_pack(const Load& load, std::int64_t row, std::int64_t cols, Use use) {
  const std::int64_t num_packs = cols / pack_size;
  for (std::int64_t first = threadIdx.x; first < num_packs; first += uncached_packs_in_flight * blockDim.x) {
    const auto exists = [&](int i) { return first + i * blockDim.x < num_packs; };
    const auto col = [&](int i) {
      const std::int64_t pack = first + i * blockDim.x;
      return (direction == Direction::forward ? pack : num_packs - 1 - pack) * pack_size;
    };
    Fetched<Load, pack_size> fetched[uncached_packs_in_flight] = {};
#pragma unroll
    for (int i = 0; i < uncached_packs_in_flight; ++i) {
      if (exists(i)) fetched[i] = load.template fetch<pack_size>(row, col(i));
    }
#pragma unroll
    for (int i = 0; i < uncached_packs_in_flight; ++i) {
      if (!exists(i)) break;
      float values[pack_size];
      load.template unpack<pack_size>(fetched[i], values);
      use(values, col(i));
    }
  }
}

/// The block size: at most `largest`, and no more threads than a row has work for, in whole warps.
template <int pack_size>
unsigned block_size_for(std::int64_t cols, unsigned largest) {
  const std::int64_t useful = round_up(divide_up(cols / pack_size, uncached_packs_in_flight), 32);
  return static_cast<unsigned>(min(useful, std::int64_t{largest}));
}
