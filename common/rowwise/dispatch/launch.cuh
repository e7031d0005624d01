// The launches of the kernels that the table names: one function for each kind of work, which goes to the stage's launcher.
#pragma once

#include "12_fusion/row_loss.cuh"
#include "common/kernel/shape.h"
#include "common/rowwise/dispatch/kernels.h"

namespace rowwise {

// What kernel `can_do`, on device memory, with a workspace of what it `need`s. Compiled for float, __half and __nv_bfloat16.
// They throw CudaError.

/// Op: Softmax, LogSoftmax
template <class Op, class T>
void launch(Forward kernel, const T* x, T* y, void* workspace, Shape shape, cudaStream_t stream);

/// Op: SoftmaxBackward, LogSoftmaxBackward
template <class Op, class T>
void launch(Backward kernel, const T* y, const T* dy, T* dx, void* workspace, Shape shape,
            cudaStream_t stream);

/// Op: CrossEntropy, SmoothedCrossEntropy
template <class Op, class T>
void launch(Loss kernel, const Tensors<T>& tensors, cudaStream_t stream);

/// Op: WithGradient of these
template <class Op, class T>
void launch(Gradient kernel, const Tensors<T>& tensors, cudaStream_t stream);

}  // namespace rowwise
