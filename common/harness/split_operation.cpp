// Operations on a matrix whose columns are split over GPUs. Inputs are made as for the whole matrix and handed out; outputs are
// put together again, and the whole is verified: each part against the double-precision reference of whole rows.
#include <algorithm>
#include <cstring>
#include <string>

#include "common/harness/column_split.h"
#include "common/harness/cuda_handles.h"
#include "common/harness/operation.h"
#include "common/harness/streams.h"

namespace {

enum class Way { to_parts, to_whole };

/// Copies between the columns of a whole matrix, on device 0, and a part of it that is on the device, or
/// all on the host. `strip` is on the same device as the whole: a copy of a part of a matrix stays on one
/// device, and a copy between devices is contiguous.
void copy_columns(Way way, void* whole, const Tensor& of_whole, void* part, const Tensor& of_part,
                  std::int64_t first_col, Space space) {
  const std::size_t size = size_of(of_whole.dtype);
  const std::size_t width = static_cast<std::size_t>(of_part.shape.cols) * size;
  const std::size_t pitch = static_cast<std::size_t>(of_whole.shape.cols) * size;
  const auto rows = static_cast<std::size_t>(of_whole.shape.rows);
  if (width * rows == 0) return;
  char* const columns = static_cast<char*>(whole) + static_cast<std::size_t>(first_col) * size;
  if (space == Space::host) {
    for (std::size_t row = 0; row < rows; ++row) {
      char* const in_part = static_cast<char*>(part) + row * width;
      char* const in_whole = columns + row * pitch;
      if (way == Way::to_parts) std::memcpy(in_part, in_whole, width);
      if (way == Way::to_whole) std::memcpy(in_whole, in_part, width);
    }
    return;
  }
  const DeviceMemory strip = allocate_device(width * rows);
  const auto kind = cudaMemcpyDeviceToDevice;
  if (way == Way::to_parts) {
    CUDA_CHECK(cudaMemcpy2D(strip.get(), width, columns, pitch, width, rows, kind));
    CUDA_CHECK(cudaMemcpyPeer(part, of_part.device, strip.get(), 0, width * rows));
  } else {
    CUDA_CHECK(cudaMemcpyPeer(strip.get(), 0, part, of_part.device, width * rows));
    CUDA_CHECK(cudaMemcpy2D(columns, pitch, strip.get(), width, width, rows, kind));
  }
  CUDA_CHECK(cudaDeviceSynchronize());
}

/// Memory for a whole tensor, on the host or on device 0.
class WholeTensor {
 public:
  WholeTensor(const Tensor& tensor, Space space)
      : host_(space == Space::host ? tensor.bytes() / sizeof(std::uint64_t) + 1 : 0),
        device_(allocate_device(space == Space::host ? 0 : std::max<std::size_t>(tensor.bytes(), 1))) {}
  void* data() { return device_ ? device_.get() : host_.data(); }

 private:
  std::vector<std::uint64_t> host_;
  DeviceMemory device_;
};

std::vector<WholeTensor> allocate(const std::vector<Tensor>& tensors, Space space) {
  std::vector<WholeTensor> memory;
  memory.reserve(tensors.size());
  for (const Tensor& tensor : tensors) memory.emplace_back(tensor, space);
  return memory;
}

/// The tensors of a device. The first `matrices` are cut, of the others each device has all.
std::vector<Tensor> on_every_device(const Problem& problem, const std::vector<Tensor>& whole, int matrices) {
  std::vector<Tensor> all;
  for (int device = 0; device < problem.devices; ++device) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      Tensor own = whole[i];
      own.device = device;
      if (static_cast<int>(i) < matrices)
        own.shape.cols = columns_of(device, problem.devices, problem.shape.cols).count;
      all.push_back(own);
    }
  }
  return all;
}

/// `whole`: the operation on one GPU, whose first input, and whose first `matrices` outputs, are rows x cols.
template <const Operation& whole, int matrices>
struct OnParts {
  static std::vector<Tensor> inputs(const Problem& problem) {
    return on_every_device(problem, whole.inputs(problem), 1);
  }
  static std::vector<Tensor> outputs(const Problem& problem) {
    return on_every_device(problem, whole.outputs(problem), matrices);
  }

  static bool is_cut(std::size_t output) { return static_cast<int>(output) < matrices; }

