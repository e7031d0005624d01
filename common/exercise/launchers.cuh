// The header for the file of an exercise: the launchers that the check calls, and the helpers of the lessons
// so far (CUDA_CHECK, MaxOp, SumOp, grid_for, divide_up). Matrices are float, row-major, in device memory.
#pragma once

#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/reduce_op.cuh"
#include "common/kernel/shape.h"

extern "C" {

/// Softmax of each row of x (rows x cols) into y.
void softmax(const float* x, float* y, Shape shape, cudaStream_t stream);

/// The same where the maximum of each row and its sum of exp(x - max) are known already.
void softmax_from_max_and_sum(const float* x, const float* row_max, const float* row_sum, float* y,
                              Shape shape, cudaStream_t stream);

/// The same for shape.rows rows of a matrix that is too large for one GPU, beginning with row `first_row`.
/// Only these rows are in memory; x and y point to where the matrix's row 0 would be.
void softmax_of_rows(const float* x, float* y, std::int64_t first_row, Shape shape, cudaStream_t stream);

/// The gradient of a softmax whose result was y: of each row, from y and dy into dx.
void softmax_backward(const float* y, const float* dy, float* dx, Shape shape, cudaStream_t stream);

/// The loss of each row of x with its label, and the gradient dx. A label of -100 ignores the row: loss and dx are 0.
void cross_entropy(const float* x, const std::int64_t* labels, float* loss, float* dx, Shape shape,
                   cudaStream_t stream);

/// Attention's softmax of x / 8, in which row r sees columns 0 to r % cols, and y, the softmax after the
/// dropout that the seed determines.
void causal_softmax(const float* x, float* softmax, float* y, std::uint64_t seed, Shape shape,
                    cudaStream_t stream);

/// The primer's: n floats of x into y.
void copy_vector(const float* x, float* y, std::int64_t n, cudaStream_t stream);

/// The primer's: the sum of each row of x (rows x cols) into `sums`, one float for each row.
void sum_rows(const float* x, float* sums, Shape shape, cudaStream_t stream);
}
