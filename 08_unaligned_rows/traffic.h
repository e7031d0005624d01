// The traffic of two variants of this stage. The other variants read each element exactly once.
#pragma once

#include "common/harness/variant.h"
#include "common/rowwise/kernels/forward/row_in_flight.cuh"

/// The kernel reads every pack that holds an element of the row, provided that x begins at a pack.
inline Traffic shifted_passes(const Problem& problem) {
  Traffic traffic = whole_passes(1, 1)(problem);
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const std::int64_t pack = 16 / size;
  std::int64_t elements = 0;
  for (std::int64_t row = 0; row < min(rows, pack); ++row) {  // row + pack begins as far past a pack
    const std::int64_t past = row * cols % pack;
    elements += round_up(past + cols, pack) * ((rows - 1 - row) / pack + 1);
  }
  // A pack that reaches out of the tensor is read element by element by each row that has some of it.
  const std::int64_t cut_pack = rows * cols / pack * pack;
  for (std::int64_t row = cut_pack / cols; row < rows; ++row) {
    elements -= pack - ((row + 1) * cols - max(row * cols, cut_pack));
  }
  traffic.bytes_read = static_cast<double>(elements * size);
  return traffic;
}

/// The kernel reads again the elements that do not fit the shared memory of an H200.
inline Traffic row_in_flight_passes(const Problem& problem) {
  Traffic traffic = whole_passes(1, 1)(problem);
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const std::int64_t line = 128 / size;
  const std::int64_t most_kept = most_kept_packs(cols * size, 227 << 10) * 16 / size;
  for (std::int64_t row = 0; row < min(rows, line); ++row) {  // row + line begins as far past a line
    const std::int64_t head = (line - row * cols % line) % line;
    const std::int64_t again = max(cols - head - most_kept, std::int64_t{0});
    traffic.bytes_read += static_cast<double>(again * size * ((rows - 1 - row) / line + 1));
  }
  return traffic;
}
