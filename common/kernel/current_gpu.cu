#include "common/kernel/current_device.cuh"
#include "common/kernel/limits.h"

namespace {

/// A block that fills a multiprocessor: 1024 threads, 64 registers each, and all of the shared memory.
__global__ void __launch_bounds__(1024) fill_multiprocessor() {}

int largest_cluster(int shared_bytes) {
  cudaFuncAttributes attributes{};
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, fill_multiprocessor));
  if (attributes.ptxVersion < 90)
    return 0;  // kernels compiled for older GPUs have no clusters on a newer one, either
  const int dynamic_bytes = shared_bytes - static_cast<int>(most_static_bytes);
  CUDA_CHECK(
      cudaFuncSetAttribute(fill_multiprocessor, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_bytes));
  CUDA_CHECK(cudaFuncSetAttribute(fill_multiprocessor, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  for (int size = most_blocks_of_cluster; size > 1; size /= 2) {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(size);
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = static_cast<unsigned>(size);
    config.blockDim = 1024;
    config.dynamicSmemBytes = static_cast<std::size_t>(dynamic_bytes);
    config.attrs = &cluster;
    config.numAttrs = 1;
    int clusters = 0;
    if (cudaOccupancyMaxActiveClusters(&clusters, fill_multiprocessor, &config) == cudaSuccess) {
      if (clusters > 0) return size;
    } else {
      (void)cudaGetLastError();  // this GPU does not support the size
    }
  }
  return 0;
}

}  // namespace

const Gpu& current_gpu() {
  thread_local Gpu gpu;
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  if (device == gpu.device) return gpu;
  gpu.compute_capability = device_attribute(cudaDevAttrComputeCapabilityMajor);
  gpu.multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  gpu.shared_bytes = most_shared_bytes();
  gpu.largest_cluster = gpu.compute_capability < 9 ? 0 : largest_cluster(most_shared_bytes());
  gpu.device = device;  // last: if a query fails, the device is queried again
  return gpu;
}
