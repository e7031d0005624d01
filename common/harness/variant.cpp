#include "common/harness/variant.h"

double passes(const Traffic& traffic, const Problem& problem) {
  if (problem.shape.elements() == 0) return 0;
  return (traffic.bytes_read + traffic.bytes_written) / static_cast<double>(problem.matrix_bytes());
}

std::function<Traffic(const Problem&)> whole_passes(double reads, double writes, RowCosts row) {
  return [reads, writes, row](const Problem& problem) {
    const auto bytes = static_cast<double>(problem.matrix_bytes());
    return Traffic{reads * bytes, writes * bytes, row};
  };
}

Traffic least_traffic(const Problem& problem) {
  return {static_cast<double>(problem.least_bytes()), 0};
}

double effective_bandwidth_gb_s(const Problem& problem, double microseconds) {
  return static_cast<double>(problem.least_bytes()) / (microseconds * 1e3);
}

Matrix matrix_of(const Problem& problem) {
  const std::int64_t size = problem.element_bytes();
  const std::int64_t begins =
      (problem.offsets.input | problem.offsets.output | problem.offsets.next) * size | 16;
  return {.rows = problem.shape.rows,
          .cols = problem.shape.cols,
          .element_bytes = size,
          .alignment = begins & -begins,
          .lie_alike = problem.lie_alike()};
}
