// Stage 13: softmax as attention has it. Scores are scaled and masked before it, and dropout follows. The
// Load and Store types do all of that: the kernels of stages 03 and 06 are unchanged.
//
// Cost: with a causal mask, 5/2 passes forward, half a read and 2 writes: fully masked packs are not read.
// The softmax is written because the gradient needs it; dropout's mask is not, because it can be drawn again.
// The unfused kernels make 8 passes.
// Sources: Megatron-LM's scaled_masked_softmax; Apex's softmax with dropout; the functors are OneFlow's.
#pragma once

#include "13_masked_softmax/philox.cuh"
#include "common/kernel/constants.h"
#include "common/kernel/load_store.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"

// ---- The columns that a row sees, and those that dropout keeps.

/// A row sees only its first columns.
struct Mask {
  const std::int64_t* lengths;  ///< how many, per row; nullptr: causal, row r sees columns 0 to r % cols
  std::int64_t cols;

  /// How many columns the row sees from `col` on; 0 or less: none. The remainder has 32 bits: with 64, it
  /// would be the longest instruction sequence of the kernel.
  __device__ int seen_from(std::int64_t row, std::int64_t col) const {
    const auto query = [&] { return static_cast<unsigned>(row) % static_cast<unsigned>(cols); };
    const std::int64_t seen =
        lengths == nullptr ? query() + 1 : min(max(lengths[row], std::int64_t{0}), cols);
    return static_cast<int>(seen - col);
  }
};

struct Dropout {
  std::uint64_t seed;
  std::int64_t cols;

  /// Bit i of the result says whether element col + i of the row is kept, for N elements. One call of Philox
  /// has the bits of all N: N divides 8, and it divides the index of the first element, because packs of N
  /// are used only if N divides cols. With N = 4 or 1, neighbours make the same call, and use other bits.
  template <int N>
  __device__ unsigned kept(std::int64_t row, std::int64_t col) const {
    const auto index = static_cast<std::uint64_t>(row * cols + col);
    const uint4 bits = philox4x32(index / 8, seed);
    const int first = N == 8 ? 0 : static_cast<int>(index % 8);
    unsigned kept = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) kept |= (drawn(bits, first + i) >= dropped_of_65536 ? 1U : 0U) << i;
    return kept;
  }

  /// Multiplies the kept elements by the factor, and sets the others to 0.
  template <int N>
  static __device__ void drop(const float (&values)[N], unsigned kept, float factor, float (&left)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) left[i] = (kept >> i & 1) != 0 ? values[i] * factor : 0;
  }

  /// 1 / the probability that an element is kept, so that the mean stays the same.
  static constexpr float factor = 65536.0F / (65536 - dropped_of_65536);

 private:
  /// The i-th 16 of the 128 bits.
  static __device__ unsigned drawn(uint4 bits, int i) {
    const unsigned pair = i < 4 ? (i < 2 ? bits.x : bits.y) : (i < 6 ? bits.z : bits.w);
    return pair >> (i % 2 * 16) & 0xffff;
  }
};

// ---- Before the softmax.

/// A pack whose first `seen` elements are visible: none if that is 0 or less, all if it is N or more.
template <class T, int N>
struct MaskedPack {
  Pack<T, N> pack;
  int seen;
};

/// Loads, scales and masks: masked elements become `masked`. A fully masked pack is not read.
template <class T>
struct MaskedLoad {
  using Element = T;
  const T* x;
  Mask mask;
  float scale;
  float masked;

  template <int N>
  __device__ MaskedPack<T, N> fetch(std::int64_t row, std::int64_t col) const {
    MaskedPack<T, N> fetched{{}, mask.seen_from(row, col)};
    if (fetched.seen > 0) fetched.pack = load_pack<N>(x + row * mask.cols + col);
    return fetched;
  }
  template <int N>
  __device__ MaskedPack<T, N> missing() const {
    return {};  // sees nothing
  }
  template <int N>
  __device__ void unpack(const MaskedPack<T, N>& fetched, float (&values)[N]) const {
    ::unpack(fetched.pack, values);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = i < fetched.seen ? values[i] * scale : masked;
  }
  template <int N>
  bool fits_packs() const {
    return rows_fit_packs<N>(x, mask.cols);
  }
};

