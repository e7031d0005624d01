// The numbers of threads and blocks of a launch whose blocks fill the GPU.
#pragma once

#include "common/kernel/current_device.cuh"
#include "common/kernel/grid.cuh"

/// Threads per block for a row of num_packs packs. A thread gets four packs, but the blocks that share an SM
/// have at most 1024 threads together, because an SM holds that many with 64 registers each.
inline int threads_for(std::int64_t num_packs, std::int64_t shared_bytes, std::int64_t most_shared_bytes) {
  const std::int64_t most = 2 * shared_bytes > most_shared_bytes ? 1024 : 512;
  return static_cast<int>(min(round_up(divide_up(num_packs, 4), 32), most));
}

/// The grid of kernel<<<blocks, threads, shared_bytes>>> with persistent blocks: as many as the GPU holds at
/// a time, but at most one per row.
template <class... Parameters>
unsigned blocks_that_stay(void (*kernel)(Parameters...), int threads, int shared_bytes, std::int64_t rows) {
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes));
  return grid_for(min(rows, std::int64_t{blocks} * multiprocessors()));
}
