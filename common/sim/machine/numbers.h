// The device's arithmetic, as far as C++ does it differently or has no type for it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/sim/ptx/program.h"

namespace sim {

struct Half {
  std::uint16_t bits = 0;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
};

/// The NaN that every f32 operation gives, whatever its operands.
inline constexpr std::uint32_t canonical_nan_f32 = 0x7fffffff;
inline constexpr std::uint16_t canonical_nan_16 = 0x7fff;

inline float canonical(float value) {
  return std::isnan(value) ? std::bit_cast<float>(canonical_nan_f32) : value;
}
inline double canonical(double value) {
  return value;
}

/// Denormals become zero of the same sign.
inline float flushed(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return (bits & 0x7f800000U) != 0 ? value : std::bit_cast<float>(bits & 0x80000000U);
}

inline double flushed(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return (bits & 0x7ff0000000000000U) != 0 ? value : std::copysign(0.0, value);
}

/// .relu: values below zero, and -0, become +0; NaN stays.
template <class T>
T rectified(T value) {
  return value <= T(0) ? T(0) : value;
}

/// To [0, 1]; NaN to 0.
template <class T>
T saturated(T value) {
  return value > T(0) ? (value < T(1) ? value : T(1)) : T(0);
}

float to_float(Half value);
inline float to_float(Bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}

/// Rounds once, from the exact value of `value`.
Half to_half(double value, Rounding rounding);
Bfloat16 to_bfloat16(double value, Rounding rounding);
float to_float(double value, Rounding rounding);

/// a * b + c with more bits than the rounding to T that follows needs: rounding it again gives the same
/// result as rounding the exact value. For 16-bit types.
double fma_for_rounding(double a, double b, double c);

/// a * b + c rounded once; exact operands, any rounding.
float fma_rounded(float a, float b, float c, Rounding rounding);
inline float fma_rounded(float a, float b, float c) {
  return std::fma(a, b, c);
}

/// As min and max of PTX: a number wins over NaN, and -0 is less than +0. Choices, not branches: for all lanes at once.
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T>
T minimum(T a, T b) {
  const T either =
      std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) | std::bit_cast<BitsOf<T>>(b));  // -0 if one is
  const T less = a < b ? a : b;
  const T numbers = a == b ? either : less;
  const T unless_b_nan = std::isnan(b) ? a : numbers;
  return std::isnan(a) ? b : unless_b_nan;
}
template <class T>
T maximum(T a, T b) {
  const T both =
      std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) & std::bit_cast<BitsOf<T>>(b));  // -0 if both are
  const T more = a < b ? b : a;
  const T numbers = a == b ? both : more;
  const T unless_b_nan = std::isnan(b) ? a : numbers;
  return std::isnan(a) ? b : unless_b_nan;
}

/// The host rounds so while this lives.
class HostRounding {
 public:
  explicit HostRounding(Rounding rounding);
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;
  ~HostRounding();

 private:
  int before_;
};
/// The value; the compiler must not compute with it earlier or later than here.
template <class T>
T in_place(T value) {
  volatile T held = value;
  return held;
}
/// Function{}(values...), rounded so.
template <class Function, class... T>
auto rounded_by_host(Rounding rounding, T... values) {
  const HostRounding changed(rounding);
  return in_place(Function{}(in_place(values)...));
}

/// Conversions to e4m3 and e5m2, to nearest; values that are too large, and infinity, become the largest
/// value.
std::uint8_t to_e4m3(double value);
std::uint8_t to_e5m2(double value);
float from_e4m3(std::uint8_t bits);

template <class T>
T rounded_to_whole(T value, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest:
      return std::nearbyint(value);
    case Rounding::zero:
      return std::trunc(value);
    case Rounding::down:
      return std::floor(value);
    case Rounding::up:
      return std::ceil(value);
  }
  return value;
}

/// To a whole number of type To, out of range to the nearest that there is. NaN: see the definition.
template <class To, class From>
To to_integer(From value, Rounding rounding) {
  if (std::isnan(value)) {
    // PTX: zero, unless the source is f64 or the destination has 64 bits; then the highest bit alone.
    if (sizeof(From) < 8 && sizeof(To) < 8) return 0;
    return static_cast<To>(std::uint64_t{1} << (8 * sizeof(To) - 1));
  }
  const From whole = rounded_to_whole(value, rounding);
  constexpr To least = std::numeric_limits<To>::min();
  constexpr To most = std::numeric_limits<To>::max();
  if (whole <= static_cast<From>(least)) return least;
  if (whole >= static_cast<From>(most)) return most;
  return static_cast<To>(whole);
}

}  // namespace sim
