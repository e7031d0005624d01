// Softmax, log-softmax, their gradients and cross-entropy of the rows of a matrix, for programs in C++14 or newer. This is a thin
// layer over the functions of softmax_c.h, which are all that the library exports.
//
//   rowwise::softmax(x, y, {rows, cols}, stream);
//
// T is float, __half or __nv_bfloat16; all arithmetic is float. Matrices are row-major, in memory of the current
// device, and begin at any element. rows = 0 does nothing. Each call enqueues its kernels on `stream` and returns: it
// neither allocates nor waits, so it can be captured into a CUDA graph. y and dx may be exactly the memory of x, y or
// dy, but not the x of a cross-entropy, in which a label's column may still be read. Otherwise nothing overlaps.
//
// Bad arguments throw std::invalid_argument, and errors of CUDA throw rowwise::CudaError. Then nothing is
// written. An error that an earlier call has left for cudaGetLastError() is cleared.
#pragma once

#include <cuda_runtime_api.h>
#include <rowwise/softmax_c.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

// Complete with <cuda_fp16.h> and <cuda_bf16.h>.
struct __half;
struct __nv_bfloat16;

namespace rowwise {

struct Extent {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

/// Memory for kernels whose blocks share rows or draw them. Without it, the dispatch uses kernels that need
/// none; for gradients wider than 2^30 columns there is no such kernel, and the call is refused. It must be
/// zero before the first call, and every call leaves it zero: one workspace of the largest size that any call
/// needs suffices for all calls on one stream. Its address is a multiple of 16.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

enum class Operation {
  softmax = ROWWISE_SOFTMAX,
  log_softmax = ROWWISE_LOG_SOFTMAX,
  softmax_backward = ROWWISE_SOFTMAX_BACKWARD,
  log_softmax_backward = ROWWISE_LOG_SOFTMAX_BACKWARD,
  cross_entropy = ROWWISE_CROSS_ENTROPY,
  cross_entropy_gradient = ROWWISE_CROSS_ENTROPY_GRADIENT
};

/// A call of CUDA has failed: there is no usable GPU, the launch is refused, an earlier kernel has crashed. what() is one line.
class CudaError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

template <class T>
struct DType : std::integral_constant<rowwise_dtype, ROWWISE_F32> {
  static_assert(!std::is_same<T, T>::value, "rowwise: elements are float, __half or __nv_bfloat16");
};
template <>
struct DType<float> : std::integral_constant<rowwise_dtype, ROWWISE_F32> {};
template <>
struct DType<__half> : std::integral_constant<rowwise_dtype, ROWWISE_F16> {};
template <>
struct DType<__nv_bfloat16> : std::integral_constant<rowwise_dtype, ROWWISE_BF16> {};

inline void throw_unless_ok(int code) {
  if (code == ROWWISE_BAD_ARGUMENT) throw std::invalid_argument(rowwise_error());
  if (code != ROWWISE_OK) throw CudaError(rowwise_error());
}

}  // namespace detail

/// Bytes of workspace with which the current device is fastest, wherever the matrices begin. 0 for most.
template <class T>
std::size_t workspace_bytes(Operation operation, Extent extent) {
  std::size_t bytes = 0;
  detail::throw_unless_ok(rowwise_workspace_bytes(static_cast<rowwise_operation>(operation),
                                                  detail::DType<T>::value, extent.rows, extent.cols, &bytes));
  return bytes;
}

/// y = softmax(x), in each row. As in torch.softmax, a row with a NaN or +inf is NaN, and so is a row of only -inf.
template <class T>
void softmax(const T* x, T* y, Extent extent, cudaStream_t stream = nullptr, Workspace workspace = {}) {
  detail::throw_unless_ok(rowwise_softmax(detail::DType<T>::value, x, y, extent.rows, extent.cols,
                                          workspace.data, workspace.bytes, stream));
}
template <class T>
void log_softmax(const T* x, T* y, Extent extent, cudaStream_t stream = nullptr, Workspace workspace = {}) {
  detail::throw_unless_ok(rowwise_log_softmax(detail::DType<T>::value, x, y, extent.rows, extent.cols,
                                              workspace.data, workspace.bytes, stream));
}

/// dx from dy and from the result y of softmax(x).
template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, Extent extent, cudaStream_t stream = nullptr,
                      Workspace workspace = {}) {
  detail::throw_unless_ok(rowwise_softmax_backward(detail::DType<T>::value, y, dy, dx, extent.rows,
                                                   extent.cols, workspace.data, workspace.bytes, stream));
}
/// From that of log_softmax(x).
template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, Extent extent, cudaStream_t stream = nullptr,
                          Workspace workspace = {}) {
  detail::throw_unless_ok(rowwise_log_softmax_backward(detail::DType<T>::value, y, dy, dx, extent.rows,
                                                       extent.cols, workspace.data, workspace.bytes, stream));
}

/// loss[row] = -log_softmax(x) at labels[row]. A row with the label -100 has loss 0. A row whose label is out
/// of range for any other reason has a loss of NaN. 1 <= cols <= 2^30.
template <class T>
void cross_entropy(const T* x, const std::int64_t* labels, float* loss, Extent extent,
                   cudaStream_t stream = nullptr, Workspace workspace = {}) {
  detail::throw_unless_ok(rowwise_cross_entropy(detail::DType<T>::value, x, labels, loss, extent.rows,
                                                extent.cols, workspace.data, workspace.bytes, stream));
}
/// And dx = softmax(x), less 1 at the label: the gradient of each row's own loss. 0 and NaN as the loss.
template <class T>
void cross_entropy_gradient(const T* x, const std::int64_t* labels, float* loss, T* dx, Extent extent,
                            cudaStream_t stream = nullptr, Workspace workspace = {}) {
  detail::throw_unless_ok(rowwise_cross_entropy_gradient(detail::DType<T>::value, x, labels, loss, dx,
                                                         extent.rows, extent.cols, workspace.data,
                                                         workspace.bytes, stream));
}

}  // namespace rowwise
