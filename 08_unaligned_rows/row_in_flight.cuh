// A wide row: all of it, or as much as shared memory holds, is requested at once, by copies that need no
// registers.
#pragma once

#include <cuda_pipeline.h>

#include "08_unaligned_rows/cut.cuh"
#include "common/harness/cuda_check.h"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/shape.h"

/// N neighbouring elements that begin anywhere: by one access where they are aligned.
template <int N, class T>
__device__ void read_neighbours(const T* address, float (&values)[N]) {
  if (elements_past_pack(address) == 0) {
    unpack(pack_at<N>(address), values);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = static_cast<float>(address[i]);
  }
}

template <class Op, int groups, class T>
__global__ void __launch_bounds__(1024)
    row_in_flight_softmax(const T* x, T* y, Shape shape, int boundary, int most_kept_packs) {
  constexpr int N = elements_per_16_bytes<T>;
  extern __shared__ __align__(16) unsigned char buffer[];
  __shared__ typename Op::State storage[32];
  const int cols = static_cast<int>(shape.cols);
  const int thread = static_cast<int>(threadIdx.x);
  const int step = static_cast<int>(blockDim.x);

  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const T* row_x = x + row * cols;
    T* row_y = y + row * cols;
    const Cut<N> in(row_x, cols, boundary);
    T* kept = reinterpret_cast<T*>(buffer) + elements_past_pack(row_x);
    const int kept_packs = min(in.num_packs, most_kept_packs);
    const int kept_cols = kept_packs == in.num_packs ? cols : in.col_of_pack(kept_packs);
    const int packs_per_group = (kept_packs + groups * step - 1) / (groups * step) * step;
    const auto for_each_pack = [&](int group, auto use) {
      const int end = min((group + 1) * packs_per_group, kept_packs);
      for (int pack = group * packs_per_group + thread; pack < end; pack += step) use(in.col_of_pack(pack));
    };
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      for_each_pack(group, [&](int col) { __pipeline_memcpy_async(kept + col, row_x + col, 16); });
      __pipeline_commit();
    }

    typename Op::State own{};
    if (thread < in.num_singles()) {
      const int col = in.col_of_single(thread);
      const float single[1] = {static_cast<float>(row_x[col])};
      if (col < kept_cols) kept[col] = row_x[col];
      Op::add(own, single);
    }
    const auto add_pack = [&](const T* address) {
      float values[N];
      unpack(pack_at<N>(address), values);
      Op::add(own, values);
    };
#pragma unroll 4
    for (int pack = kept_packs + thread; pack < in.num_packs; pack += step) {
      add_pack(row_x + in.col_of_pack(pack));
    }
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      __pipeline_wait_prior(groups - 1 - group);
      for_each_pack(group, [&](int col) { add_pack(kept + col); });
    }
    const RowResult<Op> result(block_merge<Op>(own, storage));

    const Cut<N> out(row_y, cols, boundary);
    for (int pack = out.num_packs - 1 - thread; pack >= 0; pack -= step) {
      float values[N];
      const int col = out.col_of_pack(pack);
      if (col + N <= kept_cols) {
        read_neighbours(kept + col, values);
      } else {
        read_neighbours(row_x + col, values);
      }
#pragma unroll
      for (float& value : values) value = result(value);
      pack_at<N>(row_y + col) = make_pack<T>(values);
    }
    if (thread < out.num_singles()) {
      const int col = out.col_of_single(thread);
      const float single = static_cast<float>(col < kept_cols ? kept[col] : row_x[col]);
      row_y[col] = static_cast<T>(result(single));
    }
    __syncthreads();  // the next row is copied over this one
  }
}

template <int threads, int groups, int boundary>
struct RowInFlight {
  template <class Op, class T>
  static void launch(const T* x, T* y, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    const auto kernel = row_in_flight_softmax<Op, groups, T>;
    int device = 0;
    int most_bytes = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    most_bytes -= 256;
    const std::int64_t row_bytes = round_up(shape.cols * std::int64_t{sizeof(T)}, 16) + 16;
    const int shared_bytes = static_cast<int>(min(row_bytes, std::int64_t{most_bytes}));
    const int most_kept = row_bytes <= most_bytes ? 1 << 30 : (most_bytes - boundary - 16) / 16;
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    kernel<<<grid_for(shape.rows), threads, shared_bytes, stream>>>(x, y, shape, boundary, most_kept);
    CUDA_CHECK(cudaGetLastError());
  }
};
