// The C interface: each function checks its arguments, asks the table for a kernel and launches it.
#include <array>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "common/kernel/cuda_check.h"
#include "common/kernel/row_gradient.cuh"
#include "common/rowwise/dispatch/choice.h"
#include "common/rowwise/dispatch/launch.cuh"
#include "common/rowwise/include/rowwise/softmax_c.h"
#include "common/rowwise/kernels/loss/row_loss.cuh"

namespace rowwise {

namespace {

constexpr std::int64_t most_cols_with_labels = std::int64_t{1} << 30;
constexpr std::size_t workspace_alignment = 16;

struct Workspace {
  void* data;
  std::size_t bytes;
};

thread_local std::string last_error;

/// Calls function(T*{}) with the type of the elements; an exception becomes a code and rowwise_error().
template <class Function>
int guarded(rowwise_dtype dtype, Function function) {
  try {
    switch (dtype) {
      case ROWWISE_F32:
        function(static_cast<float*>(nullptr));
        return ROWWISE_OK;
      case ROWWISE_F16:
        function(static_cast<__half*>(nullptr));
        return ROWWISE_OK;
      case ROWWISE_BF16:
        function(static_cast<__nv_bfloat16*>(nullptr));
        return ROWWISE_OK;
    }
    throw std::invalid_argument("dtype: " + std::to_string(static_cast<int>(dtype)) + " is none");
  } catch (const std::invalid_argument& error) {
    last_error = error.what();
    return ROWWISE_BAD_ARGUMENT;
  } catch (const std::exception& error) {
    last_error = error.what();
    return ROWWISE_CUDA_ERROR;
  }
}

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

/// An argument that points to device memory.
struct Argument {
  const char* name;
  const void* data;
  std::size_t bytes;
  std::size_t alignment;
  bool is_written = false;
  bool is_matrix = false;
  bool may_be_replaced = false;  ///< the output may be here
  [[nodiscard]] const char* begin() const { return static_cast<const char*>(data); }
};

template <class T>
Argument matrix(const char* name, const T* data, Shape shape, bool is_written = false) {
  return {name,      data,       static_cast<std::size_t>(shape.rows * shape.cols) * sizeof(T),
          sizeof(T), is_written, true};
}
/// One that may be replaced: each element is read last by the thread that writes there.
template <class T>
Argument replaceable(const char* name, const T* data, Shape shape) {
  Argument argument = matrix(name, data, shape);
  argument.may_be_replaced = true;
  return argument;
}
template <class T>
Argument column(const char* name, const T* data, Shape shape, bool is_written = false) {
  return {name, data, static_cast<std::size_t>(shape.rows) * sizeof(T), sizeof(T), is_written};
}

void check_memory(const Argument& argument, int current_device) {
  const std::string name = argument.name;
  if (argument.data == nullptr) refuse(name + " is null");
  if (reinterpret_cast<std::uintptr_t>(argument.data) % argument.alignment != 0) {
    refuse(name + " is not aligned to " + std::to_string(argument.alignment) + " bytes");
  }
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, argument.data));
  if (attributes.type == cudaMemoryTypeManaged) return;
  if (attributes.type != cudaMemoryTypeDevice) refuse(name + " is not in device memory");
  if (attributes.device != current_device) {
    refuse(name + " is on device " + std::to_string(attributes.device) + ", and device " +
           std::to_string(current_device) + " is current");
  }
}

/// Whether an argument that is written overlaps another argument.
bool is_in_the_way(const Argument& written, const Argument& other) {
  // The ends are not compared: an end may be beyond the last address.
  const auto lies_before = [](const Argument& one, const Argument& next) {
    return one.begin() <= next.begin() && static_cast<std::size_t>(next.begin() - one.begin()) >= one.bytes;
  };
  const bool apart = lies_before(written, other) || lies_before(other, written);
  const bool in_place = written.data == other.data && written.is_matrix && other.may_be_replaced;
  return !apart && !in_place;
}

void check_shape(Shape shape, std::size_t element_bytes) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  if (shape.rows < 0 || shape.cols < 0) {
    refuse("rows and cols must not be negative: " + text(shape.rows) + " x " + text(shape.cols));
  }
  const std::int64_t most_elements = any / static_cast<std::int64_t>(element_bytes);
  if (shape.cols > 0 && shape.rows > most_elements / shape.cols) {
    refuse(text(shape.rows) + " x " + text(shape.cols) + " elements are more than there are addresses");
  }
}

template <class T>
void check_labelled_shape(Shape shape) {
  check_shape(shape, sizeof(T));
  if (shape.rows > 0 && (shape.cols < 1 || shape.cols > most_cols_with_labels)) {
    refuse("cross-entropy: 1 to 2^30 columns, not " + std::to_string(shape.cols));
  }
}

