// For tests of the simulator, which must report each planted bug with its line, and not its correct twin. On a
// GPU the correct twins run alone.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

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

  /// `part`: text that the report must contain; "" if there must be no report.
  template <class Launch>
  void expect(const std::string& name, cudaError_t error, const std::string& part, Launch launch) const {
    if (on_gpu() && !part.empty()) return;
    if (before_each) before_each();
    const auto before = on_gpu() ? 0 : api_->faults();
    launch();
    const cudaError_t launched = cudaGetLastError();
    const cudaError_t got = launched == cudaSuccess && on_gpu() ? cudaDeviceSynchronize() : launched;
    const bool reported = !on_gpu() && api_->faults() != before;
    const auto says = [&](const std::string& text) {
      return std::strstr(api_->last_fault(), text.c_str()) != nullptr;
    };
    check(got == error && reported != part.empty() && (!reported || (says(part) && says(file_))), name,
          cudaGetErrorName(got));
  }
  /// Nothing is reported.
  template <class Launch>
  void right(const std::string& name, Launch launch) const {
    expect(name, cudaSuccess, "", launch);
  }
  /// A mistake, which stops the kernel.
  template <class Launch>
  void wrong(const std::string& name, const std::string& part, Launch launch) const {
    expect(name, cudaErrorLaunchFailure, part, launch);
  }
  /// launch(std::true_type()) makes a mistake, its twin launch(std::false_type()) does not.
  template <class Launch>
  void both(const std::string& name, cudaError_t error, const std::string& part, Launch launch) const {
    expect(name, error, part, [&] { launch(std::true_type()); });
    right(name + ", right", [&] { launch(std::false_type()); });
  }
  template <class Launch>
  void both(const std::string& name, const std::string& part, Launch launch) const {
    both(name, cudaErrorLaunchFailure, part, launch);
  }
  /// Calls test(seed): 0 stands for the usual order of warps and blocks; the simulator has others, too.
  template <class Test>
  void in_every_order(Test test) {
    for (int seed = 0; seed <= (on_gpu() ? 0 : 50); ++seed) {
      said = seed == 0 ? "" : "seed " + std::to_string(seed) + ": ";
      if (seed > 0) setenv("SIM_SEED", std::to_string(seed).c_str(), 1);
      test(seed);
    }
    unsetenv("SIM_SEED");
    said = "";
  }
  void check(bool right, const std::string& name, const std::string& what) const {
    std::printf("%-4s %-40s %s%s\n", right ? "ok" : "FAIL", name.c_str(), said.c_str(), what.c_str());
    failed_ = failed_ || !right;
  }
  /// The program's exit code.
  [[nodiscard]] int result() const { return failed_ ? 1 : 0; }

  std::function<void()> before_each;  ///< launch that is expected to be right or wrong
  std::string said;                   ///< precedes the message of each check

 private:
  std::string file_;
  const SimApi* api_ = nullptr;
  mutable bool failed_ = false;
};
