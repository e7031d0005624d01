// The traffic of the variants of this stage.
#pragma once

#include "06_online/traffic.h"
#include "12_cross_entropy/fused_loss.cuh"
#include "common/harness/launches.cuh"

inline bool makes_gradient(const Problem& problem) {
  return is_one_of(OpList<CrossEntropyGradient>{}, problem.op);
}

/// The bytes of x at the labels that are columns.
inline double bytes_at_labels(const Problem& problem) {
  const std::int64_t ignored_rows = (problem.shape.rows + 5) / 8;  // as the harness fills labels
  return static_cast<double>((problem.shape.rows - ignored_rows) * problem.element_bytes());
}

/// A kernel reads x `reads` times and the label of each row in `label_readers` warps; it reads x[label] a
/// second time. It writes the loss and, for the gradient, dx.
inline Traffic traffic_of(const Problem& problem, double reads, double label_readers, RowCosts row = {}) {
  const auto rows = static_cast<double>(problem.shape.rows);
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  return {reads * matrix + 8 * label_readers * rows + bytes_at_labels(problem),
          (makes_gradient(problem) ? matrix : 0) + 4 * rows, row};
}

inline Traffic one_read_passes(const Problem& problem) {
  return traffic_of(problem, 1, 1, {.barriers = 2, .bank_conflicts = {}});
}

/// The first kernel writes a matrix of floats, which is read again for the gradient.
inline Traffic unfused_passes(const Problem& problem) {
  const auto [rows, cols] = problem.shape;
  const bool fits_packs = cols % 4 == 0 && problem.offsets.output % 4 == 0;
  const unsigned block_size = fits_packs ? block_size_for<4>(cols, 1024) : block_size_for<1>(cols, 1024);
  Traffic traffic = traffic_of(problem, 2, 1 + (makes_gradient(problem) ? block_size / 32 : 0));
  const auto floats = 4 * static_cast<double>(problem.shape.elements());
  traffic.bytes_read += (makes_gradient(problem) ? floats : 0) +
                        static_cast<double>((rows - (rows + 5) / 8) * (4 - problem.element_bytes()));
  traffic.bytes_written += floats;
  return traffic;
}

/// Every warp of a block reads the label.
inline Traffic in_registers_passes(const Problem& problem) {
  const std::int64_t cols = problem.shape.cols;
  const double barriers = fused_barriers(cols);
  return traffic_of(problem, 1, fused_warps(cols), {.barriers = barriers, .bank_conflicts = {}});
}
