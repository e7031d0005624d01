#include "common/harness/device_data.h"

#include <vector>

#include "common/harness/cuda_check.h"
#include "common/harness/simulator.h"

namespace {

/// Host memory for one tensor of any dtype.
std::vector<std::uint64_t> host_tensor(const Problem& problem) {
  return std::vector<std::uint64_t>(problem.tensor_bytes() / sizeof(std::uint64_t) + 1);
}

std::vector<std::uint64_t> copy_to_host(const Problem& problem, const void* tensor) {
  std::vector<std::uint64_t> copy = host_tensor(problem);
  CUDA_CHECK(cudaMemcpy(copy.data(), tensor, problem.tensor_bytes(), cudaMemcpyDeviceToHost));
  return copy;
}

}  // namespace

void fill_device_input(InputKind kind, std::uint64_t seed, const Problem& problem, void* x) {
  if (simulator() == nullptr) {
    fill_input(kind, seed, problem.dtype, problem.shape, x, Space::device);
    return;
  }
  std::vector<std::uint64_t> values = host_tensor(problem);
  fill_input(kind, seed, problem.dtype, problem.shape, values.data(), Space::host);
  CUDA_CHECK(cudaMemcpy(x, values.data(), problem.tensor_bytes(), cudaMemcpyHostToDevice));
}

std::uint64_t device_checksum(const Problem& problem, const void* x) {
  if (simulator() == nullptr) return checksum(problem, x, Space::device);
  return checksum(problem, copy_to_host(problem, x).data(), Space::host);
}

Verdict compare_device_result(const Problem& problem, const void* x, const void* y, double tolerance_factor) {
  constexpr std::int64_t largest_on_host = 1 << 14;
  if (simulator() == nullptr && problem.shape.elements() > largest_on_host) {
    return compare_with_reference(problem, x, y, Space::device, tolerance_factor);
  }
  return compare_with_reference(problem, copy_to_host(problem, x).data(), copy_to_host(problem, y).data(),
                                Space::host, tolerance_factor);
}