  /// Copies tensor i of the operation, of `count`, from or to all devices.
  static void copy(Way way, const Problem& problem, void* of_whole, const Tensor& tensor, std::size_t i,
                   std::size_t count, std::span<void* const> parts, const std::vector<Tensor>& of_parts,
                   bool cut, Space space) {
    for (int device = 0; device < problem.devices; ++device) {
      const std::size_t at = static_cast<std::size_t>(device) * count + i;
      const std::int64_t first = cut ? columns_of(device, problem.devices, problem.shape.cols).first : 0;
      copy_columns(way, of_whole, tensor, parts[at], of_parts[at], first, space);
    }
  }

  static void fill(const Problem& problem, InputKind kind, std::uint64_t seed, std::span<void* const> parts,
                   Space space) {
    const std::vector<Tensor> tensors = whole.inputs(problem);
    std::vector<WholeTensor> memory = allocate(tensors, space);
    std::vector<void*> pointers;
    for (WholeTensor& one : memory) pointers.push_back(one.data());
    whole.fill(problem, kind, seed, pointers, space);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      copy(Way::to_parts, problem, pointers[i], tensors[i], i, tensors.size(), parts, inputs(problem), i < 1,
           space);
    }
  }

  static std::vector<Verdict> verify(const Problem& problem, const Memory& parts, Space space,
                                     double tolerance_factor) {
    std::vector<void*> in_parts;
    for (const void* part : parts.inputs) in_parts.push_back(const_cast<void*>(part));
    const std::vector<Tensor> in = whole.inputs(problem);
    const std::vector<Tensor> out = whole.outputs(problem);
    std::vector<WholeTensor> inputs_memory = allocate(in, space);
    std::vector<WholeTensor> outputs_memory = allocate(out, space);
    Memory memory;
    for (std::size_t i = 0; i < in.size(); ++i) {
      void* const data = inputs_memory[i].data();
      const Problem first_alone = i < 1 ? problem : of_one(problem);
      copy(Way::to_whole, first_alone, data, in[i], i, in.size(), in_parts, inputs(problem), i < 1, space);
      memory.inputs.push_back(data);
    }
    for (WholeTensor& one : outputs_memory) memory.outputs.push_back(one.data());

    // A split output is verified once, as a whole; an output that every device holds completely, once per
    // device.
    const int rounds = is_cut(out.size() - 1) ? 1 : problem.devices;
    std::vector<Verdict> verdicts(parts.outputs.size(), {true, "", 0});
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (is_cut(i)) {
          copy(Way::to_whole, problem, memory.outputs[i], out[i], i, out.size(), parts.outputs,
               outputs(problem), true, space);
        } else {
          const std::size_t at = static_cast<std::size_t>(round) * out.size() + i;
          copy_columns(Way::to_whole, memory.outputs[i], out[i], parts.outputs[at], outputs(problem)[at], 0,
                       space);
        }
      }
      const std::vector<Verdict> found = whole.verify(problem, memory, space, tolerance_factor);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const int device = is_cut(i) ? device_of(problem, found[i].first_wrong) : round;
        Verdict& verdict = verdicts[static_cast<std::size_t>(device) * out.size() + i];
        verdict = found[i];
        if (!verdict.correct)
          verdict.explanation = "GPU " + std::to_string(device) + ": " + verdict.explanation;
      }
    }
    return verdicts;
  }

  static Problem of_one(Problem problem) {
    problem.devices = 1;
    return problem;
  }
  /// The device that holds an element of the matrix; the first device if there is no such element.
  static int device_of(const Problem& problem, std::int64_t element) {
    if (element < 0) return 0;
    int device = 0;
    const std::int64_t col = element % problem.shape.cols;
    const auto end = [&] {
      const Columns columns = columns_of(device, problem.devices, problem.shape.cols);
      return columns.first + columns.count;
    };
    while (col >= end()) ++device;
    return device;
  }
};

template <const Operation& whole, int matrices>
constexpr Operation on_parts(std::string_view name) {
  using Parts = OnParts<whole, matrices>;
  return {name, Parts::inputs, Parts::outputs, Parts::fill, Parts::verify};
}

}  // namespace

const Operation split_softmax_operation = on_parts<softmax_operation, 1>("softmax");
const Operation split_log_softmax_operation = on_parts<log_softmax_operation, 1>("log_softmax");
const Operation split_cross_entropy_operation = on_parts<cross_entropy_operation, 0>("cross_entropy");

const std::vector<const Operation*>& split_operations() {
  static const std::vector<const Operation*> all{&split_softmax_operation, &split_log_softmax_operation,
                                                 &split_cross_entropy_operation};
  return all;
}
