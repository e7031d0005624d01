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

std::string not_whole_packs(const Problem& problem, std::int64_t pack_bytes) {
  const std::int64_t size = problem.element_bytes();
  const auto [input, output] = problem.offsets;
  const bool whole = problem.shape.cols * size % pack_bytes == 0 && input * size % pack_bytes == 0 &&
                     output * size % pack_bytes == 0;
  if (whole) return "";
  return "rows must begin at packs of " + std::to_string(pack_bytes) + " bytes and be made of them";
}

std::int64_t odd_pack_bytes(const Problem& problem) {
  const std::int64_t row_bytes = problem.shape.cols * problem.element_bytes();
  return row_bytes & -row_bytes;
}

std::string not_in_odd_packs(const Problem& problem) {
  const std::int64_t pack = odd_pack_bytes(problem);
  const std::int64_t size = problem.element_bytes();
  const bool begins = problem.offsets.input * size % pack == 0 && problem.offsets.output * size % pack == 0;
  return pack <= 8 && begins
             ? ""
             : "rows must begin at packs of 8 or 4 bytes, or at elements, and be an odd number of them";
}

std::string needs_clusters(const Device& device) {
  return std::stoi(device.compute_capability) < 9 ? "needs clusters (9.0)" : "";
}
