// The practical ceiling: an operation reads each input once and writes each output once, and so does this
// kernel, which computes nothing. For softmax it is a plain copy.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

/// Part of a tensor, in device memory.
struct Bytes {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Reads the inputs (at most 3) and overwrites the outputs (at most 3) once, as far as whole 16-byte accesses
/// at multiples of 16 cover them. Throws CudaError.
void launch_ceiling(std::span<const Bytes> inputs, std::span<const Bytes> outputs, cudaStream_t stream);

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

/// Keeps the stream busy for `microseconds`.
void launch_wait(int microseconds, cudaStream_t stream);

/// False when this executable holds no code for the current device.
bool ceiling_is_loadable();
