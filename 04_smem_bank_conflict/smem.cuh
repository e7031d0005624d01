// Stage 04: one block per row, and the row waits in shared memory between the three steps.
//
// Cost: 2 passes, for rows of up to about 58 000 columns (227 KiB of float on an H200). The layout of a pack
// in shared memory matters now: 32 banks of 4 bytes serve one word each per clock, and two lanes that want
// different words of one bank wait for each other. Source: OneFlow's second softmax kernel (block size by
// occupancy, layout [pack_size][num_packs]).
#pragma once

#include "02_fused_block/block_reduce.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/load_store.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"

// ---- Layouts: the place of element i of pack p in the buffer of a row. Each writes and reads one pack of a
// lane; neighbouring lanes have neighbouring packs.

/// [num_packs][pack_size], as the matrix has it, one word per access: lane l starts at word l * pack_size, so
/// with packs of 8 only the banks 0, 8, 16 and 24 are used by one access of a warp, 8 lanes each: an 8-way
/// conflict. volatile keeps nvcc from merging the accesses; without it this is InterleavedLayout.
struct InterleavedScalarLayout {
  template <int N>
  static __device__ void write(float* buffer, int pack, int /*num_packs*/, const float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) static_cast<volatile float*>(buffer)[pack * N + i] = values[i];
  }
  template <int N>
  static __device__ void read(const float* buffer, int pack, int /*num_packs*/, float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = static_cast<const volatile float*>(buffer)[pack * N + i];
  }
};

/// This is the same layout, with a plain loop. On paper, its accesses have bank conflicts. But nvcc merges
/// them into wider accesses, as the generated code shows.
struct InterleavedLayout {
  template <int N>
  static __device__ void write(float* buffer, int pack, int /*num_packs*/, const float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) buffer[pack * N + i] = values[i];
  }
  template <int N>
  static __device__ void read(const float* buffer, int pack, int /*num_packs*/, float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = buffer[pack * N + i];
  }
};

/// [pack_size][num_packs]: in each access neighbouring lanes touch neighbouring words, all 32 banks once.
struct TransposedLayout {
  template <int N>
  static __device__ void write(float* buffer, int pack, int num_packs, const float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) buffer[i * num_packs + pack] = values[i];
  }
  template <int N>
  static __device__ void read(const float* buffer, int pack, int num_packs, float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = buffer[i * num_packs + pack];
  }
};

/// [pack_size / 4][num_packs][4]: 16 bytes per access, neighbouring lanes in neighbouring 16-byte words. The
/// hardware serves such an access a quarter of a warp at a time, each quarter touching all 32 banks once.
struct VectorLayout {
  template <int N>
  static constexpr int words = N < 4 ? N : 4;

  template <int N>
  static __device__ void write(float* buffer, int pack, int num_packs, const float (&values)[N]) {
    using Vector = WordOf<words<N> * sizeof(float)>;
#pragma unroll
    for (int i = 0; i < N / words<N>; ++i) {
      reinterpret_cast<Vector*>(buffer)[i * num_packs + pack] =
          reinterpret_cast<const Vector&>(values[i * words<N>]);
    }
  }
  template <int N>
  static __device__ void read(const float* buffer, int pack, int num_packs, float (&values)[N]) {
    using Vector = WordOf<words<N> * sizeof(float)>;
#pragma unroll
    for (int i = 0; i < N / words<N>; ++i) {
      reinterpret_cast<Vector&>(values[i * words<N>]) =
          reinterpret_cast<const Vector*>(buffer)[i * num_packs + pack];
    }
  }
};

// ---- The kernel. Each thread touches only its own packs of the buffer, in all three steps, so the only
// barriers are those of the two block reductions.
constexpr int packs_in_flight = 4;  // per thread

