// How a row is laid out on a cluster, and how clusters are launched: what the launchers of this stage share.
#pragma once

#include <climits>
#include <stdexcept>
#include <string>

#include "10_cluster/cluster_exchange.cuh"
#include "common/harness/current_device.cuh"

/// The part of a row that a block has, in packs of 16 bytes: whole lines of 128 bytes.
constexpr int packs_of_part(std::int64_t row_bytes, int cluster_size) {
  return static_cast<int>(round_up(divide_up(row_bytes / 16, cluster_size), 8));
}

struct RowOnCluster {
  int cluster_size;
  int part_packs;
  int packs_per_thread;  ///< at most
  int shared_bytes;      ///< of a block, beside the exchange
  int least_block_size = 128;
  [[nodiscard]] int block_size() const {
    return max(static_cast<int>(round_up(divide_up(part_packs, packs_per_thread), 32)), least_block_size);
  }
  /// Of a grid, which has INT_MAX blocks.
  [[nodiscard]] std::int64_t most_clusters() const { return INT_MAX / cluster_size; }
};

/// '' or why not each of so many rows can have a cluster, of which the GPU holds `at_once`.
inline std::string no_cluster_each(const RowOnCluster& row, std::int64_t rows, int at_once) {
  if (at_once == 0) return "the GPU holds no cluster of " + std::to_string(row.cluster_size) + " such blocks";
  if (rows <= row.most_clusters()) return "";
  return "a grid has no more than " + std::to_string(INT_MAX) + " blocks: at most " +
         std::to_string(row.most_clusters()) + " rows";
}

/// Says what the kernel must be allowed before it is launched so. `size` must live as long as what is returned.
template <class Kernel>
cudaLaunchConfig_t cluster_config(Kernel kernel, const RowOnCluster& row, std::int64_t clusters,
                                  cudaLaunchAttribute& size) {
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, row.shared_bytes));
  if (row.cluster_size > 8) {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim.x = static_cast<unsigned>(row.cluster_size);
  size.val.clusterDim.y = 1;
  size.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(clusters * row.cluster_size);
  config.blockDim = static_cast<unsigned>(row.block_size());
  config.dynamicSmemBytes = static_cast<std::size_t>(row.shared_bytes);
  config.attrs = &size;
  config.numAttrs = 1;
  return config;
}

/// How many such clusters the GPU holds at a time; 0: not even one.
template <class Kernel>
int clusters_at_once(Kernel kernel, const RowOnCluster& row) {
  cudaLaunchAttribute size{};
  const cudaLaunchConfig_t config = cluster_config(kernel, row, 1, size);
  int clusters = 0;
  if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) != cudaSuccess) {
    (void)cudaGetLastError();  // a size that this GPU does not know
    return 0;
  }
  return clusters;
}

template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), const RowOnCluster& row, std::int64_t clusters,
                     cudaStream_t stream, Arguments... arguments) {
  if (clusters > row.most_clusters()) {
    throw std::invalid_argument(no_cluster_each(row, clusters, 1));
  }
  cudaLaunchAttribute size{};
  cudaLaunchConfig_t config = cluster_config(kernel, row, clusters, size);
  config.stream = stream;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

/// With the layout and the kernel that the launcher has for such rows, which may take more than these.
template <class Launcher, class Op, class T, class... More>
void launch_cluster_per_row(const T* x, T* y, Shape shape, cudaStream_t stream, More... more) {
  if (shape.rows == 0) return;
  const RowOnCluster row = Launcher::layout(shape.cols * std::int64_t{sizeof(T)}, sizeof(T));
  Launcher::template with_kernel<Op, T>(row, [&](auto kernel) {
    launch_clusters(kernel, row, shape.rows, stream, x, y, shape, row.part_packs, more...);
  });
}
