// What rows clusters of the current device take.
#pragma once

#include "10_cluster/cluster_launch.cuh"
#include "common/rowwise/dispatch/kernels.h"

namespace rowwise {

/// Whether so many blocks, with so much of the row each, fit. Launcher::layout(row_bytes, more...) lays it out.
template <class Launcher, class... More>
bool fits_cluster(const Matrix& matrix, const Gpu& gpu, More... more) {
  // Beyond it the layout would be of no use, and its numbers need not fit 32 bits.
  if (matrix.row_bytes() > gpu.most_blocks_of_cluster * gpu.shared_bytes) return false;
  const RowOnCluster row = Launcher::layout(matrix.row_bytes(), more...);
  return row.cluster_size <= gpu.most_blocks_of_cluster &&
         row.shared_bytes <= gpu.shared_bytes - most_static_bytes && row.block_size() <= 1024;
}

}  // namespace rowwise
