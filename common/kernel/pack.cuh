// A pack: N neighbouring elements that travel in one memory instruction of up to 16 bytes, and the
// conversions between the stored type and the float in which all arithmetic is done.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cuda/std/cstdint>

/// The built-in type with that many bytes.
template <int bytes>
struct Word;
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};
template <int bytes>
using WordOf = typename Word<bytes>::Type;

/// It holds a built-in word instead of `T elements[N]`. Note N1 of common/rowwise/NOTES.md: nvcc copies an
/// array of __half element by element.
template <class T, int N>
struct Pack {
  static_assert(sizeof(T) * N <= 16 && (sizeof(T) * N & (sizeof(T) * N - 1)) == 0,
                "one access of 2 to 16 bytes");
  WordOf<sizeof(T) * N> word;
};

/// Elements of T in the widest single access of one thread, 16 bytes.
template <class T>
inline constexpr int elements_per_16_bytes = 16 / sizeof(T);

/// It reads the word as elements of T, which ISO C++ allows only by memcpy. cuda_fp16.h reads a __half as
/// `unsigned short` by the same cast.
template <class T, int N>
__device__ void unpack(const Pack<T, N>& pack, float (&values)[N]) {
  const T* elements = reinterpret_cast<const T*>(&pack.word);
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = static_cast<float>(elements[i]);
}

template <class T, int N>
__device__ Pack<T, N> make_pack(const float (&values)[N]) {
  Pack<T, N> pack;
  T* elements = reinterpret_cast<T*>(&pack.word);
#pragma unroll
  for (int i = 0; i < N; ++i) elements[i] = static_cast<T>(values[i]);
  return pack;
}

/// Stands for a pack that a row does not have: each -inf adds exp(-inf) = 0 to the sum.
template <class T, int N>
__device__ Pack<T, N> missing_pack() {
  float values[N];
#pragma unroll
  for (float& value : values) value = -INFINITY;
  return make_pack<T>(values);
}

/// The values of pack i of a thread, if it holds its packs one after the other.
template <int N, int count>
__device__ auto values_of_pack(float (&values)[count], int i) -> float (&)[N] {
  return reinterpret_cast<float(&)[N]>(values[i * N]);
}

/// Loads a pack with one access.
template <int N, class T>
__device__ Pack<T, N> load_pack(const T* address) {
  return {*reinterpret_cast<const decltype(Pack<T, N>::word)*>(address)};
}
/// Stores a pack in global memory with one access. Note N2: nvcc 13.0 may turn a store of 16 bytes through a
/// pointer into four of 4 bytes, so this one is an instruction in assembly. It does the same store
/// as the line after `else`.
template <class T, int N>
__device__ void store_pack(T* address, const Pack<T, N>& pack) {
  if constexpr (sizeof(pack) == 16) {
    const uint4 word = pack.word;
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(address)),
                 "r"(word.x), "r"(word.y), "r"(word.z), "r"(word.w)
                 : "memory");
  } else {
    *reinterpret_cast<Pack<T, N>*>(address) = pack;
  }
}

/// True when every row of the matrix starts at a multiple of `N * sizeof(T)` bytes, so that packs of N
/// elements cover whole rows. Otherwise a launcher takes packs of one element.
template <int N, class T>
bool rows_fit_packs(const T* matrix, std::int64_t cols) {
  return cols % N == 0 && reinterpret_cast<std::uintptr_t>(matrix) % (sizeof(T) * N) == 0;
}
