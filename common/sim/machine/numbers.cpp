#include "common/sim/machine/numbers.h"

#include <algorithm>
#include <array>
#include <cfenv>

namespace sim {
namespace {

/// A floating-point format of 16 bits.
struct Format {
  int mantissa_bits;   // without the leading one
  int least_exponent;  // of a normal number
  int greatest_exponent;
};
constexpr Format half_format{10, -14, 15};
constexpr Format bfloat16_format{7, -126, 127};

std::uint16_t encode(double value, const Format& format, Rounding rounding) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return canonical_nan_16;
  const auto infinity =
      static_cast<std::uint16_t>((2 * format.greatest_exponent + 1) << format.mantissa_bits);
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  // In units of the last place: exact, because only the exponent changes.
  double units = rounded_to_whole(std::ldexp(value, format.mantissa_bits - exponent), rounding);
  units = std::fabs(units);
  const double one = std::ldexp(1.0, format.mantissa_bits);
  int biased = exponent - format.least_exponent + 1;
  if (units >= 2 * one) {
    units /= 2;
    ++biased;
  }
  if (biased > 2 * format.greatest_exponent) {  // beyond the largest: stays there when rounding towards it
    const bool towards_zero = rounding == Rounding::zero || (rounding == Rounding::down && sign == 0) ||
                              (rounding == Rounding::up && sign != 0);
    return sign | static_cast<std::uint16_t>(towards_zero ? infinity - 1 : infinity);
  }
  if (units < one) biased = 0;  // denormal
  const auto mantissa =
      static_cast<std::uint32_t>(units) & ((1U << static_cast<unsigned>(format.mantissa_bits)) - 1);
  return static_cast<std::uint16_t>(
      sign | (static_cast<std::uint32_t>(biased) << static_cast<unsigned>(format.mantissa_bits)) | mantissa);
}

/// f is the exact value `high + low` rounded to nearest; gives the result of the other rounding.
float redirected(float f, double high, double low, Rounding rounding) {
  if (rounding == Rounding::nearest || std::isnan(f) || std::isinf(high)) return f;
  double difference = high - static_cast<double>(f);  // exact value minus f
  if (difference == 0) difference = low;
  const bool too_large = difference < 0;
  const bool too_small = difference > 0;
  const bool want_down = rounding == Rounding::down || (rounding == Rounding::zero && high > 0);
  if (want_down && too_large) return std::nextafter(f, -std::numeric_limits<float>::infinity());
  if (!want_down && too_small) return std::nextafter(f, std::numeric_limits<float>::infinity());
  return f;
}

/// The rounding error of sum = a + b (Knuth).
double error_of_sum(double a, double b, double sum) {
  const double b_part = sum - a;
  return (a - (sum - b_part)) + (b - b_part);
}

/// `greatest`: the bits of the largest number.
std::uint8_t to_8_bits(double value, int mantissa_bits, int least_exponent, int greatest) {
  if (std::isnan(value)) return 0x7f;
  const int sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<std::uint8_t>(sign | greatest);
  const int exponent = magnitude == 0 ? least_exponent : std::max(std::ilogb(magnitude), least_exponent);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  // Numbers of one exponent follow those of the one below, denormal ones first.
  const int bits = (exponent - least_exponent) * (1 << mantissa_bits) + units;
  return static_cast<std::uint8_t>(sign | std::min(bits, greatest));
}

}  // namespace

HostRounding::HostRounding(Rounding rounding) : before_(std::fegetround()) {
  constexpr std::array modes{FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  std::fesetround(modes.at(static_cast<std::size_t>(rounding)));
}
HostRounding::~HostRounding() {
  std::fesetround(before_);
}

std::uint8_t to_e4m3(double value) {
  return to_8_bits(value, 3, -6, 0x7e);
}
std::uint8_t to_e5m2(double value) {
  return to_8_bits(value, 2, -14, 0x7b);
}
float from_e4m3(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return canonical(std::numeric_limits<float>::quiet_NaN());
  const int units = exponent == 0 ? mantissa : mantissa + 8;
  const float magnitude = std::ldexp(static_cast<float>(units), std::max(exponent, 1) - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

float to_float(Half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16U;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7fffU) << 13U;
  // The exponent is moved from a bias of 15 to one of 127; this makes denormals right, too.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  auto bits = std::bit_cast<std::uint32_t>(scaled);
  if (magnitude >= 0x0f800000U) bits |= 0x7f800000U;  // infinity and NaN
  return std::bit_cast<float>(bits | sign);
}

Half to_half(double value, Rounding rounding) {
  return {encode(value, half_format, rounding)};
}

Bfloat16 to_bfloat16(double value, Rounding rounding) {
  return {encode(value, bfloat16_format, rounding)};
}

float to_float(double value, Rounding rounding) {
  return redirected(static_cast<float>(value), value, 0, rounding);
}

double fma_for_rounding(double a, double b, double c) {
  const double product = a * b;  // exact: the factors have at most 11 bits
  const double sum = product + c;
  const double error = error_of_sum(product, c, sum);
  // Round to odd: an inexact sum ends in a one, so that a later rounding does not take it for a tie.
  if (error != 0 && std::isfinite(error) && (std::bit_cast<std::uint64_t>(sum) & 1U) == 0) {
    const bool away = (error > 0) == (sum > 0);
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(sum) + (away ? 1 : -1));
  }
  return sum;
}

float fma_rounded(float a, float b, float c, Rounding rounding) {
  const double product = static_cast<double>(a) * static_cast<double>(b);  // exact
  const double sum = product + static_cast<double>(c);
  const double error = error_of_sum(product, static_cast<double>(c), sum);
  const float result = redirected(std::fma(a, b, c), sum, error, rounding);
  // A sum of exactly zero is -0 when rounding down, unless both are +0.
  if (result == 0 && sum == 0 && error == 0 && rounding == Rounding::down &&
      (std::signbit(product) || std::signbit(c))) {
    return -0.0F;
  }
  return result;
}

}  // namespace sim
