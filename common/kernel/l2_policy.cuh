// A hint to the L2: the lines that a kernel has read are the last to be evicted.
//
// A kernel that writes as much as it reads fills the L2 with both, and each miss evicts a line. If the lines
// that were read stay, the written lines leave, and earlier: the DRAM gets them in longer runs and switches
// less often from reading to writing. That is an explanation; Note N11 of common/rowwise/NOTES.md has the
// times that were measured.
// Source: the kernels that PyTorch compiles use this hint for data that they read again, and were faster than
// kernels here that read once.
#pragma once

#include <cuda_pipeline.h>

#include <cuda/std/cstdint>

/// Which lines leave the L2 first. A kernel has it as a parameter and passes it to its reads. Before compute
/// capability 8.0 it has no effect. The numbers are those of cuda::access_property, persisting and global,
/// whose header would take most of each compilation.
enum class L2Policy : std::uint64_t {
  evict_last = 0x14f0000000000000,
  as_usual = 0x10f0000000000000,
};

/// Returns the same address; reads through it carry the hint. Note N13: an instruction in inline assembly
/// would be slower, and nvcc 13.0 crashes on most kernels with the hint from compute capability 10.0 on, so
/// there is none.
template <class T>
__device__ const T* with_policy(const T* global, [[maybe_unused]] L2Policy policy) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000
  // This is the built-in function that cuda::associate_access_property calls.
  return static_cast<const T*>(__nv_associate_access_property(global, static_cast<std::uint64_t>(policy)));
#else
  return global;
#endif
}

/// Copies 16 bytes as __pipeline_memcpy_async does, with the hint.
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
