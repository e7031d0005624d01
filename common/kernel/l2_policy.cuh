// A hint to the L2 about what a kernel reads: give it up last.
//
// A kernel that reads and writes as much fills the L2 with both, and each miss makes room for itself. Where lines that were read
// stay, those that were written leave, and sooner: the DRAM gets them in longer runs, and turns less often from reading to
// writing. (That is an explanation; what is known is the time, beside the copy and with 48 GB between two uses of a matrix.)
// Source: the kernels that PyTorch compiles read with this hint what they read again, and outran ours that read once.
#pragma once

#include <cuda_pipeline.h>

#include <cuda/std/cstdint>

/// Which lines leave the L2 first, as a read tells it; a parameter of a kernel. Before compute capability 8.0 nothing is told.
/// The numbers are those of cuda::access_property, persisting and global: its header would be most of each compilation.
enum class L2Policy : std::uint64_t {
  evict_last = 0x14f0000000000000,
  as_usual = 0x10f0000000000000,
};

/// The same address: what is read through it is read so. (In ncu's Source page such a read stands at no line: nvcc 13.0 forgets
/// it. With the instruction in assembly it would have one, and some kernels a tenth less speed.)
/// Not from compute capability 10.0 on: there nvcc 13.0 crashes on most kernels that ask for it.
template <class T>
__device__ const T* with_policy(const T* global, [[maybe_unused]] L2Policy policy) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000
  // As cuda::associate_access_property.
  return static_cast<const T*>(__nv_associate_access_property(global, static_cast<std::uint64_t>(policy)));
#else
  return global;
#endif
}

/// As __pipeline_memcpy_async, of 16 bytes.
__device__ inline void copy_async(void* shared, const void* global, [[maybe_unused]] L2Policy policy) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(global), "l"(policy)
               : "memory");
#else
  __pipeline_memcpy_async(shared, global, 16);
#endif
}
