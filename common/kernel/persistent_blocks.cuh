// How many threads and blocks a launch has whose blocks fill the GPU.
#pragma once

#include "common/kernel/current_device.cuh"
#include "common/kernel/grid.cuh"

/// Threads of a block for a row of so many packs: four packs each, but no more threads than an SM takes with 64
/// registers, shared among the blocks whose shared memory it holds: 1024.
inline int threads_for(std::int64_t num_packs, std::int64_t shared_bytes, std::int64_t most_shared_bytes) {
  const std::int64_t most = 2 * shared_bytes > most_shared_bytes ? 1024 : 512;
  return static_cast<int>(min(round_up(divide_up(num_packs, 4), 32), most));
}

/// A kernel<<<blocks, threads, shared_bytes>>> with as many blocks as the GPU holds at a time, but no more than rows.
template <class... Parameters>
unsigned blocks_that_stay(void (*kernel)(Parameters...), int threads, int shared_bytes, std::int64_t rows) {
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes));
  return grid_for(min(rows, std::int64_t{blocks} * multiprocessors()));
}
