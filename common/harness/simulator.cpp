#include "common/harness/simulator.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

const SimApi* simulator() {
  const auto api = reinterpret_cast<sim_api_function>(dlsym(RTLD_DEFAULT, SIM_API_NAME));
  return api == nullptr ? nullptr : api();
}

bool gpu_is_present() {
  int count = 0;
  const bool present = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  (void)cudaGetLastError();
  return present;
}

void restart_under_simulator(const char* const* argv) {
  std::error_code error;
  if (simulator() != nullptr || !std::filesystem::exists(SIMULATOR_LIBRARY, error)) return;
  // The loader takes a library that is there already for every later one of the same name (libcudart.so.13).
  const char* preloaded = std::getenv("LD_PRELOAD");
  std::string libraries = SIMULATOR_LIBRARY;
  if (preloaded != nullptr && *preloaded != '\0') libraries += std::string(":") + preloaded;
  setenv("LD_PRELOAD", libraries.c_str(), 1);
  execv("/proc/self/exe", const_cast<char* const*>(argv));
}
