// From the stages unaligned_rows and async_copy, for wide rows: own_packs with a head and a tail. All of a
// row, or as much as shared memory holds, is requested at once, by copies that need no registers. At f32
// 4096 x 50257 this reached 97.6 % of the copy's speed; `online`, which reads single elements twice, reached
// 55.7 % (H200).
#pragma once

#include "common/kernel/async_copy.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/current_device.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/l2_policy.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"
#include "common/rowwise/kernels/forward/cut.cuh"

namespace rowwise {

/// Requests the first num_packs packs of a row, to shared memory, group by group.
template <int N, class T>
__device__ void request_packs(T* kept, const T* row, const Cut<N>& cut, int num_packs, L2Policy reads) {
#pragma unroll
  for (int group = 0; group < copy_groups; ++group) {
    for_each_pack_of_group(group, num_packs, [&](int pack) {
      copy_async(kept + cut.col_of_pack(pack), row + cut.col_of_pack(pack), reads);
    });
    __pipeline_commit();
  }
}

/// Reads N neighbouring elements at any address, by one access if they are aligned.
template <int N, class T>
__device__ void read_neighbours(const T* address, float (&values)[N]) {
  if (elements_past<16>(address) == 0) {
    unpack(load_pack<N>(address), values);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = static_cast<float>(address[i]);
  }
}

/// Keeps the row, or the packs before pack most_kept, and reads the rest again. Each thread merges its packs
/// as they arrive, one group after the other; the second read of the rest finds it in the L2.
template <class Op, class T>
__global__ void __launch_bounds__(1024)
    row_in_flight_softmax(const T* x, T* y, Shape shape, int most_kept, L2Policy reads) {
  constexpr int N = elements_per_16_bytes<T>;
  extern __shared__ __align__(line_bytes) unsigned char buffer[];
  __shared__ typename Op::State storage[32];
  const int cols = static_cast<int>(shape.cols);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);

  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const T* row_x = x + row * cols;
    T* row_y = y + row * cols;
    T* kept = place_in(buffer, row_x);
    const Cut<N> in(row_x, cols, line_bytes);
    const int kept_packs = min(in.num_packs, most_kept);
    const int kept_cols = kept_packs == in.num_packs ? cols : in.col_of_pack(kept_packs);
    request_packs(kept, row_x, in, kept_packs, reads);

    typename Op::State own{};
    if (thread < in.num_singles()) {
      const int col = in.col_of_single(thread);
      const float single[1] = {static_cast<float>(row_x[col])};
      if (col < kept_cols) kept[col] = row_x[col];
      Op::add(own, single);
    }
    const auto add_pack = [&](const T* from, int pack) {
      float values[N];
      unpack(load_pack<N>(from + in.col_of_pack(pack)), values);
      Op::add(own, values);
    };
    for (int pack = kept_packs + thread; pack < in.num_packs; pack += threads) add_pack(row_x, pack);
#pragma unroll
    for (int group = 0; group < copy_groups; ++group) {
      __pipeline_wait_prior(copy_groups - 1 - group);
      for_each_pack_of_group(group, kept_packs, [&](int pack) { add_pack(kept, pack); });
    }
    const RowResult<Op> result(block_merge<Op>(own, storage));

    const Cut<N> out(row_y, cols, line_bytes);
    const auto write = [&]<int count>(float(&values)[count], int col) {
      if (col + count <= kept_cols) {
        read_neighbours(kept + col, values);
      } else {
        read_neighbours(row_x + col, values);
      }
#pragma unroll
      for (float& value : values) value = result(value);
      store_pack(row_y + col, make_pack<T>(values));
    };
#pragma unroll 4
    for (int pack = thread; pack < out.num_packs; pack += threads) {
      float values[N];
      write(values, out.col_of_pack(pack));
    }
    float single[1];
    if (thread < out.num_singles()) write(single, out.col_of_single(thread));
    __syncthreads();  // the next row is copied over this one
  }
}

/// The number of packs of a row that are kept in shared_bytes of shared memory: all, or as many as fit next
/// to the states of 32 warps, the elements before the first pack and those after the last.
constexpr std::int64_t most_kept_packs(std::int64_t row_bytes, std::int64_t shared_bytes) {
  const std::int64_t most_bytes = shared_bytes - std::int64_t{sizeof(MaxSum[32])};
  return bytes_with_place(row_bytes) <= most_bytes ? divide_up(row_bytes, 16)
                                                   : (most_bytes - line_bytes - 16) / 16;
}

/// Softmax (or log-softmax) of each row, cols <= 2^30; rows = 0 does nothing.
struct RowInFlight {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) { return columns_fit_32_bits(matrix); }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const auto kernel = row_in_flight_softmax<Op, T>;
    const int most_bytes = most_shared_bytes();
    const std::int64_t row_bytes = tensors.shape.cols * std::int64_t{sizeof(T)};
    const std::int64_t kept_packs = most_kept_packs(row_bytes, most_bytes);
    const auto shared_bytes =
        static_cast<int>(min(bytes_with_place(row_bytes), most_bytes - std::int64_t{sizeof(MaxSum[32])}));
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    // An SM holds 1024 threads with about 60 registers each, in one block or two.
    const int block_size = 2 * shared_bytes > most_bytes ? 1024 : 512;
    kernel<<<grid_for(tensors.shape.rows), block_size, shared_bytes, stream>>>(
        tensors.x, tensors.y, tensors.shape, static_cast<int>(kept_packs),
        policy_of_reads<T>(2, tensors.shape));
    CUDA_CHECK(cudaGetLastError());
  }
};

}  // namespace rowwise
