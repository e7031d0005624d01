// For the programs that random_programs.py writes: types, inputs, and the results of instructions, computed on the host in
// another way than in the simulator: by the processor's own rounding modes, and in wider types.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using i128 = __int128;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using u128 = unsigned __int128;

// ---- On both sides

template <class T>
constexpr bool has_sign = static_cast<T>(-1) < 0;
template <class T>
constexpr unsigned bits_of = 8 * sizeof(T);
/// In which + and * wrap around: no smaller than int.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 16, u128, std::conditional_t<sizeof(T) == 8, u64, u32>>;

template <class T>
__host__ __device__ T add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T>
__host__ __device__ T sub(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <class T>
__host__ __device__ T mul(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
/// A divisor for which the quotient is defined.
template <class T>
__host__ __device__ T divisor(T b) {
  return b == 0 || (has_sign<T> && b == static_cast<T>(-1)) ? static_cast<T>(3) : b;
}
template <class T>
__host__ __device__ T divide(T a, T b) {
  return static_cast<T>(a / divisor(b));
}
template <class T>
__host__ __device__ T remainder_of(T a, T b) {
  return static_cast<T>(a % divisor(b));
}
template <class T>
__host__ __device__ T shift_left(T a, u32 by) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) << (by % bits_of<T>));
}
template <class T>
__host__ __device__ T shift_right(T a, u32 by) {
  return static_cast<T>(a >> (by % bits_of<T>));
}
template <class T>
__host__ __device__ T absolute(T a) {
  return a < 0 ? sub<T>(0, a) : a;
}

/// Replaces every NaN by the same one: the bits of a NaN are left open, and not tested here.
inline __host__ __device__ float clean(float a) {
  return a != a ? std::numeric_limits<float>::quiet_NaN() : a;
}
inline __host__ __device__ double clean(double a) {
  return a != a ? std::numeric_limits<double>::quiet_NaN() : a;
}
inline __host__ __device__ u16 clean_f16(u16 a) {
  return (a & 0x7fffU) > 0x7c00U ? 0x7fff : a;
}
inline __host__ __device__ u16 clean_bf16(u16 a) {
  return (a & 0x7fffU) > 0x7f80U ? 0x7fff : a;
}

