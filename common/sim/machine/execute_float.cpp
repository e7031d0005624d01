// Floating-point arithmetic. Approximate instructions are computed in double and rounded once: the device's
// are off by a unit or two in the last place.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "common/sim/machine/execute_integer.h"
#include "common/sim/machine/map.h"
#include "common/sim/machine/numbers.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

// ---- The operations, on float and double

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
  static float rounded(float a, float b, Rounding rounding) { return fma_rounded(a, 1, b, rounding); }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return a - b;
  }
  static float rounded(float a, float b, Rounding rounding) { return fma_rounded(a, 1, -b, rounding); }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
  static float rounded(float a, float b, Rounding rounding) {
    return fma_rounded(a, b, std::copysign(0.0F, a * b), rounding);
  }
  static double exact(float a, float b) { return double{a} * b; }
};
struct MultiplyAdd {
  float operator()(float a, float b, float c) const { return std::fma(a, b, c); }
  double operator()(double a, double b, double c) const { return std::fma(a, b, c); }
  static float rounded(float a, float b, float c, Rounding rounding) {
    return fma_rounded(a, b, c, rounding);
  }
  static double exact(float a, float b, float c) { return std::fma(double{a}, double{b}, double{c}); }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
  static float rounded(float a, float b, Rounding rounding) {
    return rounded_by_host<Divide>(rounding, a, b);
  }
};
/// a * (1 / b), and above 2^126 the reciprocal has become 0.
struct DivideApproximately {
  float operator()(float a, float b) const {
    const bool vanishes = std::fabs(b) > 0x1p126F;
    return vanishes ? a * std::copysign(0.0F, b) : a / b;
  }
};
using Minimum = decltype([]<class T>(T a, T b) { return minimum(a, b); });
using Maximum = decltype([]<class T>(T a, T b) { return maximum(a, b); });
/// min.NaN, max.NaN: NaN wins.
template <class Function>
struct OrNan {
  template <class T>
  T operator()(T a, T b) const {
    return std::isnan(a) || std::isnan(b) ? a + b : Function{}(a, b);
  }
};
using Negate = decltype([]<class T>(T a) { return -a; });
using Absolute = decltype([]<class T>(T a) { return std::fabs(a); });
struct SquareRoot {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
  static float rounded(float a, Rounding rounding) { return rounded_by_host<SquareRoot>(rounding, a); }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return T{1} / a;
  }
  static float rounded(float a, Rounding rounding) { return rounded_by_host<Reciprocal>(rounding, a); }
};
using ReciprocalSquareRoot = decltype([]<class T>(T a) { return T{1} / std::sqrt(a); });
using Exp2 = decltype([](double a) { return std::exp2(a); });
using Log2 = decltype([](double a) { return std::log2(a); });
using Sine = decltype([](double a) { return std::sin(a); });
using Cosine = decltype([](double a) { return std::cos(a); });
using HyperbolicTangent = decltype([](double a) { return std::tanh(a); });

// ---- f32

/// The result of .ftz from operands that are flushed. Results that would round up to the smallest normal
/// number are flushed as well: the device decides before it rounds. A sum is exact down there.
template <class Function, class... T>
float flushed_result(float result, T... values) {
  if constexpr (requires { Function::exact(values...); }) {
    const bool tiny = std::fabs(Function::exact(values...)) < double{std::numeric_limits<float>::min()};
    return tiny ? std::copysign(0.0F, result) : result;
  }
  return flushed(result);
}

/// Function with its operands and result flushed where .ftz says so, and NaN as the device gives it.
template <class Function, bool flush>
struct Single {
  template <class... T>
  float operator()(T... values) const {
    if constexpr (flush)
      return canonical(flushed_result<Function>(Function{}(flushed(values)...), flushed(values)...));
    return canonical(Function{}(values...));
  }
};

