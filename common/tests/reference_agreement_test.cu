// The reference on the host and on the device are the same functors, run by Thrust; so are the inputs. Here
// they are tested against each other: same inputs bit for bit, same verdict on a right and on a wrong result.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "common/harness/cuda_handles.h"
#include "common/harness/operation.h"
#include "common/tests/device_test.h"

namespace {

Verdict verify(const Problem& problem, void* x, Space space) {
  // x itself as every input and as the result: wrong nearly everywhere, in the same number of places and to the same degree.
  return problem.op->verify(problem, {{x, x}, {x}}, space, 1).front();
}

bool agree(const Problem& problem, InputKind input) {
  const std::size_t bytes = problem.matrix_bytes();
  std::vector<std::uint64_t> host_x(bytes / 8 + 1);
  std::vector<std::uint64_t> device_x_on_host(host_x.size());
  const DeviceMemory device_x = allocate_device(bytes);
  fill_input(input, 3, problem.dtype, problem.shape, host_x.data(), Space::host);
  fill_input(input, 3, problem.dtype, problem.shape, device_x.get(), Space::device);
  CUDA_CHECK(cudaMemcpy(device_x_on_host.data(), device_x.get(), bytes, cudaMemcpyDeviceToHost));
  // Box and Muller's log and cos may differ in the last bit of a double, and so, seldom, in a rounding to T.
  std::int64_t different = 0;
  for (std::size_t i = 0; i < bytes; i += size_of(problem.dtype)) {
    const char* host_bytes = reinterpret_cast<const char*>(host_x.data());
    const char* device_bytes = reinterpret_cast<const char*>(device_x_on_host.data());
    different += std::memcmp(host_bytes + i, device_bytes + i, size_of(problem.dtype)) != 0;
  }
  const bool same_input = different * 1000 <= problem.shape.elements();
  const Tensor x = problem.inputs().front();
  const bool same_checksum =
      checksum(x, device_x_on_host.data(), Space::host) == checksum(x, device_x.get(), Space::device);

  const Verdict host = verify(problem, device_x_on_host.data(), Space::host);
  const Verdict device = verify(problem, device_x.get(), Space::device);
  const bool same_verdict = host.correct == device.correct && host.explanation == device.explanation &&
                            (host.max_error == device.max_error ||
                             std::abs(host.max_error - device.max_error) <= 1e-9 * std::abs(host.max_error));
  if (same_input && same_checksum && same_verdict) return true;
  std::printf(
      "%s, input %s: %lld elements of the input differ; checksum %s; host says '%s', device says '%s'\n",
      describe(problem).c_str(), name(input), static_cast<long long>(different),
      same_checksum ? "agrees" : "differs", host.explanation.c_str(), device.explanation.c_str());
  return false;
}

}  // namespace

int main() {
  return run_on_device([](const Device& device) {
    std::vector<Shape> shapes{{1, 1}, {7, 33}, {2, 1025}};
    if (!device.simulated) shapes.insert(shapes.end(), {{40, 1025}, {3, 50257}});
    std::vector<const Operation*> operations = softmax_operations();
    operations.insert(operations.end(), backward_operations().begin(), backward_operations().end());
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
