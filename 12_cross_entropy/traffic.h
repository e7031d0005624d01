// The traffic of the variants of this stage.
#pragma once

#include "12_cross_entropy/fused_loss.cuh"
#include "common/harness/launches.cuh"

inline bool makes_gradient(const Problem& problem) {
  return is_one_of(OpList<CrossEntropyGradient>{}, problem.op);
}

/// The rows whose label is a column.
inline double labelled_rows(const Problem& problem) {
  const std::int64_t ignored_rows = (problem.shape.rows + 5) / 8;  // as the harness fills labels
  return static_cast<double>(problem.shape.rows - ignored_rows);
}

/// A kernel reads x `reads` times, the label of each row in `label_readers` warps, and `at_labels` bytes of
/// each labelled row once more. It writes the loss and, for the gradient, dx: the element at the label twice.
inline Traffic traffic_of(const Problem& problem, double reads, double label_readers, double at_labels,
                          RowCosts row = {}) {
  const auto rows = static_cast<double>(problem.shape.rows);
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  const double labelled = labelled_rows(problem);
  const double dx = matrix + labelled * static_cast<double>(problem.element_bytes());
  return {reads * matrix + 8 * label_readers * rows + at_labels * labelled,
          (makes_gradient(problem) ? dx : 0) + 4 * rows, row};
}

inline Traffic one_read_passes(const Problem& problem) {
  const auto x_label = static_cast<double>(problem.element_bytes());
  return traffic_of(problem, 1, 1, x_label, {.barriers = 2, .bank_conflicts = {}});
}

/// The first kernel writes a matrix of floats, which is read again for the gradient. Each kernel after it
/// reads its float at the label.
inline Traffic unfused_passes(const Problem& problem) {
  const std::int64_t cols = problem.shape.cols;
  const bool fits_packs = cols % 4 == 0 && problem.offsets.output % 4 == 0;
  const unsigned block_size = fits_packs ? block_size_for<4>(cols, 1024) : block_size_for<1>(cols, 1024);
  const bool gradient = makes_gradient(problem);
  Traffic traffic = traffic_of(problem, 2, 1 + (gradient ? block_size / 32 : 0), gradient ? 8 : 4);
  const auto floats = 4 * static_cast<double>(problem.shape.elements());
  traffic.bytes_read += gradient ? floats : 0;
  traffic.bytes_written += floats;
  return traffic;
}

/// Every warp of a block reads the label. It finds x[label] in shared memory.
inline Traffic in_shared_memory_passes(const Problem& problem) {
  const std::int64_t packs = problem.shape.cols * problem.element_bytes() / 16;
  const int threads = threads_for(packs, 16 * packs, most_shared_bytes());
  return traffic_of(problem, 1, threads / 32, 0, {.barriers = 1, .bank_conflicts = {}});
}