/// Single<Function, true> of a function that has `exact`, which is called only if it can matter: if a lane's
/// result is the smallest normal number, to which a smaller value may have been rounded up.
template <class Function, class... Float>
[[gnu::flatten]] void single_flushed(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  std::array<float, warp_size>
      results;  // NOLINT: filled in the next loop; the result may be the same register
  std::uint32_t doubtful = 0;
  const auto compute = [&](const Float*... from) {
    for (std::size_t lane = 0; lane < warp_size; ++lane) {
      const float result = Function{}(flushed(from[lane])...);
      doubtful |= std::fabs(result) == std::numeric_limits<float>::min() ? 1U : 0U;
      results[lane] = canonical(flushed(result));
    }
  };
  [&]<std::size_t... index>(std::index_sequence<index...>) {
    compute(warp.lanes_of<Float>(instruction.operands[index + 1])...);
  }
  (std::index_sequence_for<Float...>());
  if (doubtful != 0) return map<float, Float...>(warp, instruction, lanes, Single<Function, true>{});
  for_lanes(warp.lanes_of<float>(instruction.operands[0]), lanes,
            [&](int lane) { return results[static_cast<std::size_t>(lane)]; });
}

/// The same in another rounding, saturated, or both.
template <class Function, class... Float>
void single_unusual(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<float, Float...>(warp, instruction, lanes, [&instruction](auto... values) {
    const bool flush = instruction.flush_to_zero;
    float result = 0;
    if constexpr (requires { Function::rounded(values..., Rounding::nearest); }) {
      result = Function::rounded((flush ? flushed(values) : values)..., instruction.rounding);
    } else {
      result = Function{}((flush ? flushed(values) : values)...);
    }
    if (flush) result = flushed_result<Function>(result, flushed(values)...);
    return instruction.saturate ? saturated(result) : canonical(result);
  });
}

template <class Function>
bool can_round() {
  return requires {
    &Function::rounded;
  };
}

/// f64 in another rounding than to nearest
template <class Function, class... Double>
void double_directed(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const Rounding rounding = instruction.rounding;
  map<double, Double...>(warp, instruction, lanes, [rounding](auto... values) {
    return rounded_by_host<Function>(rounding, values...);
  });
}

/// f32 and f64 of two operands.
template <class Function>
Handler binary_handler(Assembler& a, Type type) {
  const bool nearest = a.instruction.rounding == Rounding::nearest;
  if (type == Type::f64) {
    a.refuse_if(a.instruction.saturate || a.instruction.flush_to_zero);
    a.refuse_if(!nearest && !can_round<Function>());
    return nearest ? &binary<Function, double> : &double_directed<Function, double, double>;
  }
  a.refuse_if(type != Type::f32 || (!nearest && !can_round<Function>()));
  if (!nearest || a.instruction.saturate) return &single_unusual<Function, float, float>;
  if (!a.instruction.flush_to_zero) return &binary<Single<Function, false>, float>;
  if constexpr (requires { Function::exact(0.0F, 0.0F); }) return &single_flushed<Function, float, float>;
  return &binary<Single<Function, true>, float>;
}

// ---- 16 bits: computed in double, which loses nothing of interest, and rounded once

template <class Number>
double widened(std::uint16_t bits, bool flush) {
  constexpr std::uint16_t exponent_bits = std::is_same_v<Number, Half> ? 0x7c00 : 0x7f80;
  if (flush && (bits & exponent_bits) == 0) bits &= 0x8000U;
  return static_cast<double>(to_float(Number{bits}));
}

template <class Number>
std::uint16_t narrowed(double value, const Instruction& instruction) {
  if (instruction.saturate) value = saturated(value);
  if (instruction.option != 0) value = rectified(value);
  std::uint16_t bits = 0;
  if constexpr (std::is_same_v<Number, Half>) {
    bits = to_half(value, instruction.rounding).bits;
  } else {
    bits = to_bfloat16(value, instruction.rounding).bits;
  }
  // As with f32, the device looks before it rounds.
  constexpr double smallest_normal = std::is_same_v<Number, Half> ? 0x1p-14 : 0x1p-126;
  return instruction.flush_to_zero && std::fabs(value) < smallest_normal ? bits & 0x8000U : bits;
}

using MultiplyAddOf16Bits = decltype([](double a, double b, double c) { return fma_for_rounding(a, b, c); });

