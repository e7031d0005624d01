// The library of stage 14 as a program calls it: right results for every operation, data type and alignment, with a workspace and
// without; one clear error for each bad argument, after which nothing is written; and a choice that takes less than 1 us.
#include <rowwise/softmax.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/harness/cuda_handles.h"
#include "common/harness/dtype.cuh"
#include "common/harness/operation.h"
#include "common/harness/variant.h"
#include "common/rowwise/dispatch/choice.h"
#include "common/tests/device_test.h"

namespace {

using rowwise::Extent;
using Bytes = std::vector<unsigned char>;

constexpr unsigned char untouched = 0xa5;

constexpr Gpu h200{.device = 0,
                   .compute_capability = 9,
                   .multiprocessors = 132,
                   .shared_bytes = 227 << 10,
                   .largest_cluster = 16};

/// A tensor on host and device, some elements past an alignment of 256 bytes.
struct DeviceTensor {
  DeviceTensor(std::size_t bytes, std::size_t past)
      : host(bytes, untouched),
        memory(allocate_device(bytes + past + 256)),
        data(static_cast<char*>(memory.get()) + past) {
    upload();
  }
  void upload() {
    if (!host.empty()) CUDA_CHECK(cudaMemcpy(data, host.data(), host.size(), cudaMemcpyHostToDevice));
  }
  Bytes download() const {
    Bytes bytes(host.size());
    CUDA_CHECK(cudaDeviceSynchronize());
    if (!bytes.empty()) CUDA_CHECK(cudaMemcpy(bytes.data(), data, bytes.size(), cudaMemcpyDeviceToHost));
    return bytes;
  }
  Bytes host;
  DeviceMemory memory;
  char* data;
};

/// Zero, as the calls require.
struct Scratch {
  explicit Scratch(std::size_t bytes) : tensor(bytes, 0) {
    std::fill(tensor.host.begin(), tensor.host.end(), 0);
    tensor.upload();
  }
  rowwise::Workspace get() { return {tensor.data, tensor.host.size()}; }
  DeviceTensor tensor;
};

template <class T>
void call(rowwise::Operation operation, const std::vector<const void*>& in, const std::vector<void*>& out,
          Extent extent, rowwise::Workspace workspace) {
  using enum rowwise::Operation;
  const T* first = static_cast<const T*>(in[0]);
  const auto labels = [&] { return static_cast<const std::int64_t*>(in[1]); };
  switch (operation) {
    case softmax:
      return rowwise::softmax(first, static_cast<T*>(out[0]), extent, nullptr, workspace);
    case log_softmax:
      return rowwise::log_softmax(first, static_cast<T*>(out[0]), extent, nullptr, workspace);
    case softmax_backward:
      return rowwise::softmax_backward(first, static_cast<const T*>(in[1]), static_cast<T*>(out[0]), extent,
                                       nullptr, workspace);
    case log_softmax_backward:
      return rowwise::log_softmax_backward(first, static_cast<const T*>(in[1]), static_cast<T*>(out[0]),
                                           extent, nullptr, workspace);
    case cross_entropy:
      return rowwise::cross_entropy(first, labels(), static_cast<float*>(out[0]), extent, nullptr, workspace);
    case cross_entropy_gradient:
      return rowwise::cross_entropy_gradient(first, labels(), static_cast<float*>(out[0]),
                                             static_cast<T*>(out[1]), extent, nullptr, workspace);
  }
}

const std::vector<std::pair<rowwise::Operation, const Operation*>> operations = {
    {rowwise::Operation::softmax, &softmax_operation},
    {rowwise::Operation::log_softmax, &log_softmax_operation},
    {rowwise::Operation::softmax_backward, &softmax_backward_operation},
    {rowwise::Operation::log_softmax_backward, &log_softmax_backward_operation},
    {rowwise::Operation::cross_entropy, &cross_entropy_operation},
    {rowwise::Operation::cross_entropy_gradient, &cross_entropy_gradient_operation},
};

/// The workspace of a call, and the place of its outputs.
struct How {
  bool with_workspace;
  bool in_place;
};

/// "" or the problem.
template <class T>
std::string wrong_result(rowwise::Operation operation, const Problem& problem, How how) {
  std::vector<DeviceTensor> in;
  std::vector<DeviceTensor> out;
  std::vector<void*> host;
  for (const Tensor& tensor : problem.inputs()) {
    const auto elements = problem.offsets.input + static_cast<std::int64_t>(in.size()) * problem.offsets.next;
    const std::size_t past = tensor.dtype == DType::i64 ? 0 : elements * sizeof(T);
    host.push_back(in.emplace_back(tensor.bytes(), past).host.data());
  }
  // A vector that grew has moved its elements, whose own vectors stay.
  problem.op->fill(problem, InputKind::normal, 3, host, Space::host);
  std::vector<const void*> from;
  for (DeviceTensor& tensor : in) {
    tensor.upload();
    from.push_back(tensor.data);
  }
  std::vector<void*> to;
  for (const Tensor& tensor : problem.outputs()) {
    const std::size_t past = tensor.dtype == problem.dtype ? problem.offsets.output * sizeof(T) : 0;
    out.emplace_back(tensor.bytes(), past);
    const bool is_matrix =
        tensor.shape.cols == problem.shape.cols && tensor.bytes() == in.front().host.size();
    to.push_back(how.in_place && is_matrix ? in.front().data : out.back().data);
  }
  const Extent extent{problem.shape.rows, problem.shape.cols};
  Scratch scratch(how.with_workspace ? rowwise::workspace_bytes<T>(operation, extent) : 0);
  call<T>(operation, from, to, extent, scratch.get());
  Memory memory;
  std::vector<Bytes> results;
  for (std::size_t i = 0; i < to.size(); ++i) {
    results.push_back(to[i] == in.front().data ? in.front().download() : out[i].download());
  }
  for (const DeviceTensor& tensor : in) memory.inputs.push_back(tensor.host.data());
  for (Bytes& result : results) memory.outputs.push_back(result.data());
  for (const Verdict& verdict : problem.op->verify(problem, memory, Space::host, 1)) {
    if (!verdict.correct) return verdict.explanation;
  }
  if (scratch.tensor.download() != Bytes(scratch.tensor.host.size(), 0))
    return "left its workspace other than zero";
  return "";
}

bool problem_has_labels(const Operation& op) {
  return op.name.find("cross_entropy") != op.name.npos;
}

bool check_results() {
  bool all = true;
  for (const auto& [operation, op] : operations) {
    for (const DType dtype : all_dtypes()) {
      for (const Shape shape : {Shape{3, 5}, Shape{3, 33}, Shape{2, 1000}, Shape{40, 8192}, Shape{1, 40000},
                                Shape{2, 100003}, Shape{3, 151936}, Shape{0, 5}}) {
        for (const How how : {How{true, false}, How{false, false}, How{true, true}}) {
          if (how.in_place && problem_has_labels(*op)) continue;
          for (const Offsets offsets : {Offsets{0, 0}, Offsets{1, 2}, Offsets{0, 0, 1}}) {
            if (offsets.next > 0 && shape.cols > 1000) continue;  // takes long, and shows nothing else
            const Problem problem{shape, dtype, op, offsets};
            const std::string wrong =
                dispatch_dtype(dtype, [operation = operation, &problem, how]<class T>() {
                  return wrong_result<T>(operation, problem, how);
                });
            if (wrong.empty()) continue;
            std::printf("%s, %s%s: WRONG: %s\n", describe(problem).c_str(),
                        how.with_workspace ? "with a workspace" : "without one",
                        how.in_place ? ", in place" : "", wrong.c_str());
            all = false;
          }
        }
      }
    }
  }
  return all;
}

/// Rows that are too wide for the kernels that leave their workspace zero.
bool check_workspace_that_is_cleared() {
  const Problem problem{{1, 2200000}, DType::f32, &softmax_backward_operation};
  const Matrix matrix = matrix_of(problem);
  const Need needed = need(rowwise::choose<rowwise::Backward>(matrix, h200, true), matrix);
  std::string wrong = "an H200 has a kernel that leaves its workspace zero";
  if (needed.workspace_bytes > 0 && !needed.zeroed) {
    wrong = wrong_result<float>(rowwise::Operation::softmax_backward, problem, {true, false});
  }
  if (!wrong.empty()) std::printf("%s: WRONG: %s\n", describe(problem).c_str(), wrong.c_str());
  return wrong.empty();
}

/// The call must throw this, and write nothing.
struct BadCall {
  const char* says;
  std::function<void()> call;
};

bool check_bad_calls() {
  constexpr Extent extent{3, 151936};  // few wide rows: they have a workspace
  const std::size_t bytes = extent.rows * extent.cols * sizeof(float);
  DeviceTensor x(bytes, 0);
  DeviceTensor y(2 * bytes, 0);
  DeviceTensor labels(extent.rows * sizeof(std::int64_t), 0);
  DeviceTensor loss(extent.rows * sizeof(float), 0);
  Bytes on_host(bytes);
  const auto from = reinterpret_cast<const float*>(x.data);
  const auto to = reinterpret_cast<float*>(y.data);
  const auto label = reinterpret_cast<const std::int64_t*>(labels.data);
  const auto losses = reinterpret_cast<float*>(loss.data);
  Scratch scratch(rowwise::workspace_bytes<float>(rowwise::Operation::softmax, extent));
  const float* const host = reinterpret_cast<const float*>(on_host.data());
  const auto of_shape = [&](std::int64_t rows, std::int64_t cols) {
    return [=] { rowwise::softmax(from, to, {rows, cols}); };
  };
  const auto with_workspace = [&](void* data, std::size_t size) {
    return [=] { rowwise::softmax(from, to, extent, nullptr, {data, size}); };
  };
  const std::size_t enough = scratch.tensor.host.size();
  std::vector<BadCall> calls = {
      {"x is null", [&] { rowwise::softmax<float>(nullptr, to, extent); }},
      {"y is null", [&] { rowwise::log_softmax<float>(from, nullptr, extent); }},
      {"dy is null", [&] { rowwise::softmax_backward<float>(from, nullptr, to, extent); }},
      {"labels is null", [&] { rowwise::cross_entropy<float>(from, nullptr, losses, extent); }},
      {"dx is null", [&] { rowwise::cross_entropy_gradient<float>(from, label, losses, nullptr, extent); }},
      {"rows and cols must not be negative: -1 x 5", of_shape(-1, 5)},
      {"rows and cols must not be negative: 5 x -1", of_shape(5, -1)},
      {"elements are more than there are addresses", of_shape(std::int64_t{1} << 40, std::int64_t{1} << 30)},
      {"cross-entropy: 1 to 2^30 columns, not 0",
       [&] {
         rowwise::cross_entropy(from, label, losses, {3, 0});
       }},
      {"x is not in device memory", [&] { rowwise::softmax(host, to, extent); }},
      {"x is not aligned to 4 bytes",
       [&] { rowwise::softmax(reinterpret_cast<const float*>(x.data + 1), to, extent); }},
      {"labels is not aligned to 8 bytes",
       [&] {
         rowwise::cross_entropy(from, reinterpret_cast<const std::int64_t*>(labels.data + 4), losses, extent);
       }},
      {"y overlaps x", [&] { rowwise::softmax<float>(to, to + 1, extent); }},
      {"dx overlaps dy", [&] { rowwise::softmax_backward<float>(from, to, to + extent.cols, extent); }},
      {"loss overlaps x", [&] { rowwise::cross_entropy<float>(to, label, to + 1, extent); }},
      {"dx overlaps x", [&] { rowwise::cross_entropy_gradient<float>(to, label, losses, to, extent); }},
      {"loss overlaps dx", [&] { rowwise::cross_entropy_gradient<float>(from, label, to, to, extent); }},
      {"workspace: 16 bytes are too few", with_workspace(scratch.tensor.data, 16)},
      {"workspace is null", with_workspace(nullptr, enough)},
      {"workspace is not aligned to 16 bytes", with_workspace(scratch.tensor.data + 8, enough)},
      {"workspace overlaps x", with_workspace(x.data, bytes)},
      {"workspace overlaps y", with_workspace(to, bytes)},
      {"workspace overlaps y", with_workspace(to, std::numeric_limits<std::size_t>::max())},
  };
  DeviceMemory elsewhere;
  if (count_devices() > 1) {
    CUDA_CHECK(cudaSetDevice(1));
    elsewhere = allocate_device(bytes);
    CUDA_CHECK(cudaSetDevice(0));
    calls.push_back({"x is on device 1, and device 0 is current",
                     [&] { rowwise::softmax(static_cast<const float*>(elsewhere.get()), to, extent); }});
  }
  bool all = true;
  for (const BadCall& bad : calls) {
    std::string said = "nothing";
    try {
      bad.call();
    } catch (const std::invalid_argument& error) {
      said = error.what();
    }
    if (said.find(bad.says) != said.npos) continue;
    std::printf("WRONG: instead of \"%s\" it said: %s\n", bad.says, said.c_str());
    all = false;
  }
  for (const DeviceTensor* tensor : {&x, &y, &labels, &loss, &scratch.tensor}) {
    if (tensor->download() == tensor->host) continue;
    std::printf("WRONG: a bad call has written\n");
    all = false;
  }
  return all;
}

/// An earlier error that was never queried is not the call's error.
bool check_error_of_earlier_call() {
  constexpr Extent extent{3, 1000};
  DeviceTensor x(extent.rows * extent.cols * sizeof(float), 0);
  const auto data = reinterpret_cast<float*>(x.data);
  if (cudaSetDevice(1 << 20) == cudaSuccess) return false;
  try {
    rowwise::softmax<float>(data, data, extent);
    return true;
  } catch (const std::runtime_error& error) {
    std::printf("WRONG: after an error of an earlier call: %s\n", error.what());
    return false;
  }
}

/// A span takes rows of an odd number of the packs that all matrices are aligned to; lanes take rows that fit
/// their registers.
bool check_who_takes_narrow_rows() {
  bool all = true;
  const auto check = [&](auto kernel, std::int64_t cols, std::int64_t alignment, bool takes,
                         std::int64_t element_bytes = 4) {
    const Matrix matrix{
        .rows = 1, .cols = cols, .element_bytes = element_bytes, .alignment = alignment, .lie_alike = true};
    const bool can = can_do(kernel, matrix, current_gpu());
    if (can == takes) return;
    std::printf("WRONG: kernel %d %s %d columns at %d bytes\n", static_cast<int>(kernel),
                can ? "takes" : "does not take", static_cast<int>(cols), static_cast<int>(alignment));
    all = false;
  };
  const auto check_spans = [&](std::int64_t cols, std::int64_t alignment, bool takes) {
    check(rowwise::Loss::flat_span, cols, alignment, takes);
    check(rowwise::Gradient::flat_span, cols, alignment, takes);
    check(rowwise::Backward::flat_span, cols, alignment, takes);
  };
  check_spans(33, 4, true);
  check_spans(50, 8, true);
  check_spans(50, 4, false);
  check_spans(52, 16, false);
  check_spans(545, 4, false);
  check_spans(0, 4, false);
  check(rowwise::Backward::flat_span, 273, 4, false);
  check(rowwise::Backward::warp_registers, 256, 4, true);
  check(rowwise::Backward::warp_registers, 258, 4, false);
  check(rowwise::Backward::warp_registers, 258, 8, true);
  check(rowwise::Backward::warp_registers, 257, 16, false);
  check(rowwise::Backward::block_registers, 1350, 16, true);
  check(rowwise::Backward::block_registers, 1350, 4, false);
  check(rowwise::Backward::block_registers, 4096, 8, true);
  check(rowwise::Backward::block_registers, 4098, 16, false);
  check(rowwise::Backward::block_registers, 16384, 16, true);
  check(rowwise::Backward::warp_registers, 1535, 2, true, 2);
  check(rowwise::Backward::warp_registers, 1537, 2, false, 2);
  check(rowwise::Loss::narrow_rows, 4099, 4, true);
  check(rowwise::Loss::narrow_rows, 4100, 4, false);
  check(rowwise::Gradient::narrow_rows, 1539, 4, true);
  check(rowwise::Gradient::narrow_rows, 1540, 4, false);
  const bool has_clusters = current_gpu().largest_cluster >= 8;
  check(rowwise::Loss::cluster_registers, 8193, 4, has_clusters);
  check(rowwise::Loss::cluster_registers, 65536, 16, has_clusters);
  check(rowwise::Loss::cluster_registers, 65537, 4, false);
  check(rowwise::Loss::cluster_registers, 131072, 16, has_clusters, 2);
  check(rowwise::Loss::cluster_registers, 131073, 2, false, 2);
  return all;
}

/// Rows that all kernels for clusters can do on a GPU that has them.
bool check_who_needs_clusters() {
  Gpu without = h200;
  without.largest_cluster = 0;
  const Matrix matrix{.rows = 4096, .cols = 65536, .element_bytes = 2, .alignment = 16, .lie_alike = true};
  bool all = true;
  const auto check = [&](auto last) {
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      const auto kernel = static_cast<decltype(last)>(i);
      const bool needs = can_do(kernel, matrix, h200) && !can_do(kernel, matrix, without);
      if (needs == need(kernel, matrix).clusters) continue;
      std::printf("WRONG: of kernel %d it is not said rightly whether it needs clusters\n", i);
      all = false;
    }
  };
  check(rowwise::Forward::unaligned_cluster);
  check(rowwise::Backward::row_exchange);
  check(rowwise::Loss::cluster_registers);
  check(rowwise::Gradient::kept_row);
  return all;
}

