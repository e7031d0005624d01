// From the stage unaligned_rows: rows whose width no pack of 16 bytes divides. Each row starts at a
// different offset from a pack. Beyond the stage's Cut, packs may begin at a line of the cache (Note N15).
//
// Cost: 2 passes. 16-byte accesses move all of a row except its ends. The library's kernels differ in how
// they treat these: single elements before the first pack and after the last (head_and_tail), several rows
// at once, so that few of them have an end (flat_span), or shared memory that holds a wide row while it
// arrives (row_in_flight).
// Sources: a scalar prologue and epilogue around vector accesses, and rows as one flat range, are common
// practice.
#pragma once

#include "common/kernel/grid.cuh"
#include "common/kernel/pack.cuh"

namespace rowwise {

/// `count` elements that begin at any address: `head` single elements up to a boundary, then `num_packs`
/// aligned packs of N, then `tail` single elements.
template <int N>
struct Cut {
  int head;
  int num_packs;
  int tail;

  /// The packs begin at a multiple of `boundary` bytes, a power of two and at least a pack.
  template <class T>
  __device__ Cut(const T* begin, int count, unsigned boundary = N * sizeof(T)) {
    // Note N14: masks are used, because a 64-bit remainder by a variable takes about a hundred instructions.
    const auto address = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(begin));
    head = min(static_cast<int>((0 - address & (boundary - 1)) / sizeof(T)), count);
    num_packs = (count - head) / N;
    tail = (count - head) % N;
  }
  __device__ int col_of_pack(int pack) const { return head + pack * N; }
  /// The number of single elements is less than boundary / sizeof(T) + N.
  __device__ int num_singles() const { return head + tail; }
  __device__ int col_of_single(int single) const { return single < head ? single : single + num_packs * N; }
};

/// The number of elements from the last multiple of `boundary` bytes, a power of two, to the address.
template <unsigned boundary, class T>
__host__ __device__ int elements_past(const T* address) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % boundary / sizeof(T));
}

constexpr unsigned line_bytes = 128;
/// The place of an element of global memory in a buffer that begins at a line: as far past a line as in
/// global memory. Note N15: asynchronous copies from line to line are faster than copies across lines.
template <class T>
__device__ T* place_in(unsigned char* buffer, const T* global) {
  return reinterpret_cast<T*>(buffer) + elements_past<line_bytes>(global);
}
/// The size of a buffer for `bytes` bytes that begin anywhere in a line.
__host__ __device__ constexpr std::int64_t bytes_with_place(std::int64_t bytes) {
  return round_up(bytes, 16) + line_bytes;
}

}  // namespace rowwise
