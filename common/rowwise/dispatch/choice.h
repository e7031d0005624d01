// Which kernel does which matrix. `./run tune` measures all kernels, and writes a table; this file reads it, on the host, before every
// launch.
//
// Source: the segments of OneFlow's softmax, which were guessed for one GPU: a warp per row up to 1024
// columns, then shared memory as far as it suffices, then neither.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "common/rowwise/dispatch/kernels.h"

namespace rowwise {

/// A line of the table: the kernel for up to `most_rows` rows and `most_cols` columns.
template <class Kernel>
struct Choice {
  std::int64_t most_rows;
  std::int64_t most_cols;
  Kernel kernel;
};
inline constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();

template <class Kernel>
struct Choices {
  std::span<const Choice<Kernel>> lines;
  int multiprocessors;  ///< of the GPU that was measured
};
/// For such a matrix, on the current device. Throws std::invalid_argument if the file that the environment variable ROWWISE_TABLE
/// names is not a table of that GPU.
template <class Kernel>
Choices<Kernel> choices_for(const Matrix& matrix);

/// Which table that is: "the table of NVIDIA H200, which is compiled in".
const std::string& name_of_table();

/// Returns the kernel of the first line that holds the matrix, if that kernel can compute it here; otherwise the search goes on. The
/// last line takes every matrix; for softmax's gradient, only with a workspace. Rows are counted as the GPU that was measured would
/// see them: half as many multiprocessors are as busy with half as many rows.
template <class Kernel>
Kernel choose(const Matrix& matrix, const Gpu& gpu, bool has_workspace) {
  const auto [lines, multiprocessors] = choices_for<Kernel>(matrix);
  const double rows = static_cast<double>(matrix.rows) * multiprocessors / gpu.multiprocessors;
  const auto can = [&](Kernel kernel) {
    return can_do(kernel, matrix, gpu) && (has_workspace || need(kernel, matrix).workspace_bytes == 0);
  };
  // The lines are in the order of their rows: those before `first` are for fewer.
  const auto first = std::partition_point(lines.begin(), lines.end(), [rows](const Choice<Kernel>& line) {
    return static_cast<double>(line.most_rows) < rows;
  });
  for (const Choice<Kernel>& line : std::span(first, lines.end())) {
    if (matrix.cols <= line.most_cols && can(line.kernel)) return line.kernel;
  }
  return lines.back().kernel;
}

}  // namespace rowwise