/// The bytes that a caller has to provide, whatever their alignment.
template <class Kernel>
std::size_t most_bytes(Shape shape, std::size_t element_bytes) {
  std::size_t most = 0;
  const auto size = static_cast<std::int64_t>(element_bytes);
  for (const std::int64_t alignment : {size, std::int64_t{16}}) {
    const Matrix matrix{.rows = shape.rows,
                        .cols = shape.cols,
                        .element_bytes = size,
                        .alignment = alignment,
                        .lie_alike = alignment == 16};
    most = std::max(most, need(choose<Kernel>(matrix, current_gpu(), true), matrix).workspace_bytes);
  }
  return most;
}

/// Checks everything, and calls launch_kernel(kernel) with the kernel that the table names.
template <class Kernel, class T, std::size_t count, class Launch>
void run(std::array<Argument, count> arguments, Shape shape, Workspace workspace, cudaStream_t stream,
         Launch launch_kernel) {
  if (shape.rows == 0 || shape.cols == 0) return;
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  for (const Argument& argument : arguments) check_memory(argument, device);
  const Argument scratch{"workspace", workspace.data, workspace.bytes, workspace_alignment, true};
  if (workspace.bytes > 0) check_memory(scratch, device);
  for (const Argument& written : arguments) {
    for (const Argument& other : arguments) {
      if (written.is_written && &written != &other && is_in_the_way(written, other)) {
        refuse(std::string(written.name) + " overlaps " + other.name);
      }
    }
    if (workspace.bytes > 0 && is_in_the_way(scratch, written)) {
      refuse(std::string("workspace overlaps ") + written.name);
    }
  }

  Matrix matrix{
      .rows = shape.rows, .cols = shape.cols, .element_bytes = sizeof(T), .alignment = 16, .lie_alike = true};
  std::optional<std::uintptr_t> past_pack;
  for (const Argument& argument : arguments) {
    if (!argument.is_matrix) continue;
    const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(argument.data) % 16;
    if (past != 0) matrix.alignment = std::min(matrix.alignment, static_cast<std::int64_t>(past & -past));
    matrix.lie_alike = matrix.lie_alike && past == past_pack.value_or(past);
    past_pack = past;
  }
  const bool has_workspace = workspace.bytes > 0;
  const Kernel kernel = choose<Kernel>(matrix, current_gpu(), has_workspace);
  const Need needed = need(kernel, matrix);
  if (needed.workspace_bytes > workspace.bytes) {
    if (!has_workspace) {
      refuse("such rows need a workspace of " + std::to_string(needed.workspace_bytes) + " bytes");
    }
    refuse("workspace: " + std::to_string(workspace.bytes) + " bytes are too few; workspace_bytes() says " +
           std::to_string(most_bytes<Kernel>(shape, sizeof(T))));
  }
  (void)cudaGetLastError();  // of an earlier call, and would be taken for the launch's
  launch_kernel(kernel);
  if (needed.workspace_bytes > 0 && !needed.zeroed) {
    CUDA_CHECK(cudaMemsetAsync(workspace.data, 0, needed.workspace_bytes, stream));
  }
}

template <class T>
std::size_t bytes_for(rowwise_operation operation, Shape shape) {
  const bool has_labels = operation >= ROWWISE_CROSS_ENTROPY;
  has_labels ? check_labelled_shape<T>(shape) : check_shape(shape, sizeof(T));
  if (shape.rows == 0 || shape.cols == 0) return 0;
  if (operation <= ROWWISE_LOG_SOFTMAX) return most_bytes<Forward>(shape, sizeof(T));
  if (!has_labels) return most_bytes<Backward>(shape, sizeof(T));
  return operation > ROWWISE_CROSS_ENTROPY ? most_bytes<Gradient>(shape, sizeof(T))
                                           : most_bytes<Loss>(shape, sizeof(T));
}

template <class Op>
int run_forward(rowwise_dtype dtype, const void* x_data, void* y_data, Shape shape, Workspace workspace,
                void* on_stream) {
  return guarded(dtype, [&]<class T>(T*) {
    const auto x = static_cast<const T*>(x_data);
    const auto y = static_cast<T*>(y_data);
    const auto stream = static_cast<cudaStream_t>(on_stream);
    check_shape(shape, sizeof(T));
    run<Forward, T>(std::array{replaceable("x", x, shape), matrix("y", y, shape, true)}, shape, workspace,
                    stream, [&](Forward kernel) {
                      const Tensors<T> tensors{.x = x, .y = y, .workspace = workspace.data, .shape = shape};
                      launch<Op>(kernel, tensors, stream);
                    });
  });
}

