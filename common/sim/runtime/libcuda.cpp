// Takes the place of the driver's library for programs that need it under the simulator, and says why there
// is none. One that is linked with the static runtime would otherwise only hear that "the CUDA driver version
// is insufficient", and one that calls the driver itself would not get beyond the dynamic linker.
#include <dlfcn.h>
#include <sys/auxv.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "common/sim/runtime/say_unsimulated.h"

// CUDA's header is not included: it declares these functions with their parameters.
namespace {

constexpr int no_device = 100;  // CUDA_ERROR_NO_DEVICE

/// Prints only the first message: the others follow from it.
void say(const std::string& text) {
  static const bool said = [&] {
    std::fflush(stdout);
    std::fputs(("simulator: " + text + "\n").c_str(), stderr);
    return true;
  }();
  (void)said;
}

/// The library that needs the driver without being linked with it: a static runtime. Empty: it is in the
/// executable.
std::string library_that_asks;

/// In the place of every function of the driver, for a static runtime.
int say_that_there_is_none() {
  if (library_that_asks.empty()) {
    say("the driver (libcuda.so.1) is not simulated. An executable that is linked with the static runtime, "
        "as nvcc "
        "does by default, needs it: compile with -cudart shared");
  } else {
    say(library_that_asks +
        " needs the driver (libcuda.so.1), which is not simulated: NVIDIA's libraries of kernels, as cuBLAS, "
        "cannot run. "
        "Use a kernel of your own in its place; if this is a library of yours, link it with -cudart shared");
  }
  return no_device;
}

/// The name of the library that holds the address; empty for the executable.
std::string library_of(const void* address) {
  Dl_info here{};
  Dl_info executable{};
  const auto* entry =
      reinterpret_cast<const void*>(getauxval(AT_ENTRY));  // NOLINT(performance-no-int-to-ptr)
  if (dladdr(address, &here) == 0 || dladdr(entry, &executable) == 0) return "";
  if (here.dli_fbase == executable.dli_fbase) return "";
  const std::string path = here.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

int sim::say_unsimulated(const char* name) {
  constexpr int not_supported = 801;  // CUDA_ERROR_NOT_SUPPORTED
  say(std::string(name) +
      " is a function of the driver (libcuda.so.1), which is not simulated; those of the runtime are, as "
      "cudaMalloc "
      "and <<< >>>: use them in its place");
  return not_supported;
}

extern "C" {

int cuDriverGetVersion(int* version) {
  constexpr int newest = 99'000;  // no runtime finds it too old before it calls cuInit
  if (version != nullptr) *version = newest;
  return 0;
}
// Programs print the results of these when another function has failed.
int cuGetErrorName(int error, const char** name) {
  if (name == nullptr) return 1;
  *name = error == 0 ? "CUDA_SUCCESS" : "CUDA_ERROR_NOT_SUPPORTED";
  return 0;
}
int cuGetErrorString(int error, const char** text) {
  if (text == nullptr) return 1;
  *text = error == 0 ? "no error" : "operation not supported";
  return 0;
}

/// By which the runtime finds all others.
int cuGetProcAddress_v2(const char* name, void** function, int /*version*/, unsigned long long /*flags*/,
                        int* status) {
  library_that_asks = library_of(__builtin_return_address(0));
  const bool is_version = std::string_view(name) == "cuDriverGetVersion";
  *function = is_version ? reinterpret_cast<void*>(&cuDriverGetVersion)
                         : reinterpret_cast<void*>(&say_that_there_is_none);
  if (status != nullptr) *status = 0;
  return 0;
}

}  // extern "C"
