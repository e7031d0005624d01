// From the stage backward: both rows in shared memory, in the matrix's own type, as the variant own_packs of
// the stage async_copy keeps one row. At f16 49152 x 32768 this reached 100.5 % of the ceiling (H200).
#pragma once

#include "common/kernel/async_copy.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/persistent_blocks.cuh"
#include "common/kernel/row_gradient.cuh"

namespace rowwise {

/// The bytes of `cols` elements in whole lines of 128 bytes. Note N15: asynchronous copies from line to line
/// are faster.
template <class T>
constexpr __host__ __device__ std::int64_t bytes_of_lines(std::int64_t cols) {
  return round_up(cols * std::int64_t{sizeof(T)}, 128);
}

/// One block per row. A thread requests its packs of both rows and reads only these again, so no barrier is
/// needed.
template <class Op, class T>
__global__ void __launch_bounds__(1024)
    shared_backward(const T* y, const T* dy, T* dx, Shape shape, L2Policy reads) {
  constexpr int N = elements_per_16_bytes<T>;
  extern __shared__ __align__(128) unsigned char buffer[];  // the row of y, then the row of dy
  __shared__ typename Op::State storage[32];
  T* const kept_y = reinterpret_cast<T*>(buffer);
  T* const kept_dy = reinterpret_cast<T*>(buffer + bytes_of_lines<T>(shape.cols));
  const int num_packs = static_cast<int>(shape.cols / N);
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t first = row * shape.cols;
#pragma unroll
    for (int group = 0; group < copy_groups; ++group) {
      for_each_pack_of_group(group, num_packs, [&](int pack) {
        copy_async(kept_y + pack * N, y + first + pack * N, reads);
        copy_async(kept_dy + pack * N, dy + first + pack * N, reads);
      });
      __pipeline_commit();
    }

    typename Op::State sum{};
#pragma unroll
    for (int group = 0; group < copy_groups; ++group) {
      __pipeline_wait_prior(copy_groups - 1 - group);
      for_each_pack_of_group(group, num_packs, [&](int pack) {
        add_packs<Op>(sum, load_pack<N>(kept_y + pack * N), load_pack<N>(kept_dy + pack * N));
      });
    }
    sum = block_merge<Op>(sum, storage);

    for (int pack = static_cast<int>(threadIdx.x); pack < num_packs; pack += static_cast<int>(blockDim.x)) {
      const Pack<T, N> result =
          finish_packs<Op>(sum, load_pack<N>(kept_y + pack * N), load_pack<N>(kept_dy + pack * N));
      store_pack(dx + first + pack * N, result);
    }
  }
}

/// Every row of the three matrices begins at a multiple of 16 bytes and is a multiple of 16 bytes long; two
/// rows fit in shared memory, less most_static_bytes.
struct SharedMemory {
  using Operations = BackwardOperations;
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
    return at_most_columns(gpu.dynamic_bytes() / 2 / 128 * 128 / matrix.element_bytes, matrix,
                           Why::shared_memory_for_two);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const auto kernel = shared_backward<Op, T>;
    const int shared_bytes = static_cast<int>(2 * bytes_of_lines<T>(tensors.shape.cols));
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    const int threads =
        threads_for(tensors.shape.cols / elements_per_16_bytes<T>, shared_bytes, most_shared_bytes());
    kernel<<<grid_for(tensors.shape.rows), threads, shared_bytes, stream>>>(
        tensors.y, tensors.dy, tensors.dx, tensors.shape, policy_of_reads<T>(3, tensors.shape));
    CUDA_CHECK(cudaGetLastError());
  }
};

}  // namespace rowwise
