// Stage 02: one kernel instead of five, one block per row. Values between the steps now stay in registers.
//
// Cost: 4 passes, because the row is read three times (for the maximum, for the sum, for the result) and
// written once. Three ways to reduce over a block (block_reduce.cuh, cub_block_reduce.cuh), and
// FasterTransformer's two launch shapes with one thread per column, which read the row once but work on one
// element per thread. Sources: FasterTransformer's masked softmax kernels, AITemplate's block softmax.
#pragma once

#include "02_fused_block/block_reduce.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"

/// BlockReduce: one of block_reduce.cuh, or CubBlockReduce. The block size is free if it allows that.
template <class BlockReduce, class Op, class T>
__global__ void one_kernel_softmax(const T* __restrict__ x, T* __restrict__ y, Shape shape) {
  __shared__ typename BlockReduce::Storage storage;
  const auto [rows, cols] = shape;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* row_x = x + row * cols;

    float max = MaxOp::identity;
    for (std::int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
      max = fmaxf(max, static_cast<float>(row_x[col]));
    }
    max = BlockReduce::template all_reduce<MaxOp>(max, storage);

    float sum = 0;
    for (std::int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
      sum += __expf(static_cast<float>(row_x[col]) - max);
    }
    sum = BlockReduce::template all_reduce<SumOp>(sum, storage);

    const RowResult<Op> result(max, sum);
    for (std::int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
      y[row * cols + col] = static_cast<T>(result(static_cast<float>(row_x[col])));
    }
  }
}

/// Softmax (or log-softmax) of each row of x (rows x cols, row-major) into y. Throws CudaError.
template <class BlockReduce, int block_size>
struct OneKernelSoftmax {
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    one_kernel_softmax<BlockReduce, Op>
        <<<grid_for(tensors.shape.rows), block_size, 0, stream>>>(tensors.x, tensors.y, tensors.shape);
    CUDA_CHECK(cudaGetLastError());
  }
};

// ---- FasterTransformer: a thread per column keeps its element in a register between the steps.
constexpr std::int64_t max_thread_per_column_cols = 1024;  // threads in a block

template <class Op, class T>
__global__ void thread_per_column_softmax(const T* __restrict__ x, T* __restrict__ y, Shape shape,
                                          std::int64_t rows_per_block) {
  __shared__ WarpThenShared::Storage storage;
  const auto [rows, cols] = shape;
  const bool has_column = threadIdx.x < cols;
  const std::int64_t first_row = blockIdx.x * rows_per_block;
  const std::int64_t end_row = min(first_row + rows_per_block, rows);
  for (std::int64_t row = first_row; row < end_row; ++row) {
    const std::int64_t index = row * cols + threadIdx.x;
    const float value = has_column ? static_cast<float>(x[index]) : MaxOp::identity;
    const float max = WarpThenShared::all_reduce<MaxOp>(value, storage);
    // A thread without a column adds 0, even if the maximum is -inf and exp(-inf - -inf) would be NaN.
    const float sum = WarpThenShared::all_reduce<SumOp>(has_column ? __expf(value - max) : 0.0f, storage);
    if (has_column) y[index] = static_cast<T>(RowResult<Op>(max, sum)(value));
  }
}

/// The two shapes in which FasterTransformer launches it on attention scores, a matrix of
/// (batch * heads * cols) x cols: a block for each head looping over that head's rows, or a block for each
/// row.
enum class LaunchShape { block_per_head, block_per_row };

/// This launcher does the same for rows of up to max_thread_per_column_cols columns, with a thread per column.
template <LaunchShape launch_shape>
struct ThreadPerColumn {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return at_most_columns(max_thread_per_column_cols, matrix, Why::threads_of_block);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const auto block_size = static_cast<unsigned>(round_up(tensors.shape.cols, 32));
    const std::int64_t rows_of_shape = launch_shape == LaunchShape::block_per_head ? tensors.shape.cols : 1;
    // More rows if there would be more blocks than a grid can have.
    const std::int64_t rows_per_block = max(rows_of_shape, divide_up(tensors.shape.rows, max_grid_blocks));
    const unsigned grid = grid_for(divide_up(tensors.shape.rows, rows_per_block));
    thread_per_column_softmax<Op>
        <<<grid, block_size, 0, stream>>>(tensors.x, tensors.y, tensors.shape, rows_per_block);
    CUDA_CHECK(cudaGetLastError());
  }
};