/// The bits of a program's inputs and results as other types.
template <class To, class From>
__host__ __device__ To cut(From from) {
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
template <class From>
__host__ __device__ u64 bits(From from) {
  u64 to = 0;
  memcpy(&to, &from, sizeof from);
  return to;
}

// ---- The host's

constexpr int rn = FE_TONEAREST;
constexpr int rz = FE_TOWARDZERO;
constexpr int rm = FE_DOWNWARD;
constexpr int rp = FE_UPWARD;

/// Function's result in a rounding mode. It is not inlined, and its arguments and its result are volatile: neither is it computed
/// outside of these calls, nor anything else between them.
template <class Function, class... T>
[[gnu::noinline]] auto rounded(int mode, Function function, T... values) {
  std::fesetround(mode);
  const auto compute = [&](volatile T&... arguments) { return function(arguments...); };
  volatile auto result = compute(const_cast<volatile T&>(values)...);
  std::fesetround(FE_TONEAREST);
  return decltype(function(values...)){result};
}

template <class T>
T add_float(int mode, T a, T b) {
  return rounded(mode, std::plus<>{}, a, b);
}
template <class T>
T sub_float(int mode, T a, T b) {
  return rounded(mode, std::minus<>{}, a, b);
}
template <class T>
T mul_float(int mode, T a, T b) {
  return rounded(mode, std::multiplies<>{}, a, b);
}
template <class T>
T div_float(int mode, T a, T b) {
  return rounded(mode, std::divides<>{}, a, b);
}
template <class T>
T fma_float(int mode, T a, T b, T c) {
  return rounded(
      mode, [](T x, T y, T z) { return std::fma(x, y, z); }, a, b, c);
}
template <class T>
T sqrt_float(int mode, T a) {
  return rounded(
      mode, [](T x) { return std::sqrt(x); }, a);
}
template <class T>
T rcp_float(int mode, T a) {
  return div_float<T>(mode, 1, a);
}
template <class To, class From>
To convert_float(int mode, From a) {
  return rounded(
      mode, [](From x) { return static_cast<To>(x); }, a);
}
template <class T>
T integral(int mode, T a) {
  return std::copysign(rounded(
                           mode, [](T x) { return std::nearbyint(x); }, a),
                       a);
}
template <class T>
T saturated(T a) {
  return a > 0 ? (a < 1 ? a : T{1}) : T{0};  // NaN and -0, too
}
template <class T>
T flushed(T a) {
  return std::fabs(a) < std::numeric_limits<T>::min() ? std::copysign(T{0}, a) : a;
}
/// -0 is less than +0, and a number is preferred to NaN.
template <class T>
T min_float(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T max_float(T a, T b) {
  return -min_float(-a, -b);
}
template <class T>
T nan_or(T a, T b, T result) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : result;
}

/// NaN becomes 0; but where 64 bits are on one side, the number whose first bit alone is set.
template <class To, class From>
To to_integer(int mode, From a) {
  constexpr unsigned to_bits = bits_of<To>;
  if (std::isnan(a))
    return sizeof(From) == 8 || to_bits == 64 ? static_cast<To>(static_cast<u64>(1) << (to_bits - 1)) : To{0};
  const auto whole = static_cast<long double>(integral(mode, a));
  if (whole <= static_cast<long double>(std::numeric_limits<To>::min()))
    return std::numeric_limits<To>::min();
  if (whole >= static_cast<long double>(std::numeric_limits<To>::max()))
    return std::numeric_limits<To>::max();
  return static_cast<To>(whole);
}

/// f16 and bf16: how many bits a significand has, and the exponents of the least and the greatest normal number.
template <int digits, int least, int greatest>
struct Small {
  static constexpr unsigned fraction = digits - 1;
  static constexpr u16 infinity = static_cast<u16>((greatest - least + 2) << fraction);

  static double value(u16 number) {
    const int exponent = (number & 0x7fffU) >> fraction;
    const double significand = number & ((1U << fraction) - 1);
    double result = std::ldexp(significand, least - static_cast<int>(fraction));
    if ((number & 0x7fffU) > infinity) {
      result = std::numeric_limits<double>::quiet_NaN();
    } else if ((number & 0x7fffU) == infinity) {
      result = std::numeric_limits<double>::infinity();
    } else if (exponent != 0) {
      result = std::ldexp(significand + (1U << fraction), least + exponent - 1 - static_cast<int>(fraction));
    }
    return (number & 0x8000U) != 0 ? -result : result;
  }

  /// long double holds all numbers of 64 bits.
  static u16 from(int mode, long double number) {
    if (std::isnan(number)) return 0x7fff;
    const u16 sign = std::signbit(number) ? 0x8000 : 0;
    const auto with_sign = [sign](u32 magnitude) { return static_cast<u16>(sign | magnitude); };
    if (std::isinf(number)) return with_sign(infinity);
    if (number == 0) return sign;
    const int exponent = std::max(std::ilogb(number), least);
    const long double in_units = std::ldexp(number, static_cast<int>(fraction) - exponent);
    const auto units = static_cast<u32>(std::fabs(integral(mode, in_units)));
    // The exponent of a number that is not normal is 0, like that of one whose exponent is the least less the implied bit; and
    // a carry goes into the exponent.
    const u32 magnitude = (static_cast<u32>(exponent - least) << fraction) + units;
    if (exponent > greatest || magnitude >= infinity) {
      const bool to_infinity = mode == rn || mode == (sign != 0 ? rm : rp);
      return with_sign(to_infinity ? infinity : infinity - 1);
    }
    return with_sign(magnitude);
  }

  /// In double, rounded to odd: not to be taken for a tie by the second rounding.
  static u16 fma(u16 a, u16 b, u16 c) { return from(rn, fma_to_odd(value(a), value(b), value(c))); }
  static double fma_to_odd(double a, double b, double c) {
    std::feclearexcept(FE_ALL_EXCEPT);
    const double cut_off = fma_float(rz, a, b, c);
    const bool is_exact = std::fetestexcept(FE_INEXACT) == 0;
    if (!std::isfinite(cut_off)) return std::fma(a, b, c);
    if (is_exact) return std::fma(a, b, c);  // the sign of zero is that of rounding to nearest
    return std::bit_cast<double>(std::bit_cast<u64>(cut_off) | 1U);
  }
  static u16 add(u16 a, u16 b) { return from(rn, fma_to_odd(value(a), 1, value(b))); }
  static u16 sub(u16 a, u16 b) { return from(rn, fma_to_odd(value(b), -1, value(a))); }
  static u16 mul(u16 a, u16 b) { return from(rn, value(a) * value(b)); }
  static u16 saturated(u16 a) { return from(rn, ::saturated(value(a))); }
  static u16 relu(u16 a) { return (a & 0x7fffU) > infinity ? 0x7fff : (a & 0x8000U) != 0 ? 0 : a; }
  static u16 min(u16 a, u16 b) { return from(rn, min_float(value(a), value(b))); }
  static u16 max(u16 a, u16 b) { return from(rn, max_float(value(a), value(b))); }
  static u16 min_nan(u16 a, u16 b) {
    return from(rn, nan_or(value(a), value(b), min_float(value(a), value(b))));
  }
  static u16 max_nan(u16 a, u16 b) {
    return from(rn, nan_or(value(a), value(b), max_float(value(a), value(b))));
  }
  static u16 whole(int mode, u16 a) { return from(rn, integral(mode, value(a))); }
  template <class To>
  static To to_integer(int mode, u16 a) {
    return ::to_integer<To>(mode, static_cast<float>(value(a)));
  }
};
using F16 = Small<11, -14, 15>;
using Bf16 = Small<8, -126, 127>;

/// The two halves of a register.
template <class Function>
u32 each_half(Function function, u32 a, u32 b) {
  const u32 high = function(static_cast<u16>(a >> 16U), static_cast<u16>(b >> 16U));
  return high << 16U | function(static_cast<u16>(a), static_cast<u16>(b));
}

// Whole numbers
template <class T>
T mul_hi(T a, T b) {
  using Wide = std::conditional_t<has_sign<T>, i128, u128>;
  return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) >> bits_of<T>);
}
template <class T>
u32 popc(T a) {
  u32 count = 0;
  for (unsigned i = 0; i < bits_of<T>; ++i) count += static_cast<u32>(a >> i & 1U);
  return count;
}
template <class T>
u32 clz(T a) {
  u32 count = 0;
  while (count < bits_of<T> && (a >> (bits_of<T> - 1 - count) & 1U) == 0) ++count;
  return count;
}
template <class T>
T brev(T a) {
  T result = 0;
  for (unsigned i = 0; i < bits_of<T>; ++i) result |= (a >> i & 1U) << (bits_of<T> - 1 - i);
  return result;
}
template <class T>
i32 ffs_of(T a) {
  return a == 0 ? 0 : static_cast<i32>(bits_of<T>) - static_cast<i32>(clz<T>(a & (~a + 1)));
}
inline u32 funnel_left(u32 low, u32 high, u32 by) {  // by up to 32
  return static_cast<u32>((u64{high} << 32U | low) << by >> 32U);
}
inline u32 funnel_right(u32 low, u32 high, u32 by) {
  return static_cast<u32>((u64{high} << 32U | low) >> by);
}
inline u32 permute(u32 a, u32 b, u32 selector) {
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 select = selector >> (4 * i) & 15U;
    u32 byte = static_cast<u32>((u64{b} << 32U | a) >> (8 * (select & 7U)) & 0xffU);
    if ((select & 8U) != 0) byte = (byte & 0x80U) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
/// The first bit, or the number of bits: in 32 bits the operand's last byte counts, in 64 bits all of it.
template <class T>
u64 place(u32 operand) {
  return bits_of<T> == 32 ? operand & 255U : operand;
}
template <class T>
T extract(T a, u32 first, u32 count) {
  const u64 position = place<T>(first);
  const u64 length = place<T>(count);
  T result = 0;
  const u64 last = std::min<u64>(position + length - 1, bits_of<T> - 1);
  const bool fill = has_sign<T> && length != 0 && (a >> last & 1) != 0;
  for (unsigned i = 0; i < bits_of<T>; ++i) {
    const bool bit = i < length && position + i < bits_of<T> ? (a >> (position + i) & 1) != 0 : fill;
    result = static_cast<T>(result | static_cast<T>(static_cast<Wrapping<T>>(bit) << i));
  }
  return result;
}
template <class T>
T insert(T a, T b, u32 first, u32 count) {
  const u64 position = place<T>(first);
  const u64 length = place<T>(count);
  for (unsigned i = 0; i < length && position + i < bits_of<T>; ++i) {
    b = (b & ~(T{1} << (position + i))) | (a >> i & 1U) << (position + i);
  }
  return b;
}
template <class T>
u32 find_leading(T a) {
  using Bits = Wrapping<T>;
  const auto zeros = clz<Bits>(static_cast<Bits>(a < 0 ? ~a : a));
  return bits_of<T> - 1 - zeros;  // -1 where there is none
}
inline u32 logic(u32 a, u32 b, u32 c, u32 table) {
  u32 result = 0;
  for (unsigned i = 0; i < 32; ++i) {
    const u32 row = (a >> i & 1U) << 2U | (b >> i & 1U) << 1U | (c >> i & 1U);
    result |= (table >> row & 1U) << i;
  }
  return result;
}
template <class T>
T absolute_difference(T a, T b, T c) {
  return add<T>(c, a < b ? sub<T>(b, a) : sub<T>(a, b));
}
inline i32 saturating(i64 a) {
  return static_cast<i32>(a < INT32_MIN ? INT32_MIN : a > INT32_MAX ? INT32_MAX : a);
}
template <class A, class B>
u32 dot4(u32 a, u32 b, u32 c) {
  for (unsigned i = 0; i < 32; i += 8) {
    c +=
        static_cast<u32>(static_cast<i32>(static_cast<A>(a >> i)) * static_cast<i32>(static_cast<B>(b >> i)));
  }
  return c;
}
template <class To, class From>
To clamped(From a) {
  if (std::cmp_less(a, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (std::cmp_greater(a, std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return static_cast<To>(a);
}
/// Sets the carry; a subtraction adds the complement, and so keeps a carry where it did not borrow.
template <class T>
T add_carry(u128 a, u128 b, bool& carry) {
  const u128 sum = a + b + (carry ? 1U : 0U);
  carry = (sum >> bits_of<T>) != 0;
  return static_cast<T>(sum);
}

// ---- Running them

struct RandomProgram {
  const char* name;
  void (*launch)(const u64* in, u64* out, int threads);
  void (*on_host)(const u64* in, u64* out);
  std::vector<const char*> values;  // the variables that it writes
};
constexpr int program_inputs = 10;
constexpr int most_outputs = 256;

/// Words that are interesting as one type or another.
inline u64 interesting_word(u64& state) {
  const auto next = [&state] {
    state += 0x9e3779b97f4a7c15U;
    u64 z = state;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  };
  const u64 random = next();
  const u64 kind = next() % 12;
  const auto power = static_cast<int>(next() % 64);
  const double near_one = std::ldexp(1 + static_cast<double>(random >> 12U) * 0x1p-52, power % 16 - 8);
  const double with_sign = (random & 1U) != 0 ? -near_one : near_one;
  const double few_bits = std::ldexp(static_cast<double>(random % 64) - 32, power - 40);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double edges[] = {0.,
                          -0.,
                          infinity,
                          -infinity,
                          infinity - infinity,
                          1.,
                          -1.,
                          0x1p-1022,
                          0x1p-1074,
                          0x1p-126,
                          0x1p-149,
                          0x1p-14,
                          0x1p-24,
                          65504.,
                          65520.,
                          0x1.fffffep127,
                          0x1.fffffffffffffp1023,
                          2147483648.,
                          4294967296.,
                          0x1p63};
  const double edge = edges[random % std::size(edges)];
  const u64 sixteen_bits =
      u64{F16::from(rn, (next() & 1U) != 0 ? with_sign : edge)} << 16U | Bf16::from(rn, few_bits);
  switch (kind) {
    case 0:
      return random >> power;
    case 1:
      return ~(random >> power);
    case 2:
      return u64{1} << power;
    case 3:
      return std::bit_cast<u64>(with_sign);
    case 4:
      return std::bit_cast<u64>(few_bits);
    case 5:
      return std::bit_cast<u64>(edge);
    case 6:
      return u64{std::bit_cast<u32>(static_cast<float>(with_sign))} << 32U |
             std::bit_cast<u32>(static_cast<float>(few_bits));
    case 7:
      return random << 32U | std::bit_cast<u32>(static_cast<float>(edge));
    case 8:
      return random << 32U | sixteen_bits;
    case 9:
      return (sixteen_bits << 16U | sixteen_bits >> 16U) & 0xffffffffU;
    default:
      return random;
  }
}

/// Prints a line for each program: the same on the simulator and on a GPU if all is well. 1 if a result differs from the host's.
inline int run_random_programs(const std::vector<RandomProgram>& programs, u64 seed) {
  constexpr int threads = 256;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("neither a GPU nor the simulator\n");
    return 3;
  }
  u64* in = nullptr;
  u64* out = nullptr;
  std::vector<u64> inputs(static_cast<std::size_t>(threads) * program_inputs);
  for (u64& word : inputs) word = interesting_word(seed);
  std::vector<u64> outputs(static_cast<std::size_t>(threads) * most_outputs);
  if (cudaMalloc(&in, inputs.size() * sizeof(u64)) != cudaSuccess ||
      cudaMalloc(&out, outputs.size() * sizeof(u64)) != cudaSuccess ||
      cudaMemcpy(in, inputs.data(), inputs.size() * sizeof(u64), cudaMemcpyHostToDevice) != cudaSuccess) {
    std::printf("no memory\n");
    return 3;
  }
  int wrong = 0;
  for (const RandomProgram& program : programs) {
    const std::size_t count = program.values.size();
    program.launch(in, out, threads);
    const cudaError_t error =
        cudaMemcpy(outputs.data(), out, threads * count * sizeof(u64), cudaMemcpyDeviceToHost);
    if (error != cudaSuccess || cudaGetLastError() != cudaSuccess) {
      std::printf("%s %s\n", program.name, cudaGetErrorString(error));
      ++wrong;
      continue;
    }
    u64 hash = 0xcbf29ce484222325U;
    for (std::size_t i = 0; i < threads * count; ++i) hash = (hash ^ outputs[i]) * 0x100000001b3U;
    std::printf("%s %016llx", program.name, static_cast<unsigned long long>(hash));
    bool is_right = true;
    for (std::size_t thread = 0; thread < threads && is_right; ++thread) {
      u64 expected[most_outputs];
      program.on_host(&inputs[thread * program_inputs], expected);
      for (std::size_t i = 0; i < count && is_right; ++i) {
        const u64 got = outputs[thread * count + i];
        is_right = got == expected[i];
        if (!is_right)
          std::printf(" WRONG: %s of thread %zu is 0x%llx, on the host 0x%llx", program.values[i], thread,
                      static_cast<unsigned long long>(got), static_cast<unsigned long long>(expected[i]));
      }
    }
    std::printf("\n");
    if (!is_right) ++wrong;
  }
  std::printf("%zu programs, %d wrong\n", programs.size(), wrong);
  return wrong == 0 ? 0 : 1;
}
