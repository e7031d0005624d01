// How a row is laid out on a cluster, and how clusters are launched: the code that the launchers with
// clusters share.
#pragma once

#include <cuda/std/climits>

#include "common/kernel/cluster_exchange.cuh"
#include "common/kernel/current_device.cuh"
#include "common/kernel/tensors.h"

/// The size of a block's part of a row, in packs of 16 bytes: whole lines of 128 bytes.
constexpr int packs_of_part(std::int64_t row_bytes, int cluster_size) {
  return static_cast<int>(round_up(divide_up(row_bytes / 16, cluster_size), 8));
}

/// Blocks per row: 2, or more if there are too few rows for three blocks per SM. The parts have at least 2
/// KiB.
inline int blocks_of_few_rows(std::int64_t row_bytes, std::int64_t rows) {
  const std::int64_t blocks = 3 * multiprocessors();
  int size = 2;
  while (size < most_blocks_of_cluster && rows * size < blocks && row_bytes > size * (4 << 10)) size *= 2;
  return size;
}

struct RowOnCluster {
  int cluster_size;
  int part_packs;
  int packs_per_thread;  ///< at most
  int shared_bytes;      ///< per block, besides the exchange
  int least_block_size = 128;
  [[nodiscard]] int block_size() const {
    return max(static_cast<int>(round_up(divide_up(part_packs, packs_per_thread), 32)), least_block_size);
  }
  /// A grid has at most INT_MAX blocks.
  [[nodiscard]] std::int64_t most_clusters() const { return INT_MAX / cluster_size; }
};

inline Refusal has_clusters(const Gpu& gpu) {
  return gpu.compute_capability >= 9 ? Refusal{} : Refusal{Why::clusters};
}
/// Whether the GPU and the grid can give each row such a cluster.
inline Refusal has_cluster_each(const RowOnCluster& row, const Matrix& matrix, const Gpu& gpu) {
  if (row.cluster_size > gpu.largest_cluster) return {Why::cluster_size, row.cluster_size};
  return at_most_rows(row.most_clusters(), matrix, Why::grid);
}

/// The columns of a row that is divided over cluster_size blocks, whose parts have at most part_bytes bytes,
/// in whole lines of 128 bytes.
constexpr std::int64_t most_cols_of_parts(std::int64_t part_bytes, int cluster_size, const Matrix& matrix) {
  return part_bytes / 128 * 128 * cluster_size / matrix.element_bytes;
}

/// Accepts rows of at most most_cols columns, if the launcher's clusters fit.
template <class Launcher>
Refusal fits_cluster(const Matrix& matrix, const Gpu& gpu, std::int64_t most_cols, Why why) {
  if (const Refusal refusal = at_most_columns(most_cols, matrix, why)) return refusal;
  return has_cluster_each(Launcher::layout(matrix.row_bytes(), matrix.element_bytes), matrix, gpu);
}

/// Accepts rows of whole packs, with at least one pack for each lane of a warp in each block.
inline Refusal has_packs_for_each_lane(const Matrix& matrix, int cluster_size) {
  if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
  const std::int64_t least_cols = cluster_size * 32 * 16 / matrix.element_bytes;
  return matrix.cols >= least_cols ? Refusal{} : Refusal{Why::too_few_columns, least_cols};
}

/// Accepts rows of whole packs, if the shared memory of the launcher's clusters holds them.
template <class Launcher>
Refusal fits_shared_memory_of_cluster(const Matrix& matrix, const Gpu& gpu) {
  if (const Refusal refusal = has_clusters(gpu)) return refusal;
  if (const Refusal refusal = has_packs_for_each_lane(matrix, Launcher::cluster_size)) return refusal;
  const std::int64_t most_cols =
      most_cols_of_parts(gpu.dynamic_bytes() - 128, Launcher::cluster_size, matrix);
  return fits_cluster<Launcher>(matrix, gpu, most_cols, Why::shared_memory_of_cluster);
}

/// Sets the attributes that the kernel needs for such a launch, and returns its configuration. `size` must
/// live as long as the returned value.
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

/// How many such clusters the GPU holds at a time; 0 if not even one fits.
template <class Kernel>
int clusters_at_once(Kernel kernel, const RowOnCluster& row) {
  cudaLaunchAttribute size{};
  const cudaLaunchConfig_t config = cluster_config(kernel, row, 1, size);
  int clusters = 0;
  if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) != cudaSuccess) {
    (void)cudaGetLastError();  // this GPU does not support the size
    return 0;
  }
  return clusters;
}

template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), const RowOnCluster& row, std::int64_t clusters,
                     cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute size{};
  cudaLaunchConfig_t config = cluster_config(kernel, row, clusters, size);
  config.stream = stream;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

/// Launches one cluster per row, with the launcher's layout and kernel for such rows. `more` are further
/// arguments.
template <class Launcher, class Op, class T, class... More>
void launch_cluster_per_row(const Tensors<T>& tensors, cudaStream_t stream, More... more) {
  if (tensors.shape.rows == 0) return;
  const RowOnCluster row = Launcher::layout(tensors.row_bytes(), sizeof(T));
  Launcher::template with_kernel<Op, T>(row, [&](auto kernel) {
    launch_clusters(kernel, row, tensors.shape.rows, stream, tensors.x, tensors.y, tensors.shape,
                    row.part_packs, more...);
  });
}
