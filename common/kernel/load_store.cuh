// How kernels reach memory: through a Load and a Store functor, so that whatever comes before the softmax
// (scale, mask) or after it (dropout) can be fused in without touching the kernel. The idea is OneFlow's (its
// softmax kernels take LOAD and STORE template parameters).
//
// A Load reads N neighbouring columns of a row in two steps, so that a kernel can have many reads in flight
// before it waits for the first:
//   template <int N> __device__ auto fetch(std::int64_t row, std::int64_t col) const     issues the reads
//   template <int N> __device__ void unpack(const auto& fetched, float (&values)[N]) const   converts them
// Instead of a pack that the row does not have, a kernel takes missing<N>(), whose elements are -inf.
// A Store writes them:
//   template <int N> __device__
//   void store(const float (&values)[N], std::int64_t row, std::int64_t col) const
// and both say on the host whether packs of N elements cover every row, aligned:
//   template <int N> bool fits_packs() const
// `col` is the first of the N columns, a multiple of N; N > 1 is used only if fits_packs<N>() is true.
#pragma once

#include <cuda/std/cstdint>

#include "common/kernel/l2_policy.cuh"
#include "common/kernel/pack.cuh"
#include "common/kernel/tensors.h"

template <class T>
struct DirectLoad {
  using Element = T;
  const T* x;
  std::int64_t cols;

  template <int N>
  __device__ Pack<T, N> fetch(std::int64_t row, std::int64_t col) const {
    return *reinterpret_cast<const Pack<T, N>*>(x + row * cols + col);
  }
  template <int N>
  __device__ Pack<T, N> missing() const {
    return missing_pack<T, N>();
  }
  template <int N>
  __device__ void unpack(const Pack<T, N>& fetched, float (&values)[N]) const {
    ::unpack(fetched, values);
  }
  template <int N>
  bool fits_packs() const {
    return rows_fit_packs<N>(x, cols);
  }
};

/// Its reads carry the hint that the L2 evicts them last.
template <class T>
struct EvictLastLoad : DirectLoad<T> {
  template <int N>
  __device__ Pack<T, N> fetch(std::int64_t row, std::int64_t col) const {
    return load_pack<N>(with_policy(this->x, L2Policy::evict_last) + row * this->cols + col);
  }
};

template <class T>
struct DirectStore {
  T* y;
  std::int64_t cols;

  /// One store of up to 16 bytes, as the counted requests show. If packs begin at a different offset in each
  /// row, nvcc may split it; then store_pack is needed.
  template <int N>
  __device__ void store(const float (&values)[N], std::int64_t row, std::int64_t col) const {
    *reinterpret_cast<Pack<T, N>*>(y + row * cols + col) = make_pack<T>(values);
  }
  template <int N>
  bool fits_packs() const {
    return rows_fit_packs<N>(y, cols);
  }
};

/// The type that Load::fetch<N> returns. It does without declval, whose header would add a second to each
/// compilation.
template <class Load, int N>
using Fetched = decltype(static_cast<const Load*>(nullptr)->template fetch<N>(0, 0));

/// Calls launch.template operator()<N>() with the widest packs that cover the rows on both sides: 16 bytes of
/// the input's type, or single elements. A Load with `of_whole_packs` is known to fit 16 bytes.
template <class Load, class Store, class Launch>
void with_widest_packs(const Load& load, const Store& store, Launch launch) {
  constexpr int N = elements_per_16_bytes<typename Load::Element>;
  if constexpr (requires { Load::of_whole_packs; }) {
    launch.template operator()<N>();
  } else if (load.template fits_packs<N>() && store.template fits_packs<N>()) {
    launch.template operator()<N>();
  } else {
    launch.template operator()<1>();
  }
}

/// Makes a launcher of tensors from a launcher of functors, launch<Op>(load, store, shape, stream), or the
/// same with a workspace before the shape. It reads x through Load and writes y.
template <class Launcher, template <class> class Load = DirectLoad>
struct FromXToY : Launcher {
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Load<T> load{tensors.x, tensors.shape.cols};
    const DirectStore<T> store{tensors.y, tensors.shape.cols};
    if constexpr (requires { Launcher::template launch<Op>(load, store, tensors.shape, stream); }) {
      Launcher::template launch<Op>(load, store, tensors.shape, stream);
    } else {
      Launcher::template launch<Op>(load, store, tensors.workspace, tensors.shape, stream);
    }
  }
};
