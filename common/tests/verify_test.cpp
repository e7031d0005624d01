#include "common/harness/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>
#include <vector>

#include "common/harness/operation.h"

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
  return problem.op->verify(problem, {{x}, {const_cast<void*>(y)}}, Space::host, tolerance_factor).front();
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

using TwoBits = std::array<std::uint16_t, 2>;

/// The verdict on one row of two elements, which are given as bits.
bool accepts_bits(DType dtype, const Operation* op, const TwoBits& x, const TwoBits& y) {
  return compare_with_reference({{1, 2}, dtype, op}, x.data(), y.data()).correct;
}

TEST(Verify, AResultTwoRoundingsOffIsWrongInEveryDtype) {
  // 1/2 and log(1/2) = -0.6931, each as it is rounded; one more is the next number of the type.
  struct Case {
    DType dtype;
    const Operation* op;
    std::uint16_t right;
  };
  for (const auto& [dtype, op, right] :
       {Case{DType::f16, &softmax_operation, 0x3800}, Case{DType::bf16, &softmax_operation, 0x3f00},
        Case{DType::f16, &log_softmax_operation, 0xb98c},
        Case{DType::bf16, &log_softmax_operation, 0xbf31}}) {
    const auto accepts = [&, dtype = dtype, op = op](int number) {
      const auto bits = static_cast<std::uint16_t>(number);
      return accepts_bits(dtype, op, {}, {bits, bits});
    };
    EXPECT_TRUE(accepts(right)) << name(dtype) << name(op);
    EXPECT_FALSE(accepts(right + 2)) << name(dtype) << name(op);
    EXPECT_FALSE(accepts(right - 2)) << name(dtype) << name(op);
  }
  for (const Operation* op : softmax_operations()) {
    const std::vector<float> x{1, 2, 3};
    const std::vector<float> right = softmax(x, {1, 3}, op);
    for (const float off : {1e-5F, -1e-5F, 6e-5F, -6e-5F}) {
      std::vector<float> y = right;
      y[1] *= 1 + off;
      EXPECT_EQ(compare(f32({1, 3}, op), x, y).correct, std::abs(off) < 2e-5F) << name(op) << off;
    }
  }
}

TEST(Verify, ASmallResultIsNotZero) {
  const std::vector<float> x{0, -20};  // exp(-20) = 2e-9: a number in f32, and less than any in f16
  const std::vector<float> right = softmax(x, {1, 2}, &softmax_operation);
  EXPECT_TRUE(compare(f32({1, 2}), x, right).correct);
  EXPECT_FALSE(compare(f32({1, 2}), x, {right[0], 0}).correct);
  // 14 times the smallest number of f16, and 10 times the smallest normal one of bf16: exp(-14) and exp(-85).
  for (const auto& [dtype, x_bits, y_bits] :
       {std::tuple{DType::f16, TwoBits{0, 0xcb00}, TwoBits{0x3c00, 14}},
        std::tuple{DType::bf16, TwoBits{0, 0xc2aa}, TwoBits{0x3f80, 0x0226}}}) {
    EXPECT_TRUE(accepts_bits(dtype, &softmax_operation, x_bits, y_bits)) << name(dtype);
    EXPECT_FALSE(accepts_bits(dtype, &softmax_operation, x_bits, {y_bits[0], 0})) << name(dtype);
  }
}

TEST(Verify, ChecksumSeesEveryChange) {
  const Shape shape{7, 33};
  std::vector<float> x = input(InputKind::normal, shape);
  const std::uint64_t before = checksum(f32(shape).inputs().front(), x.data(), Space::host);
  for (float& value : x) {
    const float kept = value;
    for (const float changed : {std::nextafter(value, infinity), -value}) {  // the last bit, and the first
      value = changed;
      EXPECT_NE(checksum(f32(shape).inputs().front(), x.data(), Space::host), before);
    }
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

/// One special element in each row, or in every second and in no other, and not always in the same column.
template <class IsSpecial>
void expect_one_somewhere(InputKind kind, bool in_every_row, IsSpecial is_special) {
  const Shape shape{64, 1000};
  const std::vector<float> x = input(kind, shape);
  std::set<std::ptrdiff_t> places;
  for (int row = 0; row < shape.rows; ++row) {
    const auto begin = x.begin() + row * shape.cols;
    const auto end = begin + shape.cols;
    const bool expected = in_every_row || row % 2 == 0;
    EXPECT_EQ(std::count_if(begin, end, is_special), expected ? 1 : 0) << name(kind) << ", row " << row;
    if (expected) places.insert(std::find_if(begin, end, is_special) - begin);
  }
  EXPECT_GT(places.size(), 16U) << name(kind);
}

TEST(Input, KindsAreWhatTheyAreNamed) {
  const Shape shape{64, 1000};
  double sum = 0;
  double squares = 0;
  for (const float value : input(InputKind::normal, shape)) {
    sum += value;
    squares += double{value} * value;
  }
  EXPECT_NEAR(sum / 64000, 0, 0.015);
  EXPECT_NEAR(squares / 64000, 1, 0.02);
  // The least value is between the first two numbers, the greatest between the last two.
  for (const auto& [kind, above, least, most, below] :
       std::vector<std::tuple<InputKind, float, float, float, float>>{
           {InputKind::uniform, -4, -3.99F, 3.99F, 4},
           {InputKind::large_magnitude, -6000, -3000, 3000, 6000},
           {InputKind::all_equal, 3, 3, 3, 3},
           {InputKind::very_negative, -206, -203, -197, -194},
           {InputKind::lowest, -1e31F, -1e29F, -1e31F, -1e29F}}) {
    const std::vector<float> x = input(kind, shape);
    const auto [found_least, found_most] = std::minmax_element(x.begin(), x.end());
    EXPECT_TRUE(above <= *found_least && *found_least <= least && most <= *found_most && *found_most <= below)
        << name(kind) << ": " << *found_least << " to " << *found_most;
  }
  const std::vector<float> ascending = input(InputKind::ascending, shape);
  for (int col = 1; col < 1000; ++col) EXPECT_GT(ascending[col], ascending[col - 1]);
  const std::vector<float> prefix = input(InputKind::neg_inf_prefix, shape);
  EXPECT_EQ(prefix[1000 + 499], -infinity);
  EXPECT_TRUE(std::isfinite(prefix[1000 + 500]));
  const std::vector<float> all_neg_inf = input(InputKind::all_neg_inf, shape);
  EXPECT_EQ(std::count(all_neg_inf.begin(), all_neg_inf.end(), -infinity), 32 * 1000);

  expect_one_somewhere(InputKind::one_outlier, true, [](float value) { return value > 50; });
  expect_one_somewhere(InputKind::one_pos_inf, false, [](float value) { return value == infinity; });
  expect_one_somewhere(InputKind::one_nan, false, [](float value) { return std::isnan(value); });
}

}  // namespace
