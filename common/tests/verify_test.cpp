#include "common/harness/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/harness/operation.h"
#include "common/harness/traffic.h"

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

/// Softmax in long double, written independently of the project's reference.
std::vector<float> softmax(const std::vector<float>& x, Shape shape, const Operation* op) {
  std::vector<float> y(x.size());
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* row_x = x.data() + row * shape.cols;
    long double max = -infinity;
    for (std::int64_t col = 0; col < shape.cols; ++col) max = std::max<long double>(max, row_x[col]);
    long double sum = 0;
    for (std::int64_t col = 0; col < shape.cols; ++col) sum += std::exp(row_x[col] - max);
    for (std::int64_t col = 0; col < shape.cols; ++col) {
      const long double value =
          op == &softmax_operation ? std::exp(row_x[col] - max) / sum : row_x[col] - max - std::log(sum);
      y[row * shape.cols + col] = static_cast<float>(value);
    }
  }
  return y;
}

Problem f32(Shape shape, const Operation* op = &softmax_operation) {
  return {shape, DType::f32, op};
}

Verdict compare_with_reference(const Problem& problem, const void* x, const void* y,
                               double tolerance_factor = 1) {
  void* const inputs[] = {const_cast<void*>(x)};
  void* const outputs[] = {const_cast<void*>(y)};
  return problem.op->verify(problem, {inputs, outputs, Space::host}, tolerance_factor).front();
}

Verdict compare(const Problem& problem, const std::vector<float>& x, const std::vector<float>& y) {
  return compare_with_reference(problem, x.data(), y.data());
}

std::vector<float> input(InputKind kind, Shape shape) {
  std::vector<float> x(shape.elements());
  fill_input(kind, 1, DType::f32, shape, x.data(), Space::host);
  return x;
}

TEST(Verify, AcceptsAnIndependentSoftmaxOfEveryFiniteInput) {
  for (const InputKind kind :
       {InputKind::normal, InputKind::uniform, InputKind::large_magnitude, InputKind::all_equal,
        InputKind::very_negative, InputKind::ascending, InputKind::one_outlier, InputKind::neg_inf_prefix}) {
    for (const Operation* op : softmax_operations()) {
      for (const Shape shape : {Shape{1, 1}, Shape{3, 7}, Shape{5, 2500}}) {
        const std::vector<float> x = input(kind, shape);
        const Verdict verdict = compare(f32(shape, op), x, softmax(x, shape, op));
        EXPECT_TRUE(verdict.correct) << name(kind) << ": " << verdict.explanation;
        EXPECT_LT(verdict.max_error, 0.1) << name(kind);
      }
    }
  }
}

TEST(Verify, CatchesOneWrongElement) {
  const Shape shape{3, 50000};
  const std::vector<float> x = input(InputKind::normal, shape);
  const std::vector<float> right = softmax(x, shape, &softmax_operation);
  // All of these would pass under an absolute tolerance of 1e-4: the mean result is 2e-5.
  for (const float factor : {1.0001f, 0.9999f, 0.0f, 2.0f}) {
    std::vector<float> y = right;
    y[2 * 50000 + 49999] *= factor;
    const Verdict verdict = compare(f32(shape), x, y);
    EXPECT_FALSE(verdict.correct) << factor;
    EXPECT_GT(verdict.max_error, 1) << factor;
    EXPECT_EQ(verdict.explanation.rfind("1 of 150000 elements wrong; first at row 2, column 49999: got ", 0),
              0U)
        << verdict.explanation;
  }
}

TEST(Verify, TheToleranceFactorSaysWhatIsWrongAndLeavesTheErrorInUnitsOfTheTolerance) {
  const Shape shape{1, 2};
  const Tolerance allowed = tolerance(DType::f32);
  const std::vector<float> x{0, 0};
  const std::vector<float> y{0.5F, static_cast<float>(0.5 * (1 + 2.5 * allowed.relative))};
  for (const double factor : {1., 2., 3.}) {
    const Verdict verdict = compare_with_reference(f32(shape), x.data(), y.data(), factor);
    EXPECT_EQ(verdict.correct, factor == 3) << factor;
    EXPECT_EQ(verdict.explanation.empty(), factor == 3) << factor;
    EXPECT_NEAR(verdict.max_error, 2.5, 0.01) << factor;
  }
  const std::vector<float> nan{0.5F, quiet_nan};
  EXPECT_FALSE(compare_with_reference(f32(shape), x.data(), nan.data(), 1e30).correct);
}

TEST(Verify, NanIsRightOnlyWhereTheReferenceIsNan) {
  const Shape shape{2, 3};
  EXPECT_FALSE(compare(f32(shape), {1, 2, 3, 1, 2, 3}, {quiet_nan, .2F, .6F, .1F, .2F, .7F}).correct);
  const std::vector<float> x{quiet_nan, 2, 3, -infinity, -infinity, -infinity};
  EXPECT_TRUE(compare(f32(shape), x, std::vector<float>(6, quiet_nan)).correct);
  EXPECT_FALSE(compare(f32(shape), x, {quiet_nan, 0.3F, 0.7F, quiet_nan, quiet_nan, quiet_nan}).correct);
  EXPECT_FALSE(compare(f32(shape), x, {quiet_nan, quiet_nan, quiet_nan, 0, 0, 0}).correct);
}

