// fused, with a hint to the L2: what is read is to leave it last.
//
// A kernel that reads and writes as much fills the L2 with both, and each miss makes room for itself. Where lines that were read
// stay, those that were written leave, and sooner: the DRAM gets them in longer runs, and turns less often from reading to
// writing. (That is an explanation; what is known is the time, beside the copy and with 48 GB between two uses of a matrix.)
// Source: the kernels that PyTorch compiles read with this hint what they read again, and outran ours that read once.
#pragma once

#include "06_online/online.cuh"

/// Marks what it reads as the last that the L2 should give up (PTX: evict_last). Before compute capability 8.0 a plain read.
template <class T>
struct EvictLastLoad : DirectLoad<T> {
  template <int N>
  __device__ Pack<T, N> fetch(std::int64_t row, std::int64_t col) const {
#if __CUDA_ARCH__ >= 800
    if constexpr (sizeof(Pack<T, N>) == 16) {
      const T* source = this->x + row * this->cols + col;
      std::uint64_t policy = 0;
      uint4 word{};
      asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
      asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                   : "l"(__cvta_generic_to_global(source)), "l"(policy));
      return {word};
    }
#endif
    return DirectLoad<T>::template fetch<N>(row, col);
  }
};

/// As FusedRegisterSoftmax.
struct FusedEvictLast {
  template <class Op, class T>
  static void launch(const T* x, T* y, Shape shape, cudaStream_t stream) {
    FusedRegisterSoftmax::launch<Op>(EvictLastLoad<T>{{x, shape.cols}}, DirectStore<T>{y, shape.cols}, shape,
                                     stream);
  }
};