/// On a GPU with half the multiprocessors, half as many rows get the same kernel. A GPU without clusters gets no kernel that needs
/// them, and a call without a workspace none that needs that.
bool check_choices() {
  using rowwise::choose;
  using rowwise::Loss;
  Gpu half = h200;
  half.multiprocessors /= 2;
  Gpu without_clusters = h200;
  without_clusters.largest_cluster = 0;
  bool right = true;
  int changes = 0;
  int clusters = 0;
  int workspaces = 0;
  for (const std::int64_t alignment : {16, 2}) {
    Matrix matrix{.rows = 1, .cols = 8192, .element_bytes = 2, .alignment = alignment, .lie_alike = true};
    while (matrix.rows < 100000) {
      const Loss of_half = choose<Loss>(matrix, half, true);
      changes += of_half != choose<Loss>(matrix, h200, true);
      matrix.rows *= 2;
      const Loss chosen = choose<Loss>(matrix, h200, true);
      right &= of_half == chosen;
      clusters += need(chosen, matrix).clusters;
      workspaces += need(chosen, matrix).workspace_bytes > 0;
      right &= !need(choose<Loss>(matrix, without_clusters, true), matrix).clusters;
      right &= need(choose<Loss>(matrix, h200, false), matrix).workspace_bytes == 0;
    }
  }
  right &= changes > 0 && clusters > 0 && workspaces > 0;
  if (!right)
    std::printf("WRONG: choices; %d change, %d need clusters, %d a workspace\n", changes, clusters,
                workspaces);
  return right;
}

/// The time for a shape that goes through the table to its end.
bool check_time_of_choice() {
  const Matrix matrix{.rows = 4096, .cols = 262144, .element_bytes = 4, .alignment = 16, .lie_alike = true};
  constexpr int times = 10000;
  int chosen = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) {
    chosen += static_cast<int>(rowwise::choose<rowwise::Forward>(matrix, current_gpu(), true));
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  std::printf("choosing takes %.3f us (%d)\n", spent.count() / times, chosen / times);
  return spent.count() / times < 1;
}

}  // namespace

int main() {
  return run_on_device([](const Device& /*device*/) {
    const bool results = check_results();
    const bool cleared = check_workspace_that_is_cleared();
    const bool refusals = check_bad_calls();
    const bool forgotten = check_error_of_earlier_call();
    const bool narrow = check_who_takes_narrow_rows();
    const bool clusters = check_who_needs_clusters();
    const bool choices = check_choices();
    return check_time_of_choice() && results && refusals && forgotten && narrow && clusters && choices &&
           cleared;
  });
}
