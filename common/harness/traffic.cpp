#include "common/harness/traffic.h"

double passes(const Traffic& traffic, const Problem& problem) {
  if (problem.shape.elements() == 0) return 0;
  return (traffic.bytes_read + traffic.bytes_written) / static_cast<double>(problem.tensor_bytes());
}

double effective_bandwidth_gb_s(const Problem& problem, double microseconds) {
  return 2.0 * static_cast<double>(problem.tensor_bytes()) / (microseconds * 1e3);
}

std::function<Traffic(const Problem&)> whole_passes(double reads, double writes, RowCosts row) {
  return [reads, writes, row](const Problem& problem) {
    const auto bytes = static_cast<double>(problem.tensor_bytes());
    return Traffic{reads * bytes, writes * bytes, row};
  };
}