template <class Op>
int run_backward(rowwise_dtype dtype, const void* y_data, const void* dy_data, void* dx_data, Shape shape,
                 Workspace workspace, void* on_stream) {
  return guarded(dtype, [&]<class T>(T*) {
    const Tensors<T> tensors{.y = static_cast<T*>(const_cast<void*>(y_data)),
                             .dy = static_cast<const T*>(dy_data),
                             .dx = static_cast<T*>(dx_data),
                             .workspace = workspace.data,
                             .shape = shape};
    const auto stream = static_cast<cudaStream_t>(on_stream);
    check_shape(shape, sizeof(T));
    run<Backward, T>(std::array{replaceable("y", tensors.y, shape), replaceable("dy", tensors.dy, shape),
                                matrix("dx", tensors.dx, shape, true)},
                     shape, workspace, stream, [&](Backward kernel) { launch<Op>(kernel, tensors, stream); });
  });
}

}  // namespace

}  // namespace rowwise

using namespace rowwise;

const char* rowwise_version(void) {
  return ROWWISE_VERSION;
}

const char* rowwise_error(void) {
  return last_error.c_str();
}

const char* rowwise_table(void) {
  const char* name = nullptr;
  (void)guarded(ROWWISE_F32, [&](auto* /*element*/) { name = name_of_table().c_str(); });
  return name;
}

int rowwise_workspace_bytes(rowwise_operation operation, rowwise_dtype dtype, int64_t rows, int64_t cols,
                            size_t* bytes) {
  return guarded(dtype, [&]<class T>(T*) {
    if (bytes == nullptr) refuse("bytes is null");
    if (operation < ROWWISE_SOFTMAX || operation > ROWWISE_CROSS_ENTROPY_GRADIENT) {
      refuse("operation: " + std::to_string(static_cast<int>(operation)) + " is none");
    }
    *bytes = bytes_for<T>(operation, {rows, cols});
  });
}

int rowwise_softmax(rowwise_dtype dtype, const void* x, void* y, int64_t rows, int64_t cols, void* workspace,
                    size_t workspace_bytes, void* stream) {
  return run_forward<Softmax>(dtype, x, y, {rows, cols}, {workspace, workspace_bytes}, stream);
}

int rowwise_log_softmax(rowwise_dtype dtype, const void* x, void* y, int64_t rows, int64_t cols,
                        void* workspace, size_t workspace_bytes, void* stream) {
  return run_forward<LogSoftmax>(dtype, x, y, {rows, cols}, {workspace, workspace_bytes}, stream);
}

int rowwise_softmax_backward(rowwise_dtype dtype, const void* y, const void* dy, void* dx, int64_t rows,
                             int64_t cols, void* workspace, size_t workspace_bytes, void* stream) {
  return run_backward<SoftmaxBackward>(dtype, y, dy, dx, {rows, cols}, {workspace, workspace_bytes}, stream);
}

int rowwise_log_softmax_backward(rowwise_dtype dtype, const void* y, const void* dy, void* dx, int64_t rows,
                                 int64_t cols, void* workspace, size_t workspace_bytes, void* stream) {
  return run_backward<LogSoftmaxBackward>(dtype, y, dy, dx, {rows, cols}, {workspace, workspace_bytes},
                                          stream);
}

int rowwise_cross_entropy(rowwise_dtype dtype, const void* x, const int64_t* labels, float* loss,
                          int64_t rows, int64_t cols, void* workspace, size_t workspace_bytes, void* stream) {
  return guarded(dtype, [&]<class T>(T*) {
    const Shape shape{rows, cols};
    const Tensors<T> tensors{.x = static_cast<const T*>(x),
                             .labels = labels,
                             .loss = loss,
                             .workspace = workspace,
                             .shape = shape};
    const auto on_stream = static_cast<cudaStream_t>(stream);
    check_labelled_shape<T>(shape);
    run<Loss, T>(std::array{matrix("x", tensors.x, shape), column("labels", labels, shape),
                            column("loss", loss, shape, true)},
                 shape, {workspace, workspace_bytes}, on_stream,
                 [&](Loss kernel) { launch<CrossEntropy>(kernel, tensors, on_stream); });
  });
}

int rowwise_cross_entropy_gradient(rowwise_dtype dtype, const void* x, const int64_t* labels, float* loss,
                                   void* dx, int64_t rows, int64_t cols, void* workspace,
                                   size_t workspace_bytes, void* stream) {
  return guarded(dtype, [&]<class T>(T*) {
    const Shape shape{rows, cols};
    const Tensors<T> tensors{.x = static_cast<const T*>(x),
                             .dx = static_cast<T*>(dx),
                             .labels = labels,
                             .loss = loss,
                             .workspace = workspace,
                             .shape = shape};
    const auto on_stream = static_cast<cudaStream_t>(stream);
    check_labelled_shape<T>(shape);
    run<Gradient, T>(std::array{matrix("x", tensors.x, shape), column("labels", labels, shape),
                                column("loss", loss, shape, true), matrix("dx", tensors.dx, shape, true)},
                     shape, {workspace, workspace_bytes}, on_stream, [&](Gradient kernel) {
                       launch<WithGradient<CrossEntropy>>(kernel, tensors, on_stream);
                     });
  });
}
