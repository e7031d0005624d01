// Stage 01: one kernel per step of softmax, as a framework runs it when nothing is fused.
//
//   row_max[r] = max over the row          reads  x
//   shifted    = x - row_max[r]            reads  x,  writes shifted
//   exps       = exp(shifted)              reads  shifted, writes exps
//   row_sum[r] = sum over the row          reads  exps
//   y          = exps / row_sum[r]         reads  exps, writes y
//
// Eight passes over the data where two would do. Two ways to write the reductions, steps 1 and 4: with one
// thread per row, and with one block per row. The same five steps as Thrust calls: thrust_calls.cuh.
// Source: the five steps are those of OneFlow's article on its softmax kernel.
#pragma once

#include <cub/block/block_reduce.cuh>

#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/reduce_op.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"

/// Values between the steps stay float: near 16, f16 numbers are 1/64 apart, so rounding x - max is off by up
/// to 1/128, and would change its exponential by up to 0.8 percent.
struct NaiveWorkspace {
  float* shifted;  // rows x cols
  float* exps;     // rows x cols
  float* row_max;  // rows
  float* row_sum;  // rows

  NaiveWorkspace(void* memory, Shape shape)
      : shifted(static_cast<float*>(memory)),
        exps(shifted + shape.elements()),
        row_max(exps + shape.elements()),
        row_sum(row_max + shape.rows) {}
  static std::size_t bytes(Shape shape) { return sizeof(float) * 2 * (shape.elements() + shape.rows); }
};

constexpr int naive_block_size = 128;

// ---- Steps 1 and 4, one thread per row: neighbouring threads read addresses a whole row apart, so each load
// of a warp touches 32 sectors of 32 bytes to use 4 bytes of each.
template <class ReduceOp, class T>
__global__ void reduce_thread_per_row(const T* __restrict__ in, float* __restrict__ result, Shape shape) {
  const std::int64_t row = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (row >= shape.rows) return;
  float value = ReduceOp::identity;
  // In chunks: a float sum of 100 000 terms, one after the other, was off by 2 parts in 1000.
  constexpr std::int64_t chunk_cols = 256;
  for (std::int64_t chunk = 0; chunk < shape.cols; chunk += chunk_cols) {
    float chunk_value = ReduceOp::identity;
    for (std::int64_t col = chunk; col < min(chunk + chunk_cols, shape.cols); ++col) {
      chunk_value = ReduceOp{}(chunk_value, static_cast<float>(in[row * shape.cols + col]));
    }
    value = ReduceOp{}(value, chunk_value);
  }
  result[row] = value;
}

// ---- Steps 1 and 4, one block per row: neighbouring threads read neighbouring addresses, 4 sectors of a
// load all used. How a block reduces is the subject of stage 02; here CUB does it.
template <class ReduceOp, class T>
__global__ void __launch_bounds__(naive_block_size)
    reduce_block_per_row(const T* __restrict__ in, float* __restrict__ result, Shape shape) {
  using BlockReduce = cub::BlockReduce<float, naive_block_size>;
  __shared__ typename BlockReduce::TempStorage storage;
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    float value = ReduceOp::identity;
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += naive_block_size) {
      value = ReduceOp{}(value, static_cast<float>(in[row * shape.cols + col]));
    }
    value = BlockReduce(storage).Reduce(value, ReduceOp{});
    if (threadIdx.x == 0) result[row] = value;
    __syncthreads();  // the storage is used again for the next row
  }
}

// ---- Steps 2, 3 and 5: one block walks along one row.
template <class T>
__global__ void __launch_bounds__(naive_block_size)
    broadcast_subtract(const T* __restrict__ x, const float* __restrict__ row_max,
                       float* __restrict__ shifted, Shape shape) {
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const float max = row_max[row];
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += naive_block_size) {
      shifted[row * shape.cols + col] = static_cast<float>(x[row * shape.cols + col]) - max;
    }
  }
}

__global__ void __launch_bounds__(naive_block_size)
    exponentiate(const float* __restrict__ shifted, float* __restrict__ exps, Shape shape) {
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += naive_block_size) {
      exps[row * shape.cols + col] = expf(shifted[row * shape.cols + col]);
    }
  }
}

/// An IEEE division is about ten instructions with a branch; a multiplication by a reciprocal is one.
enum class Division { per_element, per_row };

template <Division division, class T>
__global__ void __launch_bounds__(naive_block_size)
    broadcast_divide(const float* __restrict__ exps, const float* __restrict__ row_sum, T* __restrict__ y,
                     Shape shape) {
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const float sum = row_sum[row];
    const float reciprocal = 1.0f / sum;
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += naive_block_size) {
      const float exp = exps[row * shape.cols + col];
      y[row * shape.cols + col] =
          static_cast<T>(division == Division::per_element ? exp / sum : exp * reciprocal);
    }
  }
}

enum class NaiveReduction { thread_per_row, block_per_row };

template <NaiveReduction reduction, class ReduceOp, class T>
void launch_reduce_rows(const T* in, float* result, Shape shape, cudaStream_t stream) {
  if constexpr (reduction == NaiveReduction::thread_per_row) {
    constexpr int block_size = 64;  // small: there are only `rows` threads, and every SM should get some
    reduce_thread_per_row<ReduceOp>
        <<<grid_for(divide_up(shape.rows, block_size)), block_size, 0, stream>>>(in, result, shape);
  } else {
    reduce_block_per_row<ReduceOp><<<grid_for(shape.rows), naive_block_size, 0, stream>>>(in, result, shape);
  }
  CUDA_CHECK(cudaGetLastError());
}

/// Softmax of each row of x (rows x cols, row-major) into y, in five kernels. Throws CudaError.
template <NaiveReduction reduction, Division division>
struct FiveKernels {
  using Operations = OpList<Softmax>;
  static Need needs(const Matrix& matrix) {
    return {.workspace_bytes = NaiveWorkspace::bytes(matrix.shape())};
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const auto [shifted, exps, row_max, row_sum] = NaiveWorkspace(tensors.workspace, tensors.shape);
    const unsigned grid = grid_for(tensors.shape.rows);
    launch_reduce_rows<reduction, MaxOp>(tensors.x, row_max, tensors.shape, stream);
    broadcast_subtract<<<grid, naive_block_size, 0, stream>>>(tensors.x, row_max, shifted, tensors.shape);
    CUDA_CHECK(cudaGetLastError());
    exponentiate<<<grid, naive_block_size, 0, stream>>>(shifted, exps, tensors.shape);
    CUDA_CHECK(cudaGetLastError());
    launch_reduce_rows<reduction, SumOp>(exps, row_sum, tensors.shape, stream);
    broadcast_divide<division>
        <<<grid, naive_block_size, 0, stream>>>(exps, row_sum, tensors.y, tensors.shape);
    CUDA_CHECK(cudaGetLastError());
  }
};
