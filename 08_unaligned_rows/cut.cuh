// Elements that begin anywhere, cut at the first boundary: what is before it and what no pack fills at the
// end are single elements, packs are between.
#pragma once

#include "common/kernel/pack.cuh"

/// `count` elements of T: `head` single ones, then `num_packs` packs of N that are aligned, then `tail` single
/// ones.
template <int N>
struct Cut {
  int head;
  int num_packs;
  int tail;

  /// The packs begin at a multiple of `boundary` bytes, itself a multiple of a pack's.
  template <class T>
  __device__ Cut(const T* begin, int count, int boundary = N * sizeof(T)) {
    const unsigned past = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(begin)) % boundary;
    const int to_boundary = static_cast<int>((boundary - past) % boundary / sizeof(T));
    head = min(to_boundary, count);
    num_packs = (count - head) / N;
    tail = (count - head) % N;
  }
  __device__ int col_of_pack(int pack) const { return head + pack * N; }
  /// At most boundary / sizeof(T) - 1 + N - 1.
  __device__ int num_singles() const { return head + tail; }
  __device__ int col_of_single(int single) const { return single < head ? single : single + num_packs * N; }
};

/// How many elements `pointer` is past the last multiple of 16 bytes.
template <class T>
__host__ __device__ int elements_past_16_bytes(const T* pointer) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(pointer) % 16 / sizeof(T));
}

/// The pack at an aligned address.
template <int N, class T>
__device__ Pack<T, N> load_pack(const T* address) {
  return *reinterpret_cast<const Pack<T, N>*>(address);
}
template <class T, int N>
__device__ void store_pack(T* address, const float (&values)[N]) {
  *reinterpret_cast<Pack<T, N>*>(address) = make_pack<T>(values);
}
