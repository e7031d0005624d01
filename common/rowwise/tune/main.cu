// Times every kernel of the library that takes a matrix. It reads one matrix per line from the standard input,
//
//   softmax bf16 4096 1000 1        an operation of softmax_c.h, a type, rows, columns; elements off a multiple of 16 bytes
//
// and prints the GPU, the table by which the library chooses, and then for each matrix the line again, with the kernel that the
// library would choose, and with microseconds per call of each kernel:
//
//   gpu NVIDIA H200; 132 multiprocessors; the table of NVIDIA H200, which is compiled in
//   softmax bf16 4096 1000 1: unaligned_cluster; head_and_tail 4.21, unaligned_cluster 3.98 c
//
// A letter says what the kernel needs: clusters, a workspace, or matrices that begin at alike places.
//
// The only argument is the number of samples per kernel, 5 by default; a slow kernel gets fewer. A matrix whose calls need more than a
// third of the GPU's memory has no kernels. Exit codes: 0 fine, 2 bad usage, 3 no usable GPU, 4 a CUDA error.
//
// Source: as in the course's timer (common/harness/timer.h), a sample replays a CUDA graph of many calls, each on memory that is
// not in the L2.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "common/harness/ceiling.h"
#include "common/harness/cuda_handles.h"
#include "common/harness/device.h"
#include "common/harness/errors.h"
#include "common/kernel/cuda_error.h"
#include "common/rowwise/dispatch/choice.h"
#include "common/rowwise/dispatch/for_each_kernel.h"
#include "common/rowwise/dispatch/launch.cuh"

namespace {

using namespace rowwise;

constexpr std::size_t bytes_per_sample = std::size_t{128} << 20U;
constexpr std::size_t most_calls = 20;
constexpr std::size_t first_samples = 2;
// By these factors of the fastest kernel's time, a kernel gets only the first sample, or the first ones.
constexpr double hopeless = 1.5;
constexpr double far_behind = 1.15;

struct Case {
  std::string operation;
  std::string dtype;
  Shape shape;
  std::int64_t offset;
};

/// Numbers between 1 and 2 in f16, and small ones in the other types, with random signs and digits.
__global__ void fill(std::uint32_t* data, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    std::uint32_t hash = static_cast<std::uint32_t>(i) * 2654435761U;
    hash = (hash ^ hash >> 15U) * 2246822519U;
    data[i] = 0x3c003c00U | ((hash ^ hash >> 13U) & 0x83ff83ffU);
  }
}

/// Device memory that grows: all cases have it one after the other.
class Pool {
 public:
  /// Throws CudaError if there is not enough.
  [[nodiscard]] char* of(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      memory_ = allocate_device(bytes);
      bytes_ = bytes;
      fill<<<1024, 256>>>(static_cast<std::uint32_t*>(memory_.get()), bytes / sizeof(std::uint32_t));
      CUDA_CHECK(cudaDeviceSynchronize());
    }
    return static_cast<char*>(memory_.get());
  }

 private:
  DeviceMemory memory_;
  std::size_t bytes_ = 0;
};

__global__ void fill_labels(std::int64_t* labels, std::int64_t count, std::uint32_t cols) {
  const std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (i < count) labels[i] = static_cast<std::uint32_t>(i) * 2654435761U % cols;
}

class Tuner {
 public:
  Tuner(const Device& device, std::size_t samples)
      : samples_(samples),
        most_bytes_(device.memory_bytes / 3),
        stream_(make_stream()),
        start_(make_event()),
        stop_(make_event()),
        flush_bytes_(3 * device.l2_bytes),
        flush_(allocate_device(flush_bytes_)),
        sink_(allocate_device(sizeof(int))) {
    CUDA_CHECK(cudaMemset(flush_.get(), 0, flush_bytes_));
  }

  /// The line that is printed of the case.
  std::string line(const Case& of) {
    if (of.dtype == "f32") return line_of_type<float>(of);
    if (of.dtype == "f16") return line_of_type<__half>(of);
    if (of.dtype == "bf16") return line_of_type<__nv_bfloat16>(of);
    throw std::invalid_argument("'" + of.dtype + "' is not a type; f32, f16 and bf16 are");
  }

 private:
  template <class T>
  std::string line_of_type(const Case& of) {
    const std::string& operation = of.operation;
    if (operation == "softmax") return line_of<T, Forward, Softmax>(of, 2);
    if (operation == "log_softmax") return line_of<T, Forward, LogSoftmax>(of, 2);
    if (operation == "softmax_backward") return line_of<T, Backward, SoftmaxBackward>(of, 3);
    if (operation == "log_softmax_backward") return line_of<T, Backward, LogSoftmaxBackward>(of, 3);
    if (operation == "cross_entropy") return line_of<T, Loss, CrossEntropy>(of, 1);
    if (operation == "cross_entropy_gradient") return line_of<T, Gradient, WithGradient<CrossEntropy>>(of, 2);
    throw std::invalid_argument("'" + operation + "' is not an operation");
  }

