// One instruction of one thread copies a whole row: cp.async.bulk. The copy unit computes the addresses; an
// mbarrier in shared memory counts the bytes that have arrived. It needs compute capability 9.0 or newer.
#pragma once

#include <cuda/ptx>

#include "09_async_copy/own_packs.cuh"

/// One block per row.
template <class Op, class T>
__global__ void __launch_bounds__(1024) bulk_copy_softmax(const T* x, T* y, Shape shape) {
#if __CUDA_ARCH__ >= 900
  namespace ptx = cuda::ptx;
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ typename Op::State storage[32];
  __shared__ std::uint64_t arrived;
  T* slot = reinterpret_cast<T*>(buffer);
  const std::int64_t begin = blockIdx.x * shape.cols;
  const int num_packs = static_cast<int>(shape.cols / elements_per_16_bytes<T>);

  if (threadIdx.x == 0) {
    const auto bytes = static_cast<std::uint32_t>(shape.cols * sizeof(T));
    ptx::mbarrier_init(&arrived, 1);            // expects one arrival, that of this thread
    ptx::fence_proxy_async(ptx::space_shared);  // makes the mbarrier visible to the copy unit
    // This thread arrives, and announces the bytes. The release makes the initialisation visible to the
    // threads of this block (scope_cta) that wait.
    (void)ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &arrived,
                                         bytes);
    // The target may be in any block of a cluster (see stage 10). Here it is in this block.
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, slot, x + begin, bytes, &arrived);
  }
  __syncthreads();  // No thread waits at an mbarrier that is not initialised yet.
  while (!ptx::mbarrier_try_wait_parity(&arrived, 0)) {
  }
  const RowResult<Op> result(block_merge_once<Op>(reduce_packs<Op>(slot, num_packs), storage));
  write_packs(y + begin, slot, num_packs, result);
#endif
}

/// Softmax (or log-softmax) of each row; rows = 0 does nothing. It needs compute capability 9.0.
struct BulkCopy {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (gpu.compute_capability < 9) return {Why::bulk_copies};
    return OwnPacks<>::refuses(matrix, gpu);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    launch_in_shared_memory(bulk_copy_softmax<Op, T>, tensors, tensors.shape.cols * std::int64_t{sizeof(T)},
                            false, stream);
  }
};
