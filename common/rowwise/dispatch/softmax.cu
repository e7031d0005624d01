#include <array>
#include <optional>
#include <stdexcept>
#include <string>

#include "common/kernel/cuda_check.h"
#include "common/kernel/row_gradient.cuh"
#include "common/kernel/row_loss.cuh"
#include "common/rowwise/dispatch/choice.h"
#include "common/rowwise/dispatch/launch.cuh"
#include "common/rowwise/include/rowwise/softmax.h"

namespace rowwise {

namespace {

constexpr std::int64_t most_cols_with_labels = std::int64_t{1} << 30;
constexpr std::size_t workspace_alignment = 16;

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
  bool may_be_replaced = false;  ///< the output may lie here
  [[nodiscard]] const char* begin() const { return static_cast<const char*>(data); }
};

template <class T>
Argument matrix(const char* name, const T* data, Extent extent, bool is_written = false) {
  return {name,      data,       static_cast<std::size_t>(extent.rows * extent.cols) * sizeof(T),
          sizeof(T), is_written, true};
}
/// One that may be replaced: each element is read last by the thread that writes there.
template <class T>
Argument replaceable(const char* name, const T* data, Extent extent) {
  Argument argument = matrix(name, data, extent);
  argument.may_be_replaced = true;
  return argument;
}
template <class T>
Argument column(const char* name, const T* data, Extent extent, bool is_written = false) {
  return {name, data, static_cast<std::size_t>(extent.rows) * sizeof(T), sizeof(T), is_written};
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

/// Whether what is written overlaps another argument.
bool is_in_the_way(const Argument& written, const Argument& other) {
  // Where one ends is not asked for: it may be beyond the last address.
  const auto lies_before = [](const Argument& one, const Argument& next) {
    return one.begin() <= next.begin() && static_cast<std::size_t>(next.begin() - one.begin()) >= one.bytes;
  };
  const bool apart = lies_before(written, other) || lies_before(other, written);
  const bool in_place = written.data == other.data && written.is_matrix && other.may_be_replaced;
  return !apart && !in_place;
}

void check_extent(Extent extent, std::size_t element_bytes) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  if (extent.rows < 0 || extent.cols < 0) {
    refuse("rows and cols must not be negative: " + text(extent.rows) + " x " + text(extent.cols));
  }
  const std::int64_t most_elements = any / static_cast<std::int64_t>(element_bytes);
  if (extent.cols > 0 && extent.rows > most_elements / extent.cols) {
    refuse(text(extent.rows) + " x " + text(extent.cols) + " elements are more than there are addresses");
  }
}

template <class T>
void check_labelled_extent(Extent extent) {
  check_extent(extent, sizeof(T));
  if (extent.rows > 0 && (extent.cols < 1 || extent.cols > most_cols_with_labels)) {
    refuse("cross-entropy: 1 to 2^30 columns, not " + std::to_string(extent.cols));
  }
}

/// The bytes that are asked for, whatever the alignment.
template <class Kernel>
std::size_t most_bytes(Extent extent, std::size_t element_bytes) {
  std::size_t most = 0;
  const auto size = static_cast<std::int64_t>(element_bytes);
  for (const std::int64_t alignment : {size, std::int64_t{16}}) {
    const Matrix matrix{.rows = extent.rows,
                        .cols = extent.cols,
                        .element_bytes = size,
                        .alignment = alignment,
                        .lie_alike = alignment == 16};
    most = std::max(most, need(choose<Kernel>(matrix, current_gpu(), true), matrix).workspace_bytes);
  }
  return most;
}

/// Checks everything, and launches with launch_kernel(kernel) what the table names.
template <class Kernel, class T, std::size_t count, class Launch>
void run(std::array<Argument, count> arguments, Extent extent, Workspace workspace, cudaStream_t stream,
         Launch launch_kernel) {
  if (extent.rows == 0 || extent.cols == 0) return;
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

  Matrix matrix{.rows = extent.rows,
                .cols = extent.cols,
                .element_bytes = sizeof(T),
                .alignment = 16,
                .lie_alike = true};
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
           std::to_string(most_bytes<Kernel>(extent, sizeof(T))));
  }
  (void)cudaGetLastError();  // of an earlier call, and would be taken for the launch's
  launch_kernel(kernel);
  if (needed.workspace_bytes > 0 && !needed.zeroed) {
    CUDA_CHECK(cudaMemsetAsync(workspace.data, 0, needed.workspace_bytes, stream));
  }
}

template <class Op, class T>
void run_forward(const T* x, T* y, Extent extent, cudaStream_t stream, Workspace workspace) {
  check_extent(extent, sizeof(T));
  run<Forward, T>(std::array{replaceable("x", x, extent), matrix("y", y, extent, true)}, extent, workspace,
                  stream, [&](Forward kernel) {
                    const Tensors<T> tensors{
                        .x = x, .y = y, .workspace = workspace.data, .shape = {extent.rows, extent.cols}};
                    launch<Op>(kernel, tensors, stream);
                  });
}

template <class Op, class T>
void run_backward(const T* y, const T* dy, T* dx, Extent extent, cudaStream_t stream, Workspace workspace) {
  check_extent(extent, sizeof(T));
  run<Backward, T>(
      std::array{replaceable("y", y, extent), replaceable("dy", dy, extent), matrix("dx", dx, extent, true)},
      extent, workspace, stream, [&](Backward kernel) {
        const Tensors<T> tensors{.y = const_cast<T*>(y),
                                 .dy = dy,
                                 .dx = dx,
                                 .workspace = workspace.data,
                                 .shape = {extent.rows, extent.cols}};
        launch<Op>(kernel, tensors, stream);
      });
}

}  // namespace

