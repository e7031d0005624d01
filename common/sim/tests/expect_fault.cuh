// For tests of what the simulator reports: each planted bug must be, with its line, and its correct twin must not. On a
// GPU the correct twins run alone.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/sim/counters.h"

class Simulator {
 public:
  /// `file`: in which the planted bugs are.
  explicit Simulator(const char* file) : file_(std::string(std::strrchr(file, '/') + 1) + ":") {
    const auto api = reinterpret_cast<sim_api_function>(dlsym(RTLD_DEFAULT, SIM_API_NAME));
    if (api != nullptr) api_ = api();
    int devices = 0;
    if (cudaGetDeviceCount(&devices) == cudaSuccess) return;
    std::printf("neither a GPU nor the simulator\n");
    std::exit(3);
  }

  [[nodiscard]] bool on_gpu() const { return api_ == nullptr; }
  [[nodiscard]] const SimApi& api() const { return *api_; }

  /// `part`: what the report must say; "" when nothing may be reported. `what`: said where it fails.
  template <class Launch>
  void expect(const char* name, cudaError_t error, const char* part, Launch launch,
              const std::string& what = "") const {
    if (on_gpu()) {
      if (part[0] != '\0') return;
      launch();
      const cudaError_t launched = cudaGetLastError();
      const cudaError_t got = launched != cudaSuccess ? launched : cudaDeviceSynchronize();
      return check(got == error, name, what + cudaGetErrorName(got));
    }
    const auto before = api_->faults();
    launch();
    const cudaError_t got = cudaGetLastError();
    const bool reported = api_->faults() != before;
    const bool right = got == error && reported == (part[0] != '\0') &&
                       (!reported || (std::strstr(api_->last_fault(), part) != nullptr &&
                                      std::strstr(api_->last_fault(), file_.c_str()) != nullptr));
    check(right, name, what + cudaGetErrorName(got));
  }
  void check(bool right, const char* name, const std::string& what) const {
    std::printf("%-4s %-40s %s\n", right ? "ok" : "FAIL", name, what.c_str());
    failed_ = failed_ || !right;
  }
  /// The program's exit code.
  [[nodiscard]] int result() const { return failed_ ? 1 : 0; }

 private:
  std::string file_;
  const SimApi* api_ = nullptr;
  mutable bool failed_ = false;
};