/// Word: one or two 16-bit numbers.
template <class Function, class Number, class Word, class... Words>
[[gnu::flatten]] void small(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<Word, Words...>(warp, instruction, lanes, [&instruction](auto... words) {
    Word result = 0;
    for (unsigned shift = 0; shift < 8 * sizeof(Word); shift += 16) {
      const double value = Function{}(
          widened<Number>(static_cast<std::uint16_t>(words >> shift), instruction.flush_to_zero)...);
      result =
          static_cast<Word>(result | static_cast<Word>(Word{narrowed<Number>(value, instruction)} << shift));
    }
    return result;
  });
}

template <class Choose>
Handler with_small_type(Type type, Choose choose) {
  switch (type) {
    case Type::f16:
      return choose.template operator()<Half, std::uint16_t>();
    case Type::f16x2:
      return choose.template operator()<Half, std::uint32_t>();
    case Type::bf16:
      return choose.template operator()<Bfloat16, std::uint16_t>();
    case Type::bf16x2:
      return choose.template operator()<Bfloat16, std::uint32_t>();
    default:
      throw Unsupported();
  }
}

template <class Function, std::size_t sources>
Handler small_handler(Assembler& a, Type type) {
  a.instruction.option = a.take("relu") ? 1 : 0;
  return with_small_type(type, []<class Number, class Word>() -> Handler {
    if constexpr (sources == 1) return &small<Function, Number, Word, Word>;
    if constexpr (sources == 2) return &small<Function, Number, Word, Word, Word>;
    if constexpr (sources == 3) return &small<Function, Number, Word, Word, Word, Word>;
  });
}

bool is_small(Type type) {
  return type == Type::f16 || type == Type::f16x2 || type == Type::bf16 || type == Type::bf16x2;
}

// ---- Assembling

template <class Function>
void assemble_binary(Assembler& a) {
  if (!is_floating_point(a.peek_type())) return assemble_integer_arithmetic(a);
  const Type type = a.take_type();
  a.take_rounding();
  a.take_float_modifiers();
  a.instruction.handler =
      is_small(type) ? small_handler<Function, 2>(a, type) : binary_handler<Function>(a, type);
  a.operands({type, type, type});
}

void assemble_fma(Assembler& a) {
  if (!is_floating_point(a.peek_type())) return assemble_integer_arithmetic(a);
  const Type type = a.take_type();
  a.take_rounding();
  a.take_float_modifiers();
  if (is_small(type)) {
    a.instruction.handler = small_handler<MultiplyAddOf16Bits, 3>(a, type);
  } else if (type == Type::f64) {
    a.instruction.handler = a.instruction.rounding == Rounding::nearest
                                ? &ternary<MultiplyAdd, double>
                                : &double_directed<MultiplyAdd, double, double, double>;
  } else if (a.instruction.rounding != Rounding::nearest || a.instruction.saturate) {
    a.instruction.handler = &single_unusual<MultiplyAdd, float, float, float>;
  } else {
    a.instruction.handler = a.instruction.flush_to_zero ? &single_flushed<MultiplyAdd, float, float, float>
                                                        : &ternary<Single<MultiplyAdd, false>, float>;
  }
  a.operands({type, type, type, type});
}

void assemble_div(Assembler& a) {
  if (!is_floating_point(a.peek_type())) return assemble_integer_arithmetic(a);
  if (a.take("approx")) {
    a.refuse_if(a.peek_type() != Type::f32);
    return assemble_binary<DivideApproximately>(a);
  }
  (void)a.take("full");
  assemble_binary<Divide>(a);
}

template <class Function>
void assemble_extremum(Assembler& a) {
  if (!is_floating_point(a.peek_type())) return assemble_integer_arithmetic(a);
  if (a.take("NaN")) return assemble_binary<OrNan<Function>>(a);
  assemble_binary<Function>(a);
}

/// neg and abs change the sign bit alone, of NaN, too; .ftz flushes.
template <class Function>
void assemble_sign(Assembler& a) {
  if (!is_floating_point(a.peek_type())) return assemble_integer_arithmetic(a);
  const Type type = a.take_type();
  a.take_float_modifiers();
  const bool flush = a.instruction.flush_to_zero;
  if (is_small(type)) {
    a.instruction.handler = small_handler<Function, 1>(a, type);
  } else if (type == Type::f64) {
    a.instruction.handler = &unary<Function, double>;
  } else {
    a.instruction.handler =
        flush ? &unary<Single<Function, true>, float> : &unary<Single<Function, false>, float>;
  }
  a.operands({type, type});
}

