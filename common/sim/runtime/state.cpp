#include <cstdio>
#include <set>
#include <utility>

#include "common/sim/ptx/lexer.h"
#include "common/sim/runtime/runtime.h"

namespace sim {

Runtime::Runtime() : memory(simulated_memory_bytes()) {}

Runtime& runtime() {
  // Never destroyed: executables unregister their kernels after main, in any order.
  static Runtime& instance = *new Runtime;  // NOLINT(cppcoreguidelines-owning-memory)
  return instance;
}

void say(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "simulator: %s\n", text.c_str());
}

cudaError_t returned(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) runtime().last_error = error;
  return error;
}

cudaError_t take_unreported() {
  const std::lock_guard lock(runtime().mutex);
  return std::exchange(runtime().unreported, cudaSuccess);
}

cudaError_t not_supported(const char* name) {
  static std::set<std::string> said;
  const std::lock_guard lock(runtime().mutex);
  if (said.insert(name).second) say(std::string(name) + " is not simulated");
  return returned(cudaErrorNotSupported);
}

StreamState* Runtime::stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
    return &default_stream;
  const auto found = streams.find(handle);
  return found == streams.end() ? nullptr : found->second.get();
}

cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work) {
  StreamState* state = runtime().stream(stream);
  if (state == nullptr) return cudaErrorInvalidResourceHandle;
  if (!state->capturing) return work();
  state->captured.push_back(std::move(work));
  return cudaSuccess;
}

cudaError_t Runtime::find_kernel(const void* function, const Program*& program) {
  static std::set<std::string> said;
  const auto complain = [](const std::string& text) {
    if (said.insert(text).second) say(text);
  };
  const auto found = functions.find(function);
  if (found == functions.end()) return cudaErrorInvalidDeviceFunction;
  const std::string& name = found->second.name;
  const FatBinary& binary = fat_binaries.at(found->second.fat_binary);
  if (!binary.module) {
    complain("cannot run the kernels of this executable: " + binary.why_not);
    return cudaErrorNoKernelImageForDevice;
  }
  try {
    if (!binary.module->has_kernel(name)) return cudaErrorInvalidDeviceFunction;
    program = &binary.module->kernel(name, memory);
  } catch (const PtxError& error) {
    complain("cannot read the PTX of kernel " + name + ": " + error.what());
    return cudaErrorInvalidPtx;
  }
  return cudaSuccess;
}

}  // namespace sim
