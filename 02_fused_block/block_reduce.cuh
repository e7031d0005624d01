// Two ways in which the threads of a block combine one float each, so that every thread gets the result. A
// third way, with CUB, is in cub_block_reduce.cuh.
//
// All have the same interface: Storage is the shared memory that it needs. All threads of the block call
// all_reduce<ReduceOp>(value, storage), and may call it again immediately: between the last read of a word of
// the storage and the next write to it, all threads go through a barrier.
#pragma once

#include "common/kernel/reduce_op.cuh"

/// Halve the number of values until one is left: log2(block size) steps with a barrier each.
/// block_size: the number of threads, a power of two.
template <int block_size>
struct SharedMemoryTree {
  static_assert((block_size & (block_size - 1)) == 0, "the tree halves the block in each step");
  struct Storage {
    float values[block_size];
  };

  template <class ReduceOp>
  static __device__ float all_reduce(float value, Storage& storage) {
    storage.values[threadIdx.x] = value;
    __syncthreads();
#pragma unroll
    for (int stride = block_size / 2; stride > 0; stride /= 2) {
      if (threadIdx.x < stride) {
        storage.values[threadIdx.x] =
            ReduceOp{}(storage.values[threadIdx.x], storage.values[threadIdx.x + stride]);
      }
      __syncthreads();
    }
    const float result = storage.values[0];
    __syncthreads();  // the next call begins by writing to values
    return result;
  }
};

/// Warps reduce in registers, then one warp reduces the warps' results, with two barriers.
/// Right for any block size from 1 to 1024, also if the last warp is not full (112 = 3 warps and a
/// half): a lane combines only with lanes that exist. The idea is that of FasterTransformer's blockReduce.
struct WarpThenShared {
  static constexpr int warp_size = 32;
  struct Storage {
    float warp_results[warp_size];
    float result;
  };

  /// Combines the lanes 0 .. num_lanes - 1; lane 0 gets the result. All those lanes call it together.
  template <class ReduceOp>
  static __device__ float warp_reduce(float value, int lane, int num_lanes) {
    const unsigned lanes = num_lanes == warp_size ? 0xffffffffu : (1u << num_lanes) - 1;
#pragma unroll
    for (int distance = warp_size / 2; distance > 0; distance /= 2) {
      const float other = __shfl_down_sync(lanes, value, distance);
      if (lane + distance < num_lanes) value = ReduceOp{}(value, other);
    }
    return value;
  }

  template <class ReduceOp>
  static __device__ float all_reduce(float value, Storage& storage) {
    const int block_size = static_cast<int>(blockDim.x);
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    const int warp = static_cast<int>(threadIdx.x) / warp_size;
    const int num_warps = (block_size + warp_size - 1) / warp_size;
    const int lanes_in_warp = min(warp_size, block_size - warp * warp_size);

    value = warp_reduce<ReduceOp>(value, lane, lanes_in_warp);
    if (lane == 0) storage.warp_results[warp] = value;
    __syncthreads();
    if (warp == 0 && lane < num_warps) {  // a block of w warps has at least w lanes in its first
      value = warp_reduce<ReduceOp>(storage.warp_results[lane], lane, num_warps);
      if (lane == 0) storage.result = value;
    }
    __syncthreads();
    return storage.result;
  }
};
