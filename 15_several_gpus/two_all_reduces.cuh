// The usual code in PyTorch, with which the lesson starts: the maximum of each row, an all-reduce, the sum of
// the exponentials, an all-reduce, the result. An all-reduce combines a number of each GPU, here by the
// maximum or the sum, and gives all GPUs the result. The kernels have nothing new.
//
// Cost: 4 passes, 3 reads and 1 write (the loss 2 reads), and twice 4 bytes per row and GPU. Each all-reduce
// waits for the slowest GPU.
#pragma once

#include "05_uncached/uncached.cuh"
#include "15_several_gpus/part.cuh"
#include "15_several_gpus/ranks.h"
#include "common/kernel/block_merge.cuh"

/// Step 1. maxima: one per row of the part.
template <class T, int pack_size>
__global__ void __launch_bounds__(1024) max_of_part(Part<T> part, DirectLoad<T> load, float* maxima) {
  __shared__ WarpThenShared::Storage storage;
  for (std::int64_t row = blockIdx.x; row < part.shape.rows; row += gridDim.x) {
    float max = MaxOp::identity;
    const auto update_max = [&](const float(&values)[pack_size], std::int64_t) {
#pragma unroll
      for (const float value : values) max = fmaxf(max, value);
    };
    for_each_pack<pack_size>(load, row, part.shape.cols, update_max);
    max = WarpThenShared::all_reduce<MaxOp>(max, storage);
    if (threadIdx.x == 0) maxima[row] = max;
  }
}

/// Step 2, after the first all-reduce: maxima are those of whole rows. sums: the sums of the part's
/// exponentials. For the loss, x[label] of each row comes after them, so that one all-reduce adds up both.
template <class Op, class T, int pack_size>
__global__ void __launch_bounds__(1024)
    sum_of_part(Part<T> part, DirectLoad<T> load, const float* maxima, float* sums) {
  __shared__ WarpThenShared::Storage storage;
  const auto [rows, cols] = part.shape;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float max = maxima[row];
    float sum = 0;
    const auto add_to_sum = [&](const float(&values)[pack_size], std::int64_t) {
#pragma unroll
      for (const float value : values) sum += __expf(value - max);
    };
    for_each_pack<pack_size>(load, row, cols, add_to_sum);
    sum = WarpThenShared::all_reduce<SumOp>(sum, storage);
    if (threadIdx.x > 0) continue;
    sums[row] = sum;
    if constexpr (is_loss<Op>) sums[rows + row] = part.at_label(row, 0, cols);
  }
}

/// Step 3, after the second all-reduce: maxima and sums are those of whole rows.
template <class Op, class T, int pack_size>
__global__ void __launch_bounds__(1024) write_part(Part<T> part, DirectLoad<T> load, DirectStore<T> store,
                                                   const float* maxima, const float* sums) {
  for (std::int64_t row = blockIdx.x; row < part.shape.rows; row += gridDim.x) {
    const auto write_result = [&, result = RowResult<Op>(maxima[row], sums[row])](float(&values)[pack_size],
                                                                                  std::int64_t col) {
#pragma unroll
      for (float& value : values) value = result(value);
      store.template store<pack_size>(values, row, col);
    };
    for_each_pack<pack_size>(load, row, part.shape.cols, write_result);
  }
}

/// Step 3 for the loss: one thread per row.
template <class T>
__global__ void write_losses(Part<T> part, const float* maxima, const float* sums) {
  const std::int64_t rows = part.shape.rows;
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; row < rows; row += threads) {
    part.write_loss(row, {maxima[row], sums[row]}, sums[rows + row]);
  }
}

/// rows = 0 does nothing. workspaces: one per rank of this process, of workspace_bytes().
struct TwoAllReduces {
  static std::size_t workspace_bytes(std::int64_t rows) {
    return 3 * static_cast<std::size_t>(rows) * sizeof(float);
  }

  template <class Op, class T>
  static void launch(const std::vector<Rank>& ranks, const std::vector<Part<T>>& parts,
                     const std::vector<void*>& workspaces, const Streams& streams) {
    const std::int64_t rows = parts.front().shape.rows;
    if (rows == 0) return;
    const auto maxima = [&](std::size_t i) { return static_cast<float*>(workspaces[i]); };
    const auto sums = [&](std::size_t i) { return maxima(i) + rows; };
    // Launches a kernel on each GPU. launch<pack_size>() gets the part, the number of threads, the index of
    // the rank and the stream.
    const auto on_each_part = [&](auto launch) {
      on_each(ranks, [&](const Rank&, std::size_t i) {
        const Part<T>& part = parts[i];
        const auto with_packs = [&]<int pack_size>() {
          const unsigned threads = std::max(block_size_for<pack_size>(part.shape.cols, 1024), 32U);
          launch.template operator()<pack_size>(part, threads, i, streams[static_cast<int>(i)]);
          CUDA_CHECK(cudaGetLastError());
        };
        if constexpr (is_loss<Op>) {
          with_widest_packs(part.load(), part.load(), with_packs);
        } else {
          with_widest_packs(part.load(), part.store(), with_packs);
        }
      });
    };
    const auto all_reduce = [&](auto memory, std::int64_t count, ncclRedOp_t operation) {
      as_group(ranks, [&](const Rank& rank, std::size_t i) {
        check_nccl(ncclAllReduce(memory(i), memory(i), static_cast<std::size_t>(count), ncclFloat, operation,
                                 rank.comm.get(), streams[static_cast<int>(i)]),
                   "ncclAllReduce");
      });
    };
    const unsigned blocks = grid_for(rows);
    on_each_part(
        [&]<int pack_size>(const Part<T>& part, unsigned threads, std::size_t i, cudaStream_t stream) {
          max_of_part<T, pack_size><<<blocks, threads, 0, stream>>>(part, part.load(), maxima(i));
        });
    all_reduce(maxima, rows, ncclMax);
    on_each_part([&]<int pack_size>(const Part<T>& part, unsigned threads, std::size_t i,
                                    cudaStream_t stream) {
      sum_of_part<Op, T, pack_size><<<blocks, threads, 0, stream>>>(part, part.load(), maxima(i), sums(i));
    });
    all_reduce(sums, is_loss<Op> ? 2 * rows : rows, ncclSum);
    on_each_part(
        [&]<int pack_size>(const Part<T>& part, unsigned threads, std::size_t i, cudaStream_t stream) {
          if constexpr (is_loss<Op>) {
            write_losses<T><<<grid_for(divide_up(rows, 256)), 256, 0, stream>>>(part, maxima(i), sums(i));
          } else {
            write_part<Op, T, pack_size>
                <<<blocks, threads, 0, stream>>>(part, part.load(), part.store(), maxima(i), sums(i));
          }
        });
  }
};
