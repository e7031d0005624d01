// Preloaded before any simulator: the time that its launches take, without the program's work between them.
// Written when the program ends to the file that LAUNCH_CLOCK names: seconds of processor time, and elapsed.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>

namespace {

class LaunchClock {
 public:
  ~LaunchClock() {
    if (const char* path = std::getenv("LAUNCH_CLOCK"))
      std::ofstream(path) << processor_ << ' ' << elapsed_.count() << '\n';
  }
  template <class Launch>
  cudaError_t time(Launch launch) {
    const std::clock_t begin = std::clock();
    const auto begin_of_launch = std::chrono::steady_clock::now();
    const cudaError_t error = launch();
    processor_ += static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    elapsed_ += std::chrono::steady_clock::now() - begin_of_launch;
    return error;
  }

 private:
  double processor_ = 0;
  std::chrono::duration<double> elapsed_{0};
};

LaunchClock& launch_clock() {
  static LaunchClock instance;
  return instance;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

using Launch = cudaError_t (*)(const void*, dim3, dim3, void**, std::size_t, cudaStream_t);
using LaunchExC = cudaError_t (*)(const cudaLaunchConfig_t*, const void*, void**);

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             std::size_t dynamic_shared, cudaStream_t stream) {
  static const auto launch = next<Launch>("cudaLaunchKernel");
  return launch_clock().time([&] { return launch(kernel, grid, block, arguments, dynamic_shared, stream); });
}

/// The function that nvcc's host code calls for <<< >>>.
cudaError_t __cudaLaunchKernel(void* kernel, dim3 grid, dim3 block,  // NOLINT(bugprone-reserved-identifier)
                               void** arguments, std::size_t dynamic_shared, cudaStream_t stream) {
  static const auto launch = next<Launch>("__cudaLaunchKernel");
  return launch_clock().time([&] { return launch(kernel, grid, block, arguments, dynamic_shared, stream); });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  static const auto launch = next<LaunchExC>("cudaLaunchKernelExC");
  return launch_clock().time([&] { return launch(config, kernel, arguments); });
}

}  // extern "C"
