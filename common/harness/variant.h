// All that the harness knows of a kernel: its name, when it applies, what it moves, and how to launch it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "common/harness/problem.h"
#include "common/harness/traffic.h"

/// Device pointers of one launch. x and y hold rows x cols elements of the problem's dtype, row-major, at any
/// element offset; workspace holds Variant::workspace_bytes bytes, aligned to 256.
struct Buffers {
  const void* x = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
};

struct Variant {
  std::string name;  ///< named after its idea, as typed after --variant
  std::string idea;  ///< one line for --list
  /// Enqueues the work on the stream and checks every launch; throws CudaError. rows = 0 does nothing.
  std::function<void(const Problem&, const Buffers&, cudaStream_t)> launch;
  /// Bytes that the kernels request from memory, and what a row costs a block: what the lesson's arithmetic
  /// says.
  std::function<Traffic(const Problem&)> traffic;
  /// Why the variant cannot do this problem; empty when it can. Not set: it does every problem.
  std::function<std::string(const Problem&)> why_not = {};
  /// Not set: none needed.
  std::function<std::size_t(const Problem&)> workspace_bytes = {};
  /// False for a variant that waits for the device inside launch(): it cannot go into a CUDA graph, and is
  /// timed by plain launches instead.
  bool capturable = true;
};

struct Stage {
  std::string name;  ///< the folder, e.g. "03_warp_reduce"
  std::string idea;
  std::vector<Variant> variants;
};

/// Calls function.template operator()<T>() with the C++ type of the problem's dtype.
template <class Function>
void dispatch_dtype(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f32:
      return function.template operator()<float>();
    case DType::f16:
      return function.template operator()<__half>();
    case DType::bf16:
      return function.template operator()<__nv_bfloat16>();
  }
}

/// A Variant::launch from a launcher that takes the operation as a constant and typed pointers:
///   launcher(op, const T* x, T* y, Shape, cudaStream_t), where `op` can be used as a template argument.
template <class Launcher>
auto typed_launch(Launcher launcher) {
  return [launcher](const Problem& problem, const Buffers& buffers, cudaStream_t stream) {
    dispatch_dtype(problem.dtype, [&]<class T>() {
      const T* x = static_cast<const T*>(buffers.x);
      T* y = static_cast<T*>(buffers.y);
      if (problem.op == Op::softmax) {
        launcher(std::integral_constant<Op, Op::softmax>{}, x, y, problem.shape, stream);
      } else {
        launcher(std::integral_constant<Op, Op::log_softmax>{}, x, y, problem.shape, stream);
      }
    });
  };
}
