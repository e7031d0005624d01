// The physical limit: softmax reads each element once and writes it once, and so does a plain copy.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

/// Copies `bytes`, rounded down to whole 16-byte accesses, from x to y on the stream; both are aligned to 16
/// bytes. Throws CudaError.
void launch_copy(const void* x, void* y, std::size_t bytes, cudaStream_t stream);

/// Reads `bytes` from x, so that whatever the L2 cache held before is gone when bytes exceed its size.
/// `sink`: one int, never written in practice; it keeps the compiler from dropping the reads.
void launch_read(const void* x, std::size_t bytes, int* sink, cudaStream_t stream);

/// Two of them, and the clock in between is known.
struct ClockReading {
  std::uint64_t nanoseconds;  ///< 0: not read
  std::uint64_t cycles;       ///< of multiprocessor 0
};

/// Writes *reading, in device memory.
void launch_read_clock(ClockReading* reading, int multiprocessors, cudaStream_t stream);

/// False when this executable holds no code for the current device.
bool copy_kernel_is_loadable();
