// The launches of the kernels that the table names.
#pragma once

#include "common/kernel/row_gradient.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/tensors.h"
#include "common/rowwise/dispatch/kernels.h"
#include "common/rowwise/kernels/loss/row_loss.cuh"

namespace rowwise {

// The operations of each kind of kernel.
SoftmaxOperations operations_of(Forward);
BackwardOperations operations_of(Backward);
Losses operations_of(Loss);
LossesWithGradient operations_of(Gradient);
template <class Kernel>
using OperationsOf = decltype(operations_of(Kernel{}));

// Launches a kernel on a matrix that it `can_do`, with the workspace that it `need`s. Compiled for its
// operations and for float, __half and __nv_bfloat16. They throw CudaError. The C interface has no smoothed
// labels, so the kernels for them are compiled only if ROWWISE_SMOOTHED_LABELS is defined: for the course.
template <class Op, class Kernel, class T>
void launch(Kernel kernel, const Tensors<T>& tensors, cudaStream_t stream);

}  // namespace rowwise
