#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

#include "common/sim/ptx/lexer.h"
#include "common/sim/runtime/runtime.h"
#include "common/sim/runtime/say_unsimulated.h"

namespace sim {

Runtime::Runtime()
    : memory(simulated_memory_bytes() / wanted_devices()),
      devices(wanted_devices()),
      have_peers(wants_peers()) {
  std::uint32_t number = 0;
  for (unsigned device = 0; device < devices; ++device) {
    for (StreamState* stream : {&default_streams.at(device), &per_thread_streams.at(device)}) {
      stream->device = device;
      stream->place = std::make_shared<StreamPlace>(StreamPlace{number++});
    }
  }
}

std::vector<StreamState*> Runtime::all_streams() {
  std::vector<StreamState*> all;
  for (unsigned device = 0; device < devices; ++device) {
    all.insert(all.end(), {&default_streams.at(device), &per_thread_streams.at(device)});
  }
  for (const auto& [handle, stream] : streams.all()) all.push_back(stream.get());
  return all;
}

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

void say_once(const std::string& text) {
  static std::set<std::string> said;
  const std::lock_guard lock(runtime().mutex);
  if (said.insert(text).second) say(text);
}

cudaError_t not_supported(const char* name) {
  const std::string_view function = name;
  const auto is_about = [&](const char* what) { return function.find(what) != std::string_view::npos; };
  const bool of_textures =
      is_about("Array") || is_about("Texture") || is_about("Surface") || is_about("ChannelDesc");
  say_once(std::string(name) + " is not simulated: " +
           (of_textures ? "there are no arrays, textures and surfaces here. Let kernels read memory of "
                          "cudaMalloc, or run the program on a GPU"
                        : "do without it, or run the program on a GPU"));
  return returned(cudaErrorNotSupported);
}

int say_unsimulated(const char* name) {
  return not_supported(name);
}

StreamState* Runtime::stream(cudaStream_t handle) {
  const bool is_per_thread = handle == cudaStreamPerThread || (handle == nullptr && default_is_per_thread);
  if (is_per_thread) return &per_thread_streams.at(current_device());
  return handle == nullptr || handle == cudaStreamLegacy ? &default_streams.at(current_device())
                                                         : streams.find(handle);
}

void* next_handle() {
  constexpr std::uintptr_t first = 0x10000;  // the runtime's headers use the lowest ones
  static std::uintptr_t given = first;
  const std::lock_guard lock(runtime().mutex);
  return reinterpret_cast<void*>(given += 16);  // NOLINT(performance-no-int-to-ptr): never followed
}

cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, Work work) {
  StreamState* state = runtime().stream(stream);
  if (state == nullptr) return cudaErrorInvalidResourceHandle;
  if (runtime().is_default(*state)) {
    // It waits for all blocking streams, which those that are being captured cannot be waited for.
    for (const auto& [handle, other] : runtime().streams.all()) {
      if (!other->capture || (other->flags & cudaStreamNonBlocking) != 0 || other->device != state->device) {
        continue;
      }
      other->capture->invalid = true;
      return cudaErrorStreamCaptureImplicit;
    }
  }
  if (!state->capture) return schedule(*state, std::move(work));
  if (state->capture->invalid) return cudaErrorStreamCaptureInvalidated;
  auto& nodes = state->capture->graph.nodes;
  nodes.push_back(std::make_unique<GraphNode>(type, std::move(work), state->last));
  state->last = {nodes.back().get()};
  return cudaSuccess;
}

Module* FatBinary::current_module() {
  const unsigned device = current_device();
  if (device == 0 || !module) return module.get();
  std::unique_ptr<Module>& other = of_others.at(device);
  if (!other) other = module->for_device(device);
  return other.get();
}

cudaError_t Runtime::find_kernel(const void* function, const Program*& program) {
  const auto found = functions.find(function);
  if (found == functions.end()) return cudaErrorInvalidDeviceFunction;
  const std::string& name = found->second.name;
  FatBinary& binary = fat_binaries.at(found->second.fat_binary);
  Module* const module = binary.current_module();
  if (module == nullptr) {
    say_once("cannot run the kernels of this executable: " + binary.why_not);
    return cudaErrorNoKernelImageForDevice;
  }
  try {
    if (!module->has_kernel(name)) return cudaErrorInvalidDeviceFunction;
    program = &module->kernel(name, memory);
  } catch (const PtxError& error) {
    say_once("cannot read the PTX of kernel " + name + ": " + error.what());
    return cudaErrorInvalidPtx;
  }
  return cudaSuccess;
}

}  // namespace sim
