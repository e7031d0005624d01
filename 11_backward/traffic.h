// The traffic of the variants of this stage that read more than each matrix once.
#pragma once

#include "11_backward/recomputed.cuh"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/backward/unaligned.cuh"

/// The kernels read y and dy twice. The sum of log-softmax needs only dy.
inline Traffic reads_for_the_sum_and_again(const Problem& problem) {
  const int reads = is_one_of(OpList<LogSoftmaxBackward>{}, problem.op) ? 3 : 4;
  return whole_passes(reads, 1)(problem);
}

/// The kernel reads a second time the elements that do not fit the shared memory of an H200.
inline Traffic unaligned_passes(const Problem& problem) {
  Traffic traffic = whole_passes(2, 1, {.barriers = 4, .bank_conflicts = {}})(problem);
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const std::int64_t pack = 16 / size;
  const std::int64_t kept = rowwise::most_kept_cols_of_two_rows(227 << 10, size);
  if (kept >= cols) return traffic;
  for (std::int64_t row = 0; row < min(rows, pack); ++row) {  // row + pack begins as far past a pack
    const std::int64_t head = (pack - row * cols % pack) % pack;
    const std::int64_t in_kept_packs = head + (kept - head) / pack * pack;
    const std::int64_t more = 2 * (kept + 2 * (cols - in_kept_packs) - cols);
    traffic.bytes_read += static_cast<double>(more * size * ((rows - 1 - row) / pack + 1));
  }
  return traffic;
}

/// Each warp of a block reads the pair of its row, besides x and dy.
inline Traffic recomputed_passes(const Problem& problem) {
  Traffic traffic = whole_passes(2, 1, {.barriers = 2, .bank_conflicts = 0})(problem);
  traffic.bytes_read += static_cast<double>(problem.shape.rows * 8 * Recomputed::warps(problem.shape.cols));
  return traffic;
}
