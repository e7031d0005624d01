// Libraries: PTX text that a program loads while it runs (CUDA 12.8 and later have these functions).
#include <string>

#include "common/sim/ptx/fatbinary.h"
#include "common/sim/ptx/lexer.h"
#include "common/sim/runtime/runtime.h"

#if CUDART_VERSION >= 12080

using sim::returned;
using sim::runtime;

namespace {

sim::LibraryState* state_of(cudaLibrary_t library) {
  const auto found = runtime().libraries.find(library);
  return found == runtime().libraries.end() ? nullptr : found->second.get();
}

}  // namespace

extern "C" {

/// Takes PTX text that ends with a zero; the options are those of a compiler that is not there. All kernels
/// are parsed now, but an instruction that the simulator does not know is an error only where it is executed.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* /*options*/,
                                void** /*option_values*/, unsigned /*option_count*/,
                                cudaLibraryOption* /*library_options*/, void** /*library_option_values*/,
                                unsigned /*library_option_count*/) {
  if (library == nullptr || code == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  std::string text = static_cast<const char*>(code);
  if (!sim::starts_like_ptx(text)) {
    sim::say("cannot load a library: it is no PTX text, which begins with .version");
    return returned(cudaErrorInvalidKernelImage);
  }
  auto module = std::make_unique<sim::Module>(std::move(text));
  try {
    module->parse_all(runtime().memory);
  } catch (const sim::PtxError& error) {
    sim::say(std::string("cannot read the PTX of a library: ") + error.what());
    return returned(cudaErrorInvalidPtx);
  }
  auto state = std::make_unique<sim::LibraryState>();
  state->fat_binary = runtime().fat_binaries.size();
  runtime().fat_binaries.push_back({std::move(module), sim::device::compute_capability(), ""});
  *library = reinterpret_cast<cudaLibrary_t>(state.get());
  runtime().libraries[*library] = std::move(state);
  return cudaSuccess;
}

/// A kernel's handle is the address of its entry in the library's map, which is an argument of
/// cudaLaunchKernel.
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  if (kernel == nullptr || name == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  sim::LibraryState* state = state_of(library);
  if (state == nullptr) return returned(cudaErrorInvalidResourceHandle);
  if (!runtime().fat_binaries.at(state->fat_binary).module->has_kernel(name)) {
    return returned(cudaErrorSymbolNotFound);
  }
  const std::string& handle = *state->kernels.insert(name).first;
  runtime().functions.try_emplace(&handle, sim::HostFunction{state->fat_binary, name});
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<std::string*>(&handle));
  return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  const std::lock_guard lock(runtime().mutex);
  sim::LibraryState* state = state_of(library);
  if (state == nullptr) return returned(cudaErrorInvalidResourceHandle);
  for (const std::string& handle : state->kernels) runtime().functions.erase(&handle);
  runtime().fat_binaries.at(state->fat_binary) = {nullptr, 0, "their library has been unloaded"};
  runtime().libraries.erase(library);
  return cudaSuccess;
}

}  // extern "C"

#endif
