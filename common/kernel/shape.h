// The shape of a row-major matrix.
#pragma once

#include <cuda/std/cstdint>

struct Shape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  [[nodiscard]] std::int64_t elements() const { return rows * cols; }
};
