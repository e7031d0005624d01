// The launches of the kernels that the table names.
#pragma once

#include "common/kernel/tensors.h"
#include "common/rowwise/dispatch/kernels.h"

namespace rowwise {

// What a kernel `can_do`, with a workspace of what it `need`s. Compiled for float, __half and __nv_bfloat16. They throw CudaError.

/// Op: Softmax, LogSoftmax
template <class Op, class T>
void launch(Forward kernel, const Tensors<T>& tensors, cudaStream_t stream);

/// Op: SoftmaxBackward, LogSoftmaxBackward
template <class Op, class T>
void launch(Backward kernel, const Tensors<T>& tensors, cudaStream_t stream);

/// Op: CrossEntropy, SmoothedCrossEntropy
template <class Op, class T>
void launch(Loss kernel, const Tensors<T>& tensors, cudaStream_t stream);

/// Op: WithGradient of these
template <class Op, class T>
void launch(Gradient kernel, const Tensors<T>& tensors, cudaStream_t stream);

}  // namespace rowwise
