#include <cmath>
#include <cstdio>

#include "common/harness/compare.cuh"
#include "common/harness/verify.h"

namespace {

/// Position and bits of two bytes (the size of the smallest element), mixed so that two changes do not
/// cancel.
struct ChecksumPart {
  const std::uint16_t* data;
  __host__ __device__ std::uint64_t operator()(std::int64_t index) const {
    std::uint64_t z = (static_cast<std::uint64_t>(index) << 20) + data[index] + 1;
    z = (z ^ (z >> 31)) * 0x94d049bb133111eb;
    return z ^ (z >> 30);
  }
};

struct Add {
  __host__ __device__ std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};

}  // namespace

std::string compare_detail::explain(const Findings& findings, Shape shape) {
  char text[256];
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  // The sign of a NaN depends on the instruction that computed it, and means nothing.
  const auto value = [](double of) { return std::isnan(of) ? std::fabs(of) : of; };
  const long long elements = number(shape.elements());
  const long long row = number(findings.first_wrong / shape.cols);
  const long long col = number(findings.first_wrong % shape.cols);
  if (findings.not_written > 0) {
    std::snprintf(text, sizeof text,
                  "%lld of %lld elements never written, %lld wrong in all; first at row %lld, column %lld",
                  number(findings.not_written), elements, number(findings.wrong), row, col);
  } else {
    std::snprintf(text, sizeof text,
                  "%lld of %lld elements wrong; first at row %lld, column %lld: got %.9g, expected %.9g",
                  number(findings.wrong), elements, row, col, value(findings.got), value(findings.expected));
  }
  return text;
}

Tolerance tolerance(DType dtype) {
  constexpr double f32_sum = 2e-5;  // a float sum of 100 000 terms, and exp of a rounded x - max
  constexpr double f32_smallest = 0x1p-126;
  switch (dtype) {
    case DType::f32:
    case DType::i64:  // outputs are floats
      return {f32_smallest, f32_sum};
    case DType::f16:
      return {0x1p-24, 0x1p-11 + f32_sum};
    case DType::bf16:
      return {f32_smallest, 0x1p-8 + f32_sum};
  }
  return {};
}

std::uint64_t checksum(const Tensor& tensor, const void* data, Space space) {
  return dispatch_space(space, [&]<class Where>() {
    const ChecksumPart part{static_cast<const std::uint16_t*>(data)};
    const auto parts = static_cast<std::int64_t>(tensor.bytes() / sizeof(std::uint16_t));
    return reduce<Where>(parts, part, std::uint64_t{0}, Add{});
  });
}
