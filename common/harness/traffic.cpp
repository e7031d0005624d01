#include "common/harness/traffic.h"

double passes(const Traffic& traffic, const Problem& problem) {
  if (problem.shape.elements() == 0) return 0;
  return (traffic.bytes_read + traffic.bytes_written) / static_cast<double>(problem.matrix_bytes());
}

double least_passes(const Problem& problem) {
  return passes({static_cast<double>(problem.least_bytes()), 0}, problem);
}

double effective_bandwidth_gb_s(const Problem& problem, double microseconds) {
  return static_cast<double>(problem.least_bytes()) / (microseconds * 1e3);
}

std::function<Traffic(const Problem&)> whole_passes(double reads, double writes, RowCosts row) {
  return [reads, writes, row](const Problem& problem) {
    const auto bytes = static_cast<double>(problem.matrix_bytes());
    return Traffic{reads * bytes, writes * bytes, row};
  };
}
