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

std::function<std::string(const Problem&, const Device&)> at_most_columns(std::int64_t cols,
                                                                          const std::string& reason) {
  return [=](const Problem& problem, const Device&) {
    return problem.shape.cols <= cols ? "" : reason + ": at most " + std::to_string(cols) + " columns";
  };
}

std::string not_whole_packs(const Problem& problem) {
  const auto size = static_cast<std::int64_t>(size_of(problem.dtype));
  const bool whole = problem.shape.cols * size % 16 == 0 && problem.offsets.input * size % 16 == 0 &&
                     problem.offsets.output * size % 16 == 0;
  return whole ? "" : "rows must begin at packs of 16 bytes and be made of them";
}
