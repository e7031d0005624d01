// Who does what. The table is in choices.inc, written by `python3 common/tools choices` from what was recorded; here is how it is
// read, on the host, before every launch.
//
// Source: the segments of OneFlow's softmax, which were guessed for one GPU: up to 1024 columns a warp, then shared memory where
// it suffices, then neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "13_dispatch/kernels.h"

namespace rowwise {

/// A line of the table: up to so many rows and columns.
template <class Kernel>
struct Choice {
  std::int64_t most_rows;
  std::int64_t most_cols;
  Kernel kernel;
};
inline constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();

#include "13_dispatch/choices.inc"

/// The lines for such a matrix.
template <class Kernel>
std::span<const Choice<Kernel>> choices_for(const Matrix& matrix);

/// The kernel of the first line that holds the matrix, which can do it with so much workspace. The last line's can do anything
/// that the operation is defined for.
template <class Kernel>
Kernel choose(const Matrix& matrix, const Gpu& gpu, std::size_t workspace_bytes) {
  const double rows = static_cast<double>(matrix.rows) * recorded_multiprocessors / gpu.multiprocessors;
  const auto lines = choices_for<Kernel>(matrix);
  for (const Choice<Kernel>& line : lines) {
    if (rows <= static_cast<double>(line.most_rows) && matrix.cols <= line.most_cols &&
        can_do(line.kernel, matrix, gpu) && need(line.kernel, matrix).bytes <= workspace_bytes) {
      return line.kernel;
    }
  }
  return lines.back().kernel;
}

}  // namespace rowwise
