// In the place of the driver's library, for programs that ask for it under the simulator: says why there is none. One that
// is linked with the static runtime would otherwise only hear that "the CUDA driver version is insufficient".
#include <cstdio>
#include <string_view>

namespace {

/// In the place of every function of the driver.
int say_that_there_is_none() {
  constexpr int no_device = 100;  // CUDA_ERROR_NO_DEVICE
  static const bool said = [] {
    std::fflush(stdout);
    std::fputs(
        "simulator: the driver (libcuda.so.1) is not simulated. An executable that is linked with the static "
        "runtime, as "
        "nvcc does by default, needs it: compile with -cudart shared\n",
        stderr);
    return true;
  }();
  return said ? no_device : 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) {
  return say_that_there_is_none();
}

int cuDriverGetVersion(int* version) {
  constexpr int newest = 99'000;  // no runtime finds it too old before it calls cuInit
  if (version != nullptr) *version = newest;
  return 0;
}

/// By which the runtime finds all others.
int cuGetProcAddress_v2(const char* name, void** function, int /*version*/, unsigned long long /*flags*/,
                        int* status) {
  const bool is_version = std::string_view(name) == "cuDriverGetVersion";
  *function = is_version ? reinterpret_cast<void*>(&cuDriverGetVersion)
                         : reinterpret_cast<void*>(&say_that_there_is_none);
  if (status != nullptr) *status = 0;
  return 0;
}

}  // extern "C"
