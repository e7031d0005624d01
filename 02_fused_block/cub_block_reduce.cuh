// How CUB combines one float of each thread of a block, with the interface of block_reduce.cuh. This is a
// file of its own because the later stages do without CUB, whose headers take seconds to compile.
#pragma once

#include <cub/block/block_reduce.cuh>

/// The library's: the reader's own code should not be slower than this. block_size: the number of threads.
template <int block_size>
struct CubBlockReduce {
  static_assert(block_size > 32, "a block of one warp has no barrier inside Reduce, see below");
  using Reduce = cub::BlockReduce<float, block_size>;
  struct Storage {
    typename Reduce::TempStorage temp;
    float result;
  };

  template <class ReduceOp>
  static __device__ float all_reduce(float value, Storage& storage) {
    value = Reduce(storage.temp).Reduce(value, ReduceOp{});
    if (threadIdx.x == 0) storage.result = value;
    __syncthreads();        // also allows CUB to use temp again
    return storage.result;  // written again only after a barrier inside the next call's Reduce
  }
};
