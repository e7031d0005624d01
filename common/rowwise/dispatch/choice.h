// Which kernel does which matrix. `python3 common/tools choices` writes the table, choices.inc, from recorded
// times; this file reads it, on the host, before every launch.
//
// Source: the segments of OneFlow's softmax, which were guessed for one GPU: a warp per row up to 1024
// columns, then shared memory as far as it suffices, then neither.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "common/rowwise/dispatch/kernels.h"

namespace rowwise {

/// An entry of the table: the kernel for up to `rows` rows and `cols` columns.
template <class Kernel>
struct Choice {
  std::int64_t most_rows;
  std::int64_t most_cols;
  Kernel kernel;
};
inline constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();

#include "common/rowwise/dispatch/choices.inc"

template <class Kernel>
struct Choices {
  std::span<const Choice<Kernel>> lines;
  std::span<const Choice<Kernel>> without_clusters;
};
/// For such a matrix.
template <class Kernel>
Choices<Kernel> choices_for(const Matrix& matrix);

/// Returns the kernel of the first line that holds the matrix, if that kernel can compute it; otherwise the
/// search goes on in the next line or, if a kernel with clusters cannot run (no clusters, no workspace), in
/// `without_clusters`. The last line there takes every matrix; for softmax's gradient, only with a workspace.
template <class Kernel>
Kernel choose(const Matrix& matrix, const Gpu& gpu, bool has_workspace) {
  const double rows = static_cast<double>(matrix.rows) * recorded_multiprocessors / gpu.multiprocessors;
  const auto holds = [&](const Choice<Kernel>& line) {
    return rows <= static_cast<double>(line.most_rows) && matrix.cols <= line.most_cols;
  };
  const auto can = [&](Kernel kernel) {
    return can_do(kernel, matrix, gpu) && (has_workspace || need(kernel, matrix).workspace_bytes == 0);
  };
  const auto [lines, without_clusters] = choices_for<Kernel>(matrix);
  for (const Choice<Kernel>& line : lines) {
    if (!holds(line)) continue;
    if (can(line.kernel)) return line.kernel;
    if (need(line.kernel, matrix).clusters) break;
  }
  for (const Choice<Kernel>& line : without_clusters) {
    if (holds(line) && can(line.kernel)) return line.kernel;
  }
  return without_clusters.back().kernel;
}

}  // namespace rowwise
