#include "common/harness/device.h"

#include <cuda_runtime.h>

#include "common/harness/ceiling.h"
#include "common/harness/errors.h"
#include "common/harness/simulator.h"
#include "common/kernel/cuda_check.h"

namespace {

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Device open_device() {
  int driver = 0;
  int runtime = 0;
  int count = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver && driver > 0) {
    throw NoDeviceError("the NVIDIA driver supports CUDA " + cuda_version(driver) +
                        " and this was built with CUDA " + cuda_version(runtime) +
                        "; update the driver, or build with a toolkit no newer than it");
  }
  if (driver == 0 || error != cudaSuccess || count == 0) {
    throw NoDeviceError(std::string("no usable NVIDIA GPU: ") +
                        (driver == 0 ? "no NVIDIA driver is loaded" : cudaGetErrorString(error)) +
                        "; a GPU of compute capability 7.5 or newer and its driver are needed");
  }

  CUDA_CHECK(cudaSetDevice(0));
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  Device device{
      .gpu = properties.name,
      .compute_capability = std::to_string(properties.major) + "." + std::to_string(properties.minor),
      .multiprocessors = properties.multiProcessorCount,
      .l2_bytes = static_cast<std::size_t>(properties.l2CacheSize),
      .memory_bytes = properties.totalGlobalMem,
      .shared_bytes_per_block = properties.sharedMemPerBlockOptin,
      .cuda_driver = cuda_version(driver),
      .cuda_runtime = cuda_version(runtime),
      .simulated = simulator() != nullptr};
  if (!ceiling_is_loadable()) {
    if (device.simulated)
      throw NoDeviceError("the simulator cannot run this executable, for the reason above");
    throw NoDeviceError(
        device.gpu + " has compute capability " + device.compute_capability +
        ", which this was not compiled for; configure again with -DCMAKE_CUDA_ARCHITECTURES=" +
        std::to_string(properties.major) + std::to_string(properties.minor) + " (7.5 or newer is needed)");
  }
  return device;
}

int count_devices() {
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  return count;
}

std::size_t free_device_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}