template <class Op, int pack_size, class Layout, class Load, class Store>
__global__ void shared_memory_softmax(Load load, Store store, Shape shape) {
  // It holds one row. The third parameter of the launch, after the grid and the block, is its size in bytes.
  extern __shared__ __align__(16) float buffer[];
  __shared__ WarpThenShared::Storage storage;
  const int num_packs = static_cast<int>(shape.cols / pack_size);
  const int first_pack = static_cast<int>(threadIdx.x);
  const int step = static_cast<int>(blockDim.x);

  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    // Several loads are in flight before the first is used.
    float max = MaxOp::identity;
    for (int pack = first_pack; pack < num_packs; pack += packs_in_flight * step) {
      Fetched<Load, pack_size> fetched[packs_in_flight] = {};
#pragma unroll
      for (int i = 0; i < packs_in_flight; ++i) {
        const int next = pack + i * step;
        if (next < num_packs)
          fetched[i] = load.template fetch<pack_size>(row, std::int64_t{next} * pack_size);
      }
#pragma unroll
      for (int i = 0; i < packs_in_flight; ++i) {
        if (pack + i * step >= num_packs) break;
        float values[pack_size];
        load.template unpack<pack_size>(fetched[i], values);
        Layout::template write<pack_size>(buffer, pack + i * step, num_packs, values);
#pragma unroll
        for (const float value : values) max = fmaxf(max, value);
      }
    }
    max = WarpThenShared::all_reduce<MaxOp>(max, storage);

    float sum = 0;
    for (int pack = first_pack; pack < num_packs; pack += step) {
      float values[pack_size];
      Layout::template read<pack_size>(buffer, pack, num_packs, values);
#pragma unroll
      for (float& value : values) {
        value = Op::kept(value, max);
        sum += Op::summand(value);
      }
      Layout::template write<pack_size>(buffer, pack, num_packs, values);
    }
    const RowResult<Op> result(max, WarpThenShared::all_reduce<SumOp>(sum, storage));

    for (int pack = first_pack; pack < num_packs; pack += step) {
      float values[pack_size];
      Layout::template read<pack_size>(buffer, pack, num_packs, values);
#pragma unroll
      for (float& value : values) value = result.finish(value);
      store.template store<pack_size>(values, row, std::int64_t{pack} * pack_size);
    }
  }
}

/// Bytes of dynamic shared memory for one row.
inline std::int64_t row_buffer_bytes(std::int64_t cols) {
  return cols * static_cast<std::int64_t>(sizeof(float));
}

/// The most columns of a row that fits in the shared memory that a block may request.
inline std::int64_t max_shared_memory_cols(std::size_t shared_bytes_per_block) {
  return static_cast<std::int64_t>((shared_bytes_per_block - sizeof(WarpThenShared::Storage)) /
                                   sizeof(float));
}

template <class Op, int pack_size, class Layout, class Load, class Store>
void launch_with_packs(Load load, Store store, Shape shape, cudaStream_t stream) {
  const auto kernel = shared_memory_softmax<Op, pack_size, Layout, Load, Store>;
  const auto shared_bytes = static_cast<int>(row_buffer_bytes(shape.cols));
  // Above 48 KiB a kernel needs this permission; below, the call changes nothing.
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));

  // Shared memory limits the number of rows per SM. Among the block sizes that reach that number take the
  // largest: the more threads, the more loads in flight. (OneFlow's rule.)
  const auto blocks_per_sm = [&](int block_size) {
    int blocks = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, block_size, shared_bytes));
    return blocks;
  };
  int block_size = 128;
  const int most_blocks = blocks_per_sm(block_size);
  for (const int larger : {256, 512, 1024}) {
    if (blocks_per_sm(larger) == most_blocks) block_size = larger;
  }
  kernel<<<grid_for(shape.rows), block_size, shared_bytes, stream>>>(load, store, shape);
  CUDA_CHECK(cudaGetLastError());
}

/// Softmax (or log-softmax) of each row, read through `load` and written through `store`; rows = 0 does
/// nothing. cols <= max_shared_memory_cols(). If packs do not cover the rows, it takes single elements.
template <class Layout>
struct SharedMemorySoftmax {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    return at_most_columns(max_shared_memory_cols(static_cast<std::size_t>(gpu.shared_bytes)), matrix,
                           Why::shared_memory_as_float);
  }
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_widest_packs(load, store, [&]<int pack_size>() {
      launch_with_packs<Op, pack_size, Layout>(load, store, shape, stream);
    });
  }
};