// ---- After the softmax.

/// Stores and only masks, for dx and for the unfused kernels. Masked elements become `masked`, even in a row
/// that sees nothing or has a NaN.
template <class T>
struct MaskedStore : DirectStore<T> {
  Mask mask;
  float masked;

  template <int N>
  __device__ void store(const float (&values)[N], std::int64_t row, std::int64_t col) const {
    const int seen = mask.seen_from(row, col);
    float stored[N];
#pragma unroll
    for (int i = 0; i < N; ++i) stored[i] = i < seen ? values[i] : masked;
    DirectStore<T>::store(stored, row, col);
  }
};

/// Stores the softmax, and y, the softmax after dropout. A fully masked pack draws no random numbers.
template <class T>
struct SoftmaxAndDropoutStore {
  DirectStore<T> softmax;
  DirectStore<T> y;
  Mask mask;
  Dropout dropout;

  template <int N>
  __device__ void store(const float (&values)[N], std::int64_t row, std::int64_t col) const {
    const int seen = mask.seen_from(row, col);
    float stored[N];
#pragma unroll
    for (int i = 0; i < N; ++i) stored[i] = i < seen ? values[i] : 0;
    softmax.store(stored, row, col);
    if (seen > 0) Dropout::drop(stored, dropout.kept<N>(row, col), Dropout::factor, stored);
    y.store(stored, row, col);
  }
  template <int N>
  bool fits_packs() const {
    return softmax.template fits_packs<N>() && y.template fits_packs<N>();
  }
};

// ---- For the gradient. (At a first reading, stop here.)

/// A pack of which only some elements were kept.
template <class T, int N>
struct KeptPack {
  Pack<T, N> pack;
  unsigned kept;  ///< bit i: element i
};

/// Turns the gradient of y into that of the softmax: drops the same elements again, and multiplies the others
/// by `factor`. Masked elements are 0, and a fully masked pack is not read.
template <class T>
struct GradientLoad {
  using Element = T;
  const T* dy;
  Mask mask;
  Dropout dropout;
  float factor;

  /// The random bits are drawn while the pack is in flight.
  template <int N>
  __device__ KeptPack<T, N> fetch(std::int64_t row, std::int64_t col) const {
    KeptPack<T, N> fetched{};
    const int seen = mask.seen_from(row, col);
    if (seen <= 0) return fetched;
    fetched.pack = load_pack<N>(dy + row * mask.cols + col);
    fetched.kept = dropout.kept<N>(row, col) & ((1U << min(seen, N)) - 1);
    return fetched;
  }
  template <int N>
  __device__ void unpack(const KeptPack<T, N>& fetched, float (&values)[N]) const {
    ::unpack(fetched.pack, values);
    Dropout::drop(values, fetched.kept, factor, values);
  }
  template <int N>
  bool fits_packs() const {
    return rows_fit_packs<N>(dy, mask.cols);
  }
};

// ---- The operations, and the common code of their launchers.

struct CausalSoftmax {
  static constexpr const char* name = "causal_softmax";
};
struct PaddedSoftmax {
  static constexpr const char* name = "padded_softmax";
};
struct CausalSoftmaxBackward {
  static constexpr const char* name = "causal_softmax_backward";
};
struct PaddedSoftmaxBackward {
  static constexpr const char* name = "padded_softmax_backward";
};

/// Mask::seen_from computes with rows and columns of 32 bits.
inline Refusal fits_32_bits(const Matrix& matrix) {
  if (const Refusal refusal = at_most_rows(std::int64_t{1} << 32, matrix, Why::row_index)) return refusal;
  return columns_fit_32_bits(matrix);
}

template <class T>
Mask mask_of(const Tensors<T>& tensors) {
  return {tensors.lengths, tensors.shape.cols};
}
template <class T>
Dropout dropout_of(const Tensors<T>& tensors) {
  return {tensors.seed, tensors.shape.cols};
}
