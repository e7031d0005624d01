#include "common/harness/device_data.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "common/harness/cuda_check.h"
#include "common/harness/simulator.h"

namespace {

/// Holds a tensor of any type, aligned.
using HostTensor = std::vector<std::uint64_t>;

HostTensor host_tensor(const Tensor& tensor) {
  return HostTensor(tensor.bytes() / sizeof(std::uint64_t) + 1);
}

HostTensor copy_to_host(const Tensor& tensor, const void* device) {
  HostTensor host = host_tensor(tensor);
  if (tensor.bytes() > 0) CUDA_CHECK(cudaMemcpy(host.data(), device, tensor.bytes(), cudaMemcpyDeviceToHost));
  return host;
}

/// One verdict of those of all outputs.
Verdict join(const Problem& problem, const std::vector<Verdict>& verdicts) {
  const std::vector<Tensor> outputs = problem.outputs();
  if (verdicts.size() != outputs.size()) {
    throw std::logic_error(std::string(problem.op->name) + " has not verified every output");
  }
  Verdict joined{true, "", 0};
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const double max_error = std::max(joined.max_error, verdicts[i].max_error);
    if (joined.correct && !verdicts[i].correct) {
      joined = verdicts[i];
      if (outputs.size() > 1) joined.explanation = std::string(outputs[i].name) + ": " + joined.explanation;
    }
    joined.max_error = max_error;
  }
  return joined;
}

}  // namespace

void fill_device_inputs(const Problem& problem, InputKind kind, std::uint64_t seed,
                        const std::vector<void*>& inputs) {
  if (simulator() == nullptr) return problem.op->fill(problem, kind, seed, inputs, Space::device);
  const std::vector<Tensor> tensors = problem.inputs();
  std::vector<HostTensor> host;
  std::vector<void*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(host.emplace_back(host_tensor(tensor)).data());
  problem.op->fill(problem, kind, seed, pointers, Space::host);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].bytes() == 0) continue;
    CUDA_CHECK(cudaMemcpy(inputs[i], pointers[i], tensors[i].bytes(), cudaMemcpyHostToDevice));
  }
}

std::uint64_t device_checksum(const Tensor& tensor, const void* data) {
  if (simulator() == nullptr) return checksum(tensor, data, Space::device);
  return checksum(tensor, copy_to_host(tensor, data).data(), Space::host);
}

Verdict verify_device_outputs(const Problem& problem, const Memory& memory, double tolerance_factor) {
  if (problem.shape.elements() == 0) return {true, "", 0};
  constexpr std::int64_t largest_on_host = 1 << 14;
  if (simulator() == nullptr && problem.shape.elements() > largest_on_host) {
    return join(problem, problem.op->verify(problem, memory, Space::device, tolerance_factor));
  }
  std::vector<HostTensor> copies;
  Memory host;
  for (const Tensor& tensor : problem.inputs()) {
    const void* const device = memory.inputs[host.inputs.size()];
    host.inputs.push_back(copies.emplace_back(copy_to_host(tensor, device)).data());
  }
  for (const Tensor& tensor : problem.outputs()) {
    const void* const device = memory.outputs[host.outputs.size()];
    host.outputs.push_back(copies.emplace_back(copy_to_host(tensor, device)).data());
  }
  return join(problem, problem.op->verify(problem, host, Space::host, tolerance_factor));
}