using CopySign = decltype([]<class T>(T sign, T value) { return std::copysign(value, sign); });
void assemble_copysign(Assembler& a) {
  const Type type = a.take_type();
  a.refuse_if(type != Type::f32 && type != Type::f64);
  a.instruction.handler = type == Type::f32 ? &binary<CopySign, float> : &binary<CopySign, double>;
  a.operands({type, type, type});
}

// ---- Special functions

void count_special(Warp& warp, LaneMask lanes) {
  warp.counters().lanes += count_lanes(lanes);
}

template <class Function, bool flush>
float approximated(float value) {
  const double argument = flush ? flushed(value) : value;
  const auto result = static_cast<float>(Function{}(argument));
  return canonical(flush ? flushed(result) : result);
}

template <class Function, bool flush>
void approximate(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  count_special(warp, lanes);
  const auto* from = warp.lanes_of<float>(instruction.operands[1]);
  auto* to = warp.lanes_of<float>(instruction.operands[0]);
  for_each_lane(lanes, [&](int lane) { to[lane] = approximated<Function, flush>(from[lane]); });
}

/// 2^x with an error below 2^-46 of it, for all lanes at once: the library's function takes them one by one.
inline double nearly_exp2(double x) {
  constexpr double most = 1000;  // beyond all floats
  x = x < -most ? -most : x > most ? most : x;
  constexpr double round_to_whole = 0x1.8p52;
  const double shifted = x + round_to_whole;
  const double f = (x - (shifted - round_to_whole)) * std::numbers::ln2;
  // e^f by its series, |f| <= ln(2) / 2
  double power = 1 + f * (1. / 12);
  const auto times = [&](double part) { power = 1 + power * f * part; };
  times(1. / 11), times(1. / 10), times(1. / 9), times(1. / 8), times(1. / 7), times(1. / 6);
  times(1. / 5), times(1. / 4), times(1. / 3), times(1. / 2), times(1);
  return power * std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52U);
}

/// Gives the result of approximate<Exp2>, and calls it only if 2^x is so near to a tie that its error would matter.
template <bool flush>
[[gnu::flatten]] void exp2_f32(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  count_special(warp, lanes);
  const auto* from = warp.lanes_of<float>(instruction.operands[1]);
  std::array<float, warp_size> results;         // NOLINT: filled in the next loop
  std::array<std::uint32_t, warp_size> unsure;  // NOLINT
  for (std::size_t lane = 0; lane < warp_size; ++lane) {
    constexpr double error = 0x1p-44;
    const double power = nearly_exp2(double{flush ? flushed(from[lane]) : from[lane]});
    const auto least = static_cast<float>(power * (1 - error));
    const auto most = static_cast<float>(power * (1 + error));
    results[lane] = flush ? flushed(most) : most;
    unsure[lane] = least == most ? 0 : 1;  // so is NaN
  }
  for (int lane = 0; lane < warp_size; ++lane) {
    const auto l = static_cast<std::size_t>(lane);
    if (unsure[l] != 0 && contains(lanes, lane)) results[l] = approximated<Exp2, flush>(from[l]);
  }
  for_lanes(warp.lanes_of<float>(instruction.operands[0]), lanes,
            [&](int lane) { return results[static_cast<std::size_t>(lane)]; });
}

/// A function of the upper half of a double: the lower 32 bits are ignored, and those of the result are zero.
template <class Function>
void approximate_f64(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  constexpr std::uint64_t upper_half = 0xffffffff00000000U;
  count_special(warp, lanes);
  map<std::uint64_t, std::uint64_t>(warp, instruction, lanes, [](std::uint64_t bits) -> std::uint64_t {
    const double result = Function{}(flushed(std::bit_cast<double>(bits & upper_half)));
    if (std::isnan(result)) return std::uint64_t{canonical_nan_f32} << 32U;
    return std::bit_cast<std::uint64_t>(flushed(result)) & upper_half;
  });
}

