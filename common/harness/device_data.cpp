#include "common/harness/device_data.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "common/harness/cuda_check.h"
#include "common/harness/simulator.h"

namespace {

/// Host memory for tensors, one after the other.
class HostTensors {
 public:
  explicit HostTensors(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      memory_.emplace_back(tensor.bytes() / sizeof(std::uint64_t) + 1);
      pointers_.push_back(memory_.back().data());
      bytes_.push_back(tensor.bytes());
    }
  }
  void copy_from(const std::vector<void*>& device) const { copy(pointers_, device, cudaMemcpyDeviceToHost); }
  void copy_to(const std::vector<void*>& device) const { copy(device, pointers_, cudaMemcpyHostToDevice); }
  [[nodiscard]] std::span<void* const> pointers() const { return pointers_; }

 private:
  void copy(const std::vector<void*>& to, const std::vector<void*>& from, cudaMemcpyKind kind) const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (bytes_[i] > 0) CUDA_CHECK(cudaMemcpy(to[i], from[i], bytes_[i], kind));
    }
  }
  std::vector<std::vector<std::uint64_t>> memory_;
  std::vector<void*> pointers_;
  std::vector<std::size_t> bytes_;
};

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
                        const DeviceTensors& tensors) {
  if (simulator() == nullptr) {
    problem.op->fill(problem, kind, seed, {tensors.inputs, tensors.outputs, Space::device});
    return;
  }
  const HostTensors inputs(problem.inputs());
  problem.op->fill(problem, kind, seed, {inputs.pointers(), {}, Space::host});
  inputs.copy_to(tensors.inputs);
}

std::uint64_t device_checksum(const Tensor& tensor, const void* data) {
  if (simulator() == nullptr) return checksum(tensor, data, Space::device);
  const HostTensors copy({tensor});
  copy.copy_from({const_cast<void*>(data)});
  return checksum(tensor, copy.pointers()[0], Space::host);
}

Verdict verify_device_outputs(const Problem& problem, const DeviceTensors& tensors, double tolerance_factor) {
  if (problem.shape.elements() == 0) return {true, "", 0};
  constexpr std::int64_t largest_on_host = 1 << 14;
  if (simulator() == nullptr && problem.shape.elements() > largest_on_host) {
    return join(problem, problem.op->verify(problem, {tensors.inputs, tensors.outputs, Space::device},
                                            tolerance_factor));
  }
  const HostTensors inputs(problem.inputs());
  const HostTensors outputs(problem.outputs());
  inputs.copy_from(tensors.inputs);
  outputs.copy_from(tensors.outputs);
  return join(problem, problem.op->verify(problem, {inputs.pointers(), outputs.pointers(), Space::host},
                                          tolerance_factor));
}