TEST(Verify, InfinitiesAsTorchHasThem) {
  const Shape shape{1, 3};
  EXPECT_TRUE(compare(f32(shape), {-infinity, 0, 0}, {0, 0.5F, 0.5F}).correct);
  EXPECT_FALSE(compare(f32(shape), {-infinity, 0, 0}, {quiet_nan, 0.5F, 0.5F}).correct);
  const float half = std::log(0.5F);
  EXPECT_TRUE(
      compare(f32(shape, &log_softmax_operation), {-infinity, 0, 0}, {-infinity, half, half}).correct);
  EXPECT_FALSE(compare(f32(shape, &log_softmax_operation), {-infinity, 0, 0}, {-1e30F, half, half}).correct);
  EXPECT_TRUE(compare(f32(shape), {infinity, 0, 0}, std::vector<float>(3, quiet_nan)).correct);
  EXPECT_FALSE(compare(f32(shape), {infinity, 0, 0}, {1, 0, 0}).correct);
}

TEST(Verify, PoisonCountsAsNotWrittenEvenWhereNanIsRight) {
  const Shape shape{1, 2};
  std::vector<float> y(2);
  std::memset(y.data(), poison_byte, sizeof(float) * y.size());
  const Verdict verdict = compare(f32(shape), {quiet_nan, 1}, y);
  EXPECT_FALSE(verdict.correct);
  EXPECT_EQ(verdict.explanation, "2 of 2 elements never written, 2 wrong in all; first at row 0, column 0");
}

TEST(Verify, ToleranceFollowsTheDtype) {
  for (const DType dtype : all_dtypes()) {
    const Tolerance allowed = tolerance(dtype);
    EXPECT_LT(allowed.relative, dtype == DType::bf16 ? 0.005 : dtype == DType::f16 ? 0.0006 : 3e-5);
    EXPECT_LE(allowed.absolute, dtype == DType::f16 ? 1e-7 : 1.2e-38);
  }
}

TEST(Verify, ChecksumSeesEveryChange) {
  const Shape shape{7, 33};
  std::vector<float> x = input(InputKind::normal, shape);
  const std::uint64_t before = checksum(f32(shape).inputs().front(), x.data(), Space::host);
  for (float& value : x) {
    const float kept = value;
    value = std::nextafter(value, infinity);
    EXPECT_NE(checksum(f32(shape).inputs().front(), x.data(), Space::host), before);
    value = kept;
  }
  std::swap(x.front(), x.back());
  EXPECT_NE(checksum(f32(shape).inputs().front(), x.data(), Space::host), before);
}

TEST(Input, IsReproducibleAndDependsOnTheSeed) {
  const Shape shape{5, 100};
  std::vector<float> other(shape.elements());
  fill_input(InputKind::normal, 2, DType::f32, shape, other.data(), Space::host);
  EXPECT_EQ(input(InputKind::normal, shape), input(InputKind::normal, shape));
  EXPECT_NE(input(InputKind::normal, shape), other);
}

TEST(Input, KindsAreWhatTheyAreNamed) {
  const Shape shape{4, 1000};
  double sum = 0;
  double squares = 0;
  for (const float value : input(InputKind::normal, shape)) {
    sum += value;
    squares += double{value} * value;
  }
  EXPECT_NEAR(sum / 4000, 0, 0.06);
  EXPECT_NEAR(squares / 4000, 1, 0.08);
  for (const float value : input(InputKind::very_negative, shape)) EXPECT_LT(value, -190);
  const std::vector<float> ascending = input(InputKind::ascending, shape);
  for (int col = 1; col < 1000; ++col) EXPECT_GT(ascending[col], ascending[col - 1]);
  const std::vector<float> prefix = input(InputKind::neg_inf_prefix, shape);
  EXPECT_EQ(prefix[1000 + 499], -infinity);
  EXPECT_TRUE(std::isfinite(prefix[1000 + 500]));
  const std::vector<float> nan = input(InputKind::one_nan, shape);
  for (int row = 0; row < 4; ++row) {
    int nans = 0;
    for (int col = 0; col < 1000; ++col) nans += std::isnan(nan[row * 1000 + col]) ? 1 : 0;
    EXPECT_EQ(nans, row % 2 == 0 ? 1 : 0);
  }
}

TEST(Traffic, PassesAreBytesOverTheTensor) {
  const Problem problem{{10, 1000}, DType::f16, &softmax_operation};
  EXPECT_DOUBLE_EQ(passes(whole_passes(3, 1)(problem), problem), 4);
  EXPECT_DOUBLE_EQ(whole_passes(3, 1)(problem).bytes_read, 60000);
  EXPECT_DOUBLE_EQ(whole_passes(3, 1)(problem).bytes_written, 20000);
  EXPECT_DOUBLE_EQ(passes({0, 0}, {{0, 1000}, DType::f16, &softmax_operation}), 0);
}

TEST(Traffic, EffectiveBandwidthCreditsTwoPasses) {
  const Problem problem{{49152, 1024}, DType::f32, &softmax_operation};
  EXPECT_NEAR(effective_bandwidth_gb_s(problem, 100), 2 * 49152. * 1024 * 4 / 1e9 / 100e-6, 1e-6);
}

}  // namespace
