// The double-precision reference of one row, on the host: for messages that explain what an element should be.
#pragma once

#include <cstdint>

struct ReferenceRow {
  double max = 0;
  double sum = 0;  ///< of exp(x - max)
  [[nodiscard]] double softmax(double x) const;
};

ReferenceRow reference_row(const float* x, std::int64_t cols);
