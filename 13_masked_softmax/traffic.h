// What the variants of this stage read and write.
#pragma once

#include "13_masked_softmax/separate_masked.cuh"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/forward/warp_reduce.cuh"

inline bool is_padded(const Problem& problem) {
  return problem.inputs().back().dtype == DType::i64;
}

inline std::int64_t pack_size(const Problem& problem) {
  return matrix_of(problem).in_packs() ? 16 / problem.element_bytes() : 1;
}

/// Bytes of the packs of which something is seen.
inline double bytes_seen(const Problem& problem) {
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const bool padded = is_padded(problem);
  const std::int64_t period = padded ? 8 : cols;  // row + period sees as much
  double bytes = 0;
  for (std::int64_t row = 0; row < min(rows, period); ++row) {
    const std::int64_t seen = padded ? length_of_row(row, cols) : row + 1;
    const std::int64_t rows_like_this = (rows - 1 - row) / period + 1;
    bytes += static_cast<double>(round_up(seen, pack_size(problem)) * size * rows_like_this);
  }
  return bytes;
}

/// Bytes of lengths, which each pack of a row asks for, with packs as the offsets allow: the lanes of a warp ask together.
inline double bytes_of_lengths(Problem problem, Offsets offsets) {
  if (!is_padded(problem)) return 0;
  problem.offsets = offsets;
  const std::int64_t packs = divide_up(problem.shape.cols, pack_size(problem));
  return static_cast<double>(8 * problem.shape.rows * divide_up(packs, 32));
}

/// So many reads of what is seen, and writes of a whole matrix. Each read asks for the lengths, and what writes once more.
inline std::function<Traffic(const Problem&)> fused_passes(int reads, int writes, RowCosts row) {
  return [=](const Problem& problem) {
    return Traffic{reads * bytes_seen(problem) + (reads + 1) * bytes_of_lengths(problem, problem.offsets),
                   writes * static_cast<double>(problem.matrix_bytes()), row};
  };
}

inline Traffic passes_in_a_block(const Problem& problem) {
  const double barriers = FusedRegisterSoftmax::barriers(problem.shape.cols);
  return fused_passes(1, 2, {.barriers = barriers, .bank_conflicts = {}})(problem);
}

/// The kernels that mask and that do the softmax ask for lengths. The workspace has no offset.
inline Traffic passes_of_four(const Problem& problem) {
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  const double lengths =
      bytes_of_lengths(problem, {0, 0}) + bytes_of_lengths(problem, {0, problem.offsets.output});
  const double barriers = FusedRegisterSoftmax::barriers(problem.shape.cols);
  return {4 * matrix + lengths, 4 * matrix, {.barriers = barriers, .bank_conflicts = {}}};
}

/// The last kernel asks for lengths.
inline Traffic passes_of_three(const Problem& problem) {
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  const std::int64_t offset = problem.offsets.output;
  return {4 * matrix + bytes_of_lengths(problem, {offset, offset}), 3 * matrix};
}
