#include "common/harness/variant.h"

std::function<std::string(const Problem&, const Device&)> at_most_columns(std::int64_t cols,
                                                                          const std::string& reason) {
  return [=](const Problem& problem, const Device&) {
    return problem.shape.cols <= cols ? "" : reason + ": at most " + std::to_string(cols) + " columns";
  };
}
