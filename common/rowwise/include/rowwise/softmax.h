// Softmax, log-softmax, their gradients and cross-entropy of the rows of a matrix, for any program in C++: this header, and the
// library build/libsoftmax.so (cmake --build build --target softmax). softmax_c.h is the same in C.
//
//   rowwise::softmax(x, y, {rows, cols}, stream);
//
// T is float, __half or __nv_bfloat16; all arithmetic is float. Matrices are row-major, in memory of the current device, and begin
// at any element. rows = 0 does nothing. Each call enqueues its kernels on `stream` and returns: it neither allocates nor waits, so
// it can be captured into a CUDA graph. y and dx may be written exactly where x, y or dy lies, but not over the x of a
// cross-entropy, where a label may still be looked up. Otherwise nothing overlaps.
//
// Bad arguments throw std::invalid_argument, and what CUDA refuses std::runtime_error. Then nothing is written.
// What an earlier call has left for cudaGetLastError() is forgotten.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

// Complete with <cuda_fp16.h> and <cuda_bf16.h>.
struct __half;
struct __nv_bfloat16;

namespace rowwise {

struct Extent {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

/// Memory that some kernels need, where blocks share rows or draw them. Without one, kernels are taken that need none; of gradients
/// wider than 2^30 columns there is none, and the call is refused.
/// It is zero before the first call, and every call leaves it so: one workspace, of the most that is asked for, does for all calls
/// on one stream. Its address is a multiple of 16.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

enum class Operation {
  softmax,
  log_softmax,
  softmax_backward,
  log_softmax_backward,
  cross_entropy,
  cross_entropy_gradient
};

/// Bytes of workspace with which the current device is fastest, wherever the matrices begin. 0 for most.
template <class T>
std::size_t workspace_bytes(Operation operation, Extent extent);

/// y = softmax(x), in each row. As torch.softmax: a row with a NaN or +inf is NaN, and so is a row of -inf alone.
template <class T>
void softmax(const T* x, T* y, Extent extent, cudaStream_t stream = nullptr, Workspace workspace = {});
template <class T>
void log_softmax(const T* x, T* y, Extent extent, cudaStream_t stream = nullptr, Workspace workspace = {});

/// dx from dy and from the result y of softmax(x).
template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, Extent extent, cudaStream_t stream = nullptr,
                      Workspace workspace = {});
/// From that of log_softmax(x).
template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, Extent extent, cudaStream_t stream = nullptr,
                          Workspace workspace = {});

/// loss[row] = -log_softmax(x) at labels[row]. A row with the label -100 has loss 0. One with another label that is no column has
/// a loss of NaN. 1 <= cols <= 2^30.
template <class T>
void cross_entropy(const T* x, const std::int64_t* labels, float* loss, Extent extent,
                   cudaStream_t stream = nullptr, Workspace workspace = {});
/// And dx = softmax(x), less 1 at the label: the gradient of each row's own loss. 0 and NaN as the loss.
template <class T>
void cross_entropy_gradient(const T* x, const std::int64_t* labels, float* loss, T* dx, Extent extent,
                            cudaStream_t stream = nullptr, Workspace workspace = {});

}  // namespace rowwise
