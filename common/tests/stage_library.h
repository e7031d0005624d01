// A stage as a library, of which a test runs the variants.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <vector>

#include "common/harness/cuda_handles.h"
#include "common/harness/variant.h"

/// library: as common/harness/c/c_interface.h takes it. It stays loaded: the variants' functions lie in it.
inline const Stage& load_stage(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* const entry = handle == nullptr ? nullptr : dlsym(handle, "softmax_stage");
  if (entry == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<const Stage* (*)()>(entry)();
}

/// A variant on these inputs, with outputs, poisoned, and a workspace of its own.
class Prepared {
 public:
  Prepared(const Variant& variant, const Problem& problem, const Device& device,
           const std::vector<DeviceMemory>& inputs) {
    for (const DeviceMemory& input : inputs) memory_.inputs.push_back(input.get());
    for (const Tensor& tensor : problem.outputs()) {
      memory_.outputs.push_back(outputs_.emplace_back(allocate_device(tensor.bytes())).get());
      CUDA_CHECK(cudaMemset(memory_.outputs.back(), 0xff, tensor.bytes()));
    }
    const Workspace workspace = variant.workspace(problem, device);
    workspace_ = allocate_device(workspace.bytes);
    memory_.workspace = workspace_.get();
    if (workspace.bytes > 0) {
      CUDA_CHECK(cudaMemset(memory_.workspace, workspace.zeroed ? 0 : 0xff, workspace.bytes));
    }
    CUDA_CHECK(cudaDeviceSynchronize());
    plan_ = variant.prepare(problem, device, memory_);
  }

  void launch(cudaStream_t stream) { plan_(stream); }
  [[nodiscard]] const Memory& memory() const { return memory_; }

 private:
  Memory memory_;
  std::vector<DeviceMemory> outputs_;
  DeviceMemory workspace_;
  Plan plan_;
};
