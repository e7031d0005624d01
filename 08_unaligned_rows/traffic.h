// The traffic of row_in_flight. The other variants read each element exactly once.
#pragma once

#include "common/harness/variant.h"
#include "common/rowwise/kernels/forward/row_in_flight.cuh"

/// The kernel reads again the elements that do not fit the shared memory of an H200.
inline Traffic row_in_flight_passes(const Problem& problem) {
  Traffic traffic = whole_passes(1, 1)(problem);
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const std::int64_t line = 128 / size;
  const std::int64_t most_kept = rowwise::most_kept_packs(cols * size, 227 << 10) * 16 / size;
  for (std::int64_t row = 0; row < min(rows, line); ++row) {  // row + line begins as far past a line
    const std::int64_t head = (line - row * cols % line) % line;
    const std::int64_t again = max(cols - head - most_kept, std::int64_t{0});
    traffic.bytes_read += static_cast<double>(again * size * ((rows - 1 - row) / line + 1));
  }
  return traffic;
}