  template <class T, class Kernel, class Op>
  std::string line_of(const Case& of, int matrices) {
    const auto element_bytes = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t past = of.offset * element_bytes % 16;
    const Matrix matrix{.rows = of.shape.rows,
                        .cols = of.shape.cols,
                        .element_bytes = element_bytes,
                        .alignment = past == 0 ? 16 : past & -past,
                        .lie_alike = true};
    std::ostringstream text;
    text << of.operation << ' ' << of.dtype << ' ' << of.shape.rows << ' ' << of.shape.cols << ' '
         << of.offset << ": ";
    const Kernel chosen = choose<Kernel>(matrix, current_gpu(), true);
    std::vector<Timed<Kernel>> kernels;
    for_each_kernel(
        [&](auto kernel, const std::string& /*kind*/, const std::string& name, const char* /*idea*/) {
          if constexpr (std::is_same_v<decltype(kernel), Kernel>) {
            if (kernel == chosen) text << name << ';';
            if (can_do(kernel, matrix, current_gpu())) kernels.push_back({kernel, name, {}, {}});
          }
        });
    // The one that the library would choose is likely to be the fastest: then the others get fewer samples.
    std::stable_partition(kernels.begin(), kernels.end(),
                          [chosen](const Timed<Kernel>& timed) { return timed.kernel == chosen; });
    if (memory_of<T>(of, matrices) <= most_bytes_) time_all<T, Op>(of, matrix, matrices, kernels);
    const char* separator = " ";
    for (const Timed<Kernel>& timed : kernels) {
      if (timed.samples.empty()) continue;
      text << separator << timed.name << ' ' << timed.median() << needs_of(timed.kernel, matrix);
      separator = ", ";
    }
    return text.str();
  }

  /// " w" if the kernel needs a workspace; c for clusters; a if it could not do matrices that begin at different offsets from a
  /// multiple of 16 bytes, in single elements.
  template <class Kernel>
  static std::string needs_of(Kernel kernel, const Matrix& matrix) {
    Matrix other = matrix;
    other.lie_alike = false;
    other.alignment = matrix.element_bytes;
    std::string needs;
    if (need(kernel, matrix).workspace_bytes > 0) needs += 'w';
    if (need(kernel, matrix).clusters) needs += 'c';
    if (!can_do(kernel, other, current_gpu())) needs += 'a';
    return needs.empty() ? "" : " " + needs;
  }

  template <class Kernel>
  struct Timed {
    Kernel kernel;
    std::string name;
    GraphExec graph;
    std::vector<double> samples;

    [[nodiscard]] double median() const {
      std::vector<double> sorted = samples;
      std::sort(sorted.begin(), sorted.end());
      return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
    }
  };

  /// Bytes from one matrix to the next.
  template <class T>
  static std::size_t stride_of(const Case& of) {
    return (static_cast<std::size_t>(of.shape.rows * of.shape.cols + of.offset) * sizeof(T) + 255) / 256 *
           256;
  }
  template <class T>
  static std::size_t calls_of(const Case& of, int matrices) {
    return std::clamp<std::size_t>(bytes_per_sample / (stride_of<T>(of) * static_cast<std::size_t>(matrices)),
                                   2, most_calls);
  }
  template <class T>
  static std::size_t memory_of(const Case& of, int matrices) {
    return calls_of<T>(of, matrices) * (stride_of<T>(of) * static_cast<std::size_t>(matrices) +
                                        static_cast<std::size_t>(of.shape.rows) * 12);
  }

