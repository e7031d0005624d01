// The traffic of the variants of this stage.
#pragma once

#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/loss/in_registers.cuh"
#include "common/rowwise/kernels/loss/kept_row.cuh"
#include "common/rowwise/kernels/loss/loss.cuh"
#include "common/rowwise/kernels/loss/span_loss.cuh"
#include "common/rowwise/kernels/loss/unaligned_cluster.cuh"

inline bool makes_gradient(const Problem& problem) {
  return is_one_of(LossesWithGradient{}, problem.op);
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

inline std::function<Traffic(const Problem&)> in_one_read(RowCosts row = {}) {
  return [=](const Problem& problem) { return traffic_of(problem, 1, 1, row); };
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

/// The kernel reads again the elements that do not fit the shared memory of an H200.
template <bool keeps>
Traffic kept_passes(const Problem& problem) {
  constexpr std::int64_t most_bytes = 227 << 10;
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const std::int64_t kept = rowwise::KeptRows<keeps>::kept_cols(cols, most_bytes, size);
  const double warps =
      rowwise::KeptRows<keeps>::threads(cols * size, rowwise::bytes_with_place(kept * size), most_bytes) / 32;
  Traffic traffic = traffic_of(problem, 1, warps, {.barriers = 3, .bank_conflicts = {}});
  if (kept == cols) return traffic;
  const std::int64_t line = rowwise::line_bytes / size;
  for (std::int64_t row = 0; row < min(rows, line); ++row) {  // row + line begins as far past a line
    const std::int64_t head = (line - row * cols % line) % line;
    const std::int64_t in_kept_packs = head + (kept - head) * size / 16 * 16 / size;
    const std::int64_t again = cols - (kept > head ? in_kept_packs : 0);
    traffic.bytes_read += static_cast<double>(again * size * ((rows - 1 - row) / line + 1));
  }
  return traffic;
}

inline Traffic in_registers_passes(const Problem& problem) {
  dim3 block;
  const auto keep = [&]<int packs_per_thread>(dim3 found) { block = found; };
  if (problem.element_bytes() == 4) {
    rowwise::InRegisters::with_block<4>(problem.shape.cols, keep);
  } else {
    rowwise::InRegisters::with_block<8>(problem.shape.cols, keep);
  }
  return traffic_of(problem, 1, block.x / 32, {.barriers = block.y > 1 ? 0 : 2, .bank_conflicts = {}});
}

/// Each part of a row reads the label.
inline Traffic span_passes(const Problem& problem) {
  const std::int64_t cols = problem.shape.cols;
  const std::int64_t pack = matrix_of(problem).odd_pack_bytes() / problem.element_bytes();
  const rowwise::SpanParts of_row = pack == 4   ? rowwise::parts_of_row<4>(cols)
                                    : pack == 2 ? rowwise::parts_of_row<2>(cols)
                                                : rowwise::parts_of_row<1>(cols);
  Traffic traffic = traffic_of(problem, 1, of_row.parts);
  traffic.bytes_read -= bytes_at_labels(problem);  // which are found in the span
  return traffic;
}

inline Traffic unaligned_cluster_passes(const Problem& problem) {
  const RowOnCluster row =
      rowwise::UnalignedInCluster::layout(problem.shape.cols * problem.element_bytes(), problem.shape.rows);
  Traffic traffic = traffic_of(problem, 1, row.cluster_size * row.block_size() / 32);
  traffic.bytes_read -= bytes_at_labels(problem);  // which are read from shared memory
  return traffic;
}

inline Traffic one_read(const Problem& problem) {
  const bool has_a_warp = rowwise::OneRead::block(problem.shape.cols * problem.element_bytes()).x == 32;
  return traffic_of(problem, 1, 1, {.barriers = has_a_warp ? 0 : 2, .bank_conflicts = {}});
}
