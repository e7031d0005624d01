// The traffic of the variant of this stage that reads more than each matrix once.
#pragma once

#include "11_backward/recomputed.cuh"
#include "common/harness/launches.cuh"

/// Each warp of a block reads the pair of its row, besides x and dy.
inline Traffic recomputed_passes(const Problem& problem) {
  Traffic traffic = whole_passes(2, 1, {.barriers = 2, .bank_conflicts = 0})(problem);
  with_gradient_block(problem.shape.cols, [&]<int elements>(unsigned threads) {
    traffic.bytes_read += static_cast<double>(problem.shape.rows * 8 * (threads / 32));
  });
  return traffic;
}