template <class T>
std::size_t workspace_bytes(Operation operation, Extent extent) {
  using enum Operation;
  const bool has_labels = operation >= cross_entropy;
  has_labels ? check_labelled_extent<T>(extent) : check_extent(extent, sizeof(T));
  if (extent.rows == 0 || extent.cols == 0) return 0;
  if (operation <= log_softmax) return most_bytes<Forward>(extent, sizeof(T));
  if (!has_labels) return most_bytes<Backward>(extent, sizeof(T));
  return operation > cross_entropy ? most_bytes<Gradient>(extent, sizeof(T))
                                   : most_bytes<Loss>(extent, sizeof(T));
}

template <class T>
void softmax(const T* x, T* y, Extent extent, cudaStream_t stream, Workspace workspace) {
  run_forward<Softmax>(x, y, extent, stream, workspace);
}
template <class T>
void log_softmax(const T* x, T* y, Extent extent, cudaStream_t stream, Workspace workspace) {
  run_forward<LogSoftmax>(x, y, extent, stream, workspace);
}

template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, Extent extent, cudaStream_t stream,
                      Workspace workspace) {
  run_backward<SoftmaxBackward>(y, dy, dx, extent, stream, workspace);
}
template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, Extent extent, cudaStream_t stream,
                          Workspace workspace) {
  run_backward<LogSoftmaxBackward>(y, dy, dx, extent, stream, workspace);
}

template <class T>
void cross_entropy(const T* x, const std::int64_t* labels, float* loss, Extent extent, cudaStream_t stream,
                   Workspace workspace) {
  check_labelled_extent<T>(extent);
  const std::array arguments{matrix("x", x, extent), column("labels", labels, extent),
                             column("loss", loss, extent, true)};
  run<Loss, T>(arguments, extent, workspace, stream, [&](Loss kernel) {
    const Tensors<T> tensors{.x = x,
                             .labels = labels,
                             .loss = loss,
                             .workspace = workspace.data,
                             .shape = {extent.rows, extent.cols}};
    launch<CrossEntropy>(kernel, tensors, stream);
  });
}
template <class T>
void cross_entropy_gradient(const T* x, const std::int64_t* labels, float* loss, T* dx, Extent extent,
                            cudaStream_t stream, Workspace workspace) {
  check_labelled_extent<T>(extent);
  const std::array arguments{matrix("x", x, extent), column("labels", labels, extent),
                             column("loss", loss, extent, true), matrix("dx", dx, extent, true)};
  run<Gradient, T>(arguments, extent, workspace, stream, [&](Gradient kernel) {
    const Tensors<T> tensors{.x = x,
                             .dx = dx,
                             .labels = labels,
                             .loss = loss,
                             .workspace = workspace.data,
                             .shape = {extent.rows, extent.cols}};
    launch<WithGradient<CrossEntropy>>(kernel, tensors, stream);
  });
}

// What the library holds of the templates.

template std::size_t workspace_bytes<float>(Operation, Extent);
template void softmax(const float*, float*, Extent, cudaStream_t, Workspace);
template void log_softmax(const float*, float*, Extent, cudaStream_t, Workspace);
template void softmax_backward(const float*, const float*, float*, Extent, cudaStream_t, Workspace);
template void log_softmax_backward(const float*, const float*, float*, Extent, cudaStream_t, Workspace);
template void cross_entropy(const float*, const std::int64_t*, float*, Extent, cudaStream_t, Workspace);
template void cross_entropy_gradient(const float*, const std::int64_t*, float*, float*, Extent, cudaStream_t,
                                     Workspace);

template std::size_t workspace_bytes<__half>(Operation, Extent);
template void softmax(const __half*, __half*, Extent, cudaStream_t, Workspace);
template void log_softmax(const __half*, __half*, Extent, cudaStream_t, Workspace);
template void softmax_backward(const __half*, const __half*, __half*, Extent, cudaStream_t, Workspace);
template void log_softmax_backward(const __half*, const __half*, __half*, Extent, cudaStream_t, Workspace);
template void cross_entropy(const __half*, const std::int64_t*, float*, Extent, cudaStream_t, Workspace);
template void cross_entropy_gradient(const __half*, const std::int64_t*, float*, __half*, Extent,
                                     cudaStream_t, Workspace);

template std::size_t workspace_bytes<__nv_bfloat16>(Operation, Extent);
template void softmax(const __nv_bfloat16*, __nv_bfloat16*, Extent, cudaStream_t, Workspace);
template void log_softmax(const __nv_bfloat16*, __nv_bfloat16*, Extent, cudaStream_t, Workspace);
template void softmax_backward(const __nv_bfloat16*, const __nv_bfloat16*, __nv_bfloat16*, Extent,
                               cudaStream_t, Workspace);
template void log_softmax_backward(const __nv_bfloat16*, const __nv_bfloat16*, __nv_bfloat16*, Extent,
                                   cudaStream_t, Workspace);
template void cross_entropy(const __nv_bfloat16*, const std::int64_t*, float*, Extent, cudaStream_t,
                            Workspace);
template void cross_entropy_gradient(const __nv_bfloat16*, const std::int64_t*, float*, __nv_bfloat16*,
                                     Extent, cudaStream_t, Workspace);

}  // namespace rowwise
