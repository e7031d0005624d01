// The traffic of the variants of this stage, with which the simulator's counts are compared.
#pragma once

#include "06_online/traffic.h"
#include "13_masked_softmax/separate_masked.cuh"
#include "common/harness/launches.cuh"

inline bool is_padded(const Problem& problem) {
  return problem.inputs().back().dtype == DType::i64;
}

inline std::int64_t pack_size(const Problem& problem) {
  return matrix_of(problem).in_packs() ? 16 / problem.element_bytes() : 1;
}

/// The bytes of the packs that hold at least one visible element.
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

/// The bytes of lengths that are read. Each pack of a row needs the row's length, which the lanes of a warp
/// read together. The offsets decide how wide packs are.
inline double bytes_of_lengths(Problem problem, Offsets offsets) {
  if (!is_padded(problem)) return 0;
  problem.offsets = offsets;
  const std::int64_t packs = divide_up(problem.shape.cols, pack_size(problem));
  return static_cast<double>(8 * problem.shape.rows * divide_up(packs, 32));
}

/// A kernel that reads the visible elements `reads` times and writes a whole matrix `writes` times. Each read
/// needs the lengths, and the writes need them once more.
inline std::function<Traffic(const Problem&)> fused_passes(int reads, int writes, RowCosts row) {
  return [=](const Problem& problem) {
    return Traffic{reads * bytes_seen(problem) + (reads + 1) * bytes_of_lengths(problem, problem.offsets),
                   writes * static_cast<double>(problem.matrix_bytes()), row};
  };
}

inline Traffic passes_in_a_block(const Problem& problem) {
  const double barriers = fused_barriers(problem.shape.cols);
  return fused_passes(1, 2, {.barriers = barriers, .bank_conflicts = {}})(problem);
}

/// Two of the kernels read the lengths: the one that masks, and the softmax. The workspace has no offset.
inline Traffic passes_of_four(const Problem& problem) {
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  const double lengths =
      bytes_of_lengths(problem, {0, 0}) + bytes_of_lengths(problem, {0, problem.offsets.output});
  const double barriers = fused_barriers(problem.shape.cols);
  return {4 * matrix + lengths, 4 * matrix, {.barriers = barriers, .bank_conflicts = {}}};
}

/// Only the last kernel reads the lengths.
inline Traffic passes_of_three(const Problem& problem) {
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  const std::int64_t offset = problem.offsets.output;
  return {4 * matrix + bytes_of_lengths(problem, {offset, offset}), 3 * matrix};
}