template <class Function>
void double_of_many_digits(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  count_special(warp, lanes);
  unary<Function, double>(warp, instruction, lanes);
}

template <class Function, class Number, class Word>
void approximate_small(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  count_special(warp, lanes);
  small<Function, Number, Word, Word>(warp, instruction, lanes);
}

template <class Function>
void assemble_approximate(Assembler& a) {
  const Type type = a.take_type();
  a.refuse_if(!a.take("approx"));
  a.take_float_modifiers();
  a.refuse_if(a.instruction.saturate);
  a.instruction.counted_as =
      a.opcode() == "ex2" ? InstructionClass::exp2 : InstructionClass::special_function;
  switch (type) {
    case Type::f32:
      if constexpr (std::is_same_v<Function, Exp2>) {
        a.instruction.handler = a.instruction.flush_to_zero ? &exp2_f32<true> : &exp2_f32<false>;
      } else {
        a.instruction.handler =
            a.instruction.flush_to_zero ? &approximate<Function, true> : &approximate<Function, false>;
      }
      break;
    case Type::f64:
      // Without .ftz, which rsqrt alone has, it is a whole function, of nearly all digits.
      a.refuse_if(!a.instruction.flush_to_zero && a.opcode() != "rsqrt");
      a.instruction.handler =
          a.instruction.flush_to_zero ? &approximate_f64<Function> : &double_of_many_digits<Function>;
      break;
    default:
      a.instruction.handler = with_small_type(type, []<class Number, class Word>() -> Handler {
        return &approximate_small<Function, Number, Word>;
      });
  }
  a.operands({type, type});
}

/// sqrt and rcp also exist rounded.
template <class Function>
void assemble_root(Assembler& a) {
  if (a.has("approx")) return assemble_approximate<Function>(a);
  const Type type = a.take_type();
  a.take_rounding();
  const bool nearest = a.instruction.rounding == Rounding::nearest;
  a.take_float_modifiers();
  a.refuse_if(type != Type::f32 && type != Type::f64);
  if (type == Type::f64) {
    a.instruction.handler = nearest ? &unary<Function, double> : &double_directed<Function, double>;
  } else if (!nearest) {
    a.instruction.handler = &single_unusual<Function, float>;
  } else {
    a.instruction.handler = a.instruction.flush_to_zero ? &unary<Single<Function, true>, float>
                                                        : &unary<Single<Function, false>, float>;
  }
  a.operands({type, type});
}

constexpr std::array table{
    OpcodeEntry{"add", &assemble_binary<Add>},
    OpcodeEntry{"sub", &assemble_binary<Subtract>},
    OpcodeEntry{"mul", &assemble_binary<Multiply>},
    OpcodeEntry{"mad", &assemble_fma},
    OpcodeEntry{"fma", &assemble_fma},
    OpcodeEntry{"div", &assemble_div},
    OpcodeEntry{"min", &assemble_extremum<Minimum>},
    OpcodeEntry{"max", &assemble_extremum<Maximum>},
    OpcodeEntry{"neg", &assemble_sign<Negate>},
    OpcodeEntry{"abs", &assemble_sign<Absolute>},
    OpcodeEntry{"copysign", &assemble_copysign},
    OpcodeEntry{"sqrt", &assemble_root<SquareRoot>},
    OpcodeEntry{"rcp", &assemble_root<Reciprocal>},
    OpcodeEntry{"rsqrt", &assemble_approximate<ReciprocalSquareRoot>},
    OpcodeEntry{"ex2", &assemble_approximate<Exp2>},
    OpcodeEntry{"lg2", &assemble_approximate<Log2>},
    OpcodeEntry{"sin", &assemble_approximate<Sine>},
    OpcodeEntry{"cos", &assemble_approximate<Cosine>},
    OpcodeEntry{"tanh", &assemble_approximate<HyperbolicTangent>},
};

}  // namespace

OpcodeTable float_opcodes() {
  return {table.data(), table.data() + table.size()};
}

}  // namespace sim
