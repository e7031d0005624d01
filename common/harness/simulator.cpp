#include "common/harness/simulator.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/harness/errors.h"
#include "common/sim/counter_sums.h"

const SimApi* simulator() {
  const auto api = reinterpret_cast<sim_api_function>(dlsym(RTLD_DEFAULT, SIM_API_NAME));
  return api == nullptr ? nullptr : api();
}

SimCounters count_launch(const std::function<void()>& launch) {
  const SimApi* sim = simulator();
  sim->begin();
  launch();
  sim->end();
  SimCounters total{};
  for (std::size_t i = 0; i < sim->launches(); ++i) total += sim->launch(i)->counters;
  return total;
}

bool gpu_is_present() {
  int count = 0;
  const bool present = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  (void)cudaGetLastError();
  return present;
}

void restart_under_simulator(const char* const* argv) {
  if (simulator() != nullptr) return;
  const std::string self = std::to_string(getpid());  // stays when the program starts again
  const char* restarted = std::getenv("SIM_RESTARTED");
  if (restarted != nullptr && self == restarted) {
    throw NoDeviceError("the simulator cannot be loaded: " SIMULATOR_LIBRARY);
  }
  const int library = open(SIMULATOR_LIBRARY, O_RDONLY);
  if (library < 0) return;
  // The loader takes a library that is there already for every later one of the same name (libcudart.so.13).
  // It splits LD_PRELOAD at blanks and colons, which the path of a checkout may have: this one has none. With
  // the number in place of "self" it also leads children there that close the files that they inherit.
  std::string libraries = "/proc/" + self + "/fd/" + std::to_string(library);
  // A program that uses NCCL gets the simulator's NCCL, which is in the same folder.
  const std::string beside =
      std::string(SIMULATOR_LIBRARY).substr(0, std::string(SIMULATOR_LIBRARY).rfind('/'));
  const bool uses_nccl = dlsym(RTLD_DEFAULT, "ncclGetVersion") != nullptr;
  const int nccl = uses_nccl ? open((beside + "/libnccl.so.2").c_str(), O_RDONLY) : -1;
  if (nccl >= 0) libraries += ":/proc/" + self + "/fd/" + std::to_string(nccl);
  const char* preloaded = std::getenv("LD_PRELOAD");
  if (preloaded != nullptr && *preloaded != '\0') libraries += std::string(":") + preloaded;
  setenv("LD_PRELOAD", libraries.c_str(), 1);
  setenv("SIM_RESTARTED", self.c_str(), 1);
  execv("/proc/self/exe", const_cast<char* const*>(argv));
  throw NoDeviceError(std::string("cannot start again under the simulator: ") + std::strerror(errno));
}
