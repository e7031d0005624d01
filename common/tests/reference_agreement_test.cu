// The reference on the host and on the device are the same functors, and so are the inputs. Here
// they are tested against each other: same inputs bit for bit, same verdict on a right and on a wrong result.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "common/harness/compare.cuh"
#include "common/harness/cuda_handles.h"
#include "common/harness/operation.h"
#include "common/tests/device_test.h"

namespace {

/// Two copies of each tensor: the host has generated one, the device the other. They have the same elements.
struct Copies {
  std::vector<std::vector<std::uint64_t>> on_host;
  std::vector<DeviceMemory> on_device;

  explicit Copies(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      on_host.emplace_back(tensor.bytes() / 8 + 1);
      on_device.push_back(allocate_device(tensor.bytes()));
    }
  }
  [[nodiscard]] std::vector<void*> pointers(Space space) {
    std::vector<void*> found;
    for (auto& host : on_host) found.push_back(host.data());
    if (space == Space::host) return found;
    found.clear();
    for (const auto& device : on_device) found.push_back(device.get());
    return found;
  }
  /// The device's become the host's. Returns how many of the first tensor's elements differed; one NaN is like another.
  std::int64_t copy_to_host(const std::vector<Tensor>& tensors) {
    const std::vector<std::uint64_t> made_on_host = on_host[0];
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      CUDA_CHECK(
          cudaMemcpy(on_host[i].data(), on_device[i].get(), tensors[i].bytes(), cudaMemcpyDeviceToHost));
    }
    return dispatch_dtype(tensors[0].dtype, [&]<class T>() {
      const auto* before = reinterpret_cast<const T*>(made_on_host.data());
      const auto* after = reinterpret_cast<const T*>(on_host[0].data());
      std::int64_t different = 0;
      for (std::int64_t i = 0; i < tensors[0].shape.elements(); ++i) {
        const bool both_nan = std::isnan(as_double(before[i])) && std::isnan(as_double(after[i]));
        different += !both_nan && std::memcmp(before + i, after + i, sizeof(T)) != 0;
      }
      return different;
    });
  }
};

/// The verdicts on any wrong result.
std::vector<Verdict> verify(const Problem& problem, Copies& inputs, Copies& outputs, Space space) {
  const std::vector<void*> read = inputs.pointers(space);
  return problem.op->verify(problem, {{read.begin(), read.end()}, outputs.pointers(space)}, space, 1);
}

bool agree(const Problem& problem, InputKind input) {
  const std::vector<Tensor> read = problem.inputs();
  const std::vector<Tensor> written = problem.outputs();
  Copies inputs(read);
  Copies outputs(written);
  problem.op->fill(problem, input, 3, inputs.pointers(Space::host), Space::host);
  problem.op->fill(problem, input, 3, inputs.pointers(Space::device), Space::device);
  for (std::size_t i = 0; i < written.size(); ++i) {
    fill_input(input, 4, written[i].dtype, written[i].shape, outputs.on_device[i].get(), Space::device);
  }
  outputs.copy_to_host(written);
  // Box and Muller's log and cos may differ in the last bit of a double, and so, seldom, in a rounding to T.
  const std::int64_t different = inputs.copy_to_host(read);
  const bool same_input = different * 1000 <= problem.shape.elements();
  const bool same_checksum = checksum(read[0], inputs.on_host[0].data(), Space::host) ==
                             checksum(read[0], inputs.on_device[0].get(), Space::device);

  const std::vector<Verdict> host = verify(problem, inputs, outputs, Space::host);
  const std::vector<Verdict> device = verify(problem, inputs, outputs, Space::device);
  const auto same = [](const Verdict& a, const Verdict& b) {
    return a.correct == b.correct && a.explanation == b.explanation &&
           (a.max_error == b.max_error ||
            std::abs(a.max_error - b.max_error) <= 1e-9 * std::abs(a.max_error));
  };
  if (same_input && same_checksum &&
      std::equal(host.begin(), host.end(), device.begin(), device.end(), same)) {
    return true;
  }
  std::printf("%s, input %s: %lld elements of the input differ; checksum %s\n", describe(problem).c_str(),
              name(input), static_cast<long long>(different), same_checksum ? "agrees" : "differs");
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::printf("  %s: host says '%s', device says '%s'\n", written[i].name, host[i].explanation.c_str(),
                device[i].explanation.c_str());
  }
  return false;
}

}  // namespace

int main() {
  return run_on_device([](const Device& device) {
    std::vector<Shape> shapes{{1, 1}, {7, 33}, {2, 1025}};
    if (!device.simulated) shapes.insert(shapes.end(), {{40, 1025}, {3, 50257}});
    std::vector<const Operation*> operations = softmax_operations();
    operations.insert(operations.end(), backward_operations().begin(), backward_operations().end());
    operations.push_back(&recomputed_softmax_backward_operation);
    operations.insert(operations.end(), cross_entropy_operations().begin(), cross_entropy_operations().end());
    operations.insert(operations.end(), masked_softmax_operations().begin(),
                      masked_softmax_operations().end());
    bool all = true;
    for (const DType dtype : all_dtypes()) {
      for (const Operation* op : operations) {
        for (const InputKind input : all_inputs()) {
          for (const Shape shape : shapes) all = agree({shape, dtype, op}, input) && all;
        }
      }
    }
    return all;
  });
}