  template <class T, class Op, class Kernel>
  void time_all(const Case& of, const Matrix& matrix, int matrices, std::vector<Timed<Kernel>>& kernels) {
    const std::size_t calls = calls_of<T>(of, matrices);
    const std::size_t stride = stride_of<T>(of);
    std::vector<T*> memory;
    for (int number = 0; number < matrices; ++number) {
      char* const begin = pools_[number].of(calls * stride);
      memory.push_back(reinterpret_cast<T*>(begin) + of.offset);
    }
    const auto rows = static_cast<std::size_t>(of.shape.rows);
    std::int64_t* labels = nullptr;
    float* losses = nullptr;
    if constexpr (std::is_same_v<Kernel, Loss> || std::is_same_v<Kernel, Gradient>) {
      labels = reinterpret_cast<std::int64_t*>(labels_.of(calls * rows * sizeof(std::int64_t)));
      losses = reinterpret_cast<float*>(losses_.of(calls * rows * sizeof(float)));
      const auto count = static_cast<std::int64_t>(calls * rows);
      fill_labels<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream_.get()>>>(
          labels, count, static_cast<std::uint32_t>(of.shape.cols));
    }
    std::size_t workspace_bytes = 0;
    for (const Timed<Kernel>& timed : kernels)
      workspace_bytes = std::max(workspace_bytes, need(timed.kernel, matrix).workspace_bytes);
    char* const workspace = workspace_.of(workspace_bytes);

    double fastest = std::numeric_limits<double>::max();
    for (Timed<Kernel>& timed : kernels) {
      const Need needed = need(timed.kernel, matrix);
      if (workspace_bytes > 0) CUDA_CHECK(cudaMemsetAsync(workspace, 0, workspace_bytes, stream_.get()));
      CUDA_CHECK(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
      for (std::size_t call = 0; call < calls; ++call) {
        const auto at = [&](int number) {
          return reinterpret_cast<T*>(reinterpret_cast<char*>(memory[number]) + call * stride);
        };
        Tensors<T> tensors{.workspace = workspace, .shape = of.shape};
        if constexpr (std::is_same_v<Kernel, Forward>) {
          tensors.x = at(0);
          tensors.y = at(1);
        } else if constexpr (std::is_same_v<Kernel, Backward>) {
          tensors.y = at(0);
          tensors.dy = at(1);
          tensors.dx = at(2);
        } else {
          tensors.x = at(0);
          tensors.dx = matrices > 1 ? at(1) : nullptr;
          tensors.labels = labels + call * rows;
          tensors.loss = losses + call * rows;
        }
        launch<Op>(timed.kernel, tensors, stream_.get());
        // As after a call of the library.
        if (needed.workspace_bytes > 0 && !needed.zeroed)
          CUDA_CHECK(cudaMemsetAsync(workspace, 0, needed.workspace_bytes, stream_.get()));
      }
      cudaGraph_t captured = nullptr;
      CUDA_CHECK(cudaStreamEndCapture(stream_.get(), &captured));
      const Graph graph(captured);
      cudaGraphExec_t exec = nullptr;
      CUDA_CHECK(cudaGraphInstantiate(&exec, graph.get(), 0));
      timed.graph = GraphExec(exec);
      const double first = sample(exec, calls);
      fastest = std::min(fastest, first);
      if (first > hopeless * fastest) {
        timed.samples = {first};
        timed.graph.reset();
        continue;
      }
      while (timed.samples.size() < first_samples) timed.samples.push_back(sample(exec, calls));
      fastest = std::min(fastest, timed.median());
    }
    for (std::size_t number = first_samples; number < samples_; ++number) {
      for (Timed<Kernel>& timed : kernels) {
        const bool is_near =
            timed.graph && (timed.samples.size() > first_samples || timed.median() < far_behind * fastest);
        if (is_near) timed.samples.push_back(sample(timed.graph.get(), calls));
      }
    }
  }

  /// Microseconds per call.
  double sample(cudaGraphExec_t graph, std::size_t calls) {
    launch_read(flush_.get(), flush_bytes_, static_cast<int*>(sink_.get()), stream_.get());
    CUDA_CHECK(cudaEventRecord(start_.get(), stream_.get()));
    CUDA_CHECK(cudaGraphLaunch(graph, stream_.get()));
    CUDA_CHECK(cudaEventRecord(stop_.get(), stream_.get()));
    CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()));
    return 1e3 * milliseconds / static_cast<double>(calls);
  }

  std::size_t samples_;
  std::size_t most_bytes_;  ///< of a case: the memory of earlier ones is kept
  Stream stream_;
  Event start_;
  Event stop_;
  std::size_t flush_bytes_;
  DeviceMemory flush_;
  DeviceMemory sink_;
  std::array<Pool, 3> pools_;
  Pool labels_;
  Pool losses_;
  Pool workspace_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto fail = [](const std::string& what, int code) {
    std::fprintf(stderr, "rowwise_tune: %s\n", what.c_str());
    return code;
  };
  const int samples = argc > 1 ? std::atoi(argv[1]) : 5;
  if (argc > 2 || samples < 1) return fail("usage: rowwise_tune [SAMPLES]", 2);
  try {
    const Device device = open_device();
    if (device.simulated) return fail("the simulator takes no times", 3);
    Tuner tuner(device, static_cast<std::size_t>(samples));
    std::printf("gpu %s; %d multiprocessors; %s\n", device.gpu.c_str(), device.multiprocessors,
                name_of_table().c_str());
    std::string text;
    while (std::getline(std::cin, text)) {
      std::istringstream words(text);
      Case of{};
      if (!(words >> of.operation >> of.dtype >> of.shape.rows >> of.shape.cols >> of.offset)) {
        return fail("'" + text + "' is not accepted; accepted: OPERATION TYPE ROWS COLUMNS OFFSET", 2);
      }
      std::puts(tuner.line(of).c_str());
    }
    return 0;
  } catch (const NoDeviceError& error) {
    return fail(error.what(), 3);
  } catch (const CudaError& error) {
    return fail(error.what(), 4);
  } catch (const std::exception& error) {
    return fail(error.what(), 2);
  }
}
