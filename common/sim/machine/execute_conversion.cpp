// cvt: between all types of numbers.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/sim/machine/map.h"
#include "common/sim/machine/numbers.h"
#include "common/sim/machine/type_dispatch.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

/// In `option`
constexpr std::uint8_t to_whole_number = 1;  ///< .rni and its like
constexpr std::uint8_t relu = 2;

template <class T>
constexpr bool is_small = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;
template <class T>
constexpr bool is_float = std::is_floating_point_v<T> || is_small<T>;

/// float for the small types, the value itself for others.
template <class T>
auto widened(T value) {
  if constexpr (is_small<T>) {
    return to_float(value);
  } else {
    return value;
  }
}

Half nearest_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return {canonical_nan_16};
  std::uint32_t result = 0;
  if (magnitude >= 0x47800000U) {  // 65536 and more
    result = 0x7c00;
  } else if (magnitude < 0x38800000U) {  // denormal: the addition rounds at the right place
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    result = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
  } else {
    const std::uint32_t odd = (magnitude >> 13U) & 1U;
    result = (magnitude - (std::uint32_t{112} << 23U) + 0xfffU + odd) >> 13U;
  }
  return {static_cast<std::uint16_t>(sign | result)};
}

Bfloat16 nearest_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return {canonical_nan_16};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U)};
}

template <class To, class From>
To float_to_float(From value, const Instruction& instruction) {
  auto number = widened(value);
  // To f16 an H200 rounds the denormal itself, whatever .ftz says: away from 0 it is f16's smallest number.
  if (instruction.flush_to_zero && std::is_same_v<From, float> && !std::is_same_v<To, Half>) {
    number = static_cast<decltype(number)>(flushed(static_cast<float>(number)));
  }
  if ((instruction.option & to_whole_number) != 0) number = rounded_to_whole(number, instruction.rounding);
  if (instruction.saturate) number = saturated(number);
  if ((instruction.option & relu) != 0) number = rectified(number);
  const bool nearest = instruction.rounding == Rounding::nearest;
  if constexpr (std::is_same_v<To, Half>) {
    if (nearest && sizeof number == sizeof(float)) return nearest_half(static_cast<float>(number));
    return to_half(static_cast<double>(number), instruction.rounding);
  } else if constexpr (std::is_same_v<To, Bfloat16>) {
    if (nearest && sizeof number == sizeof(float)) return nearest_bfloat16(static_cast<float>(number));
    return to_bfloat16(static_cast<double>(number), instruction.rounding);
  } else if constexpr (std::is_same_v<To, float>) {
    const float result =
        nearest ? static_cast<float>(number) : to_float(static_cast<double>(number), instruction.rounding);
    return instruction.flush_to_zero ? flushed(result) : result;
  } else {
    return number;
  }
}

/// Exact, or rounded to odd if it does not fit into a double, so that a later rounding does not take it for a
/// tie.
template <class T>
double to_double_for_rounding(T value) {
  if constexpr (sizeof(T) == 8) {
    constexpr T most_exact = T{1} << 53;
    constexpr T lost = (T{1} << 11) - 1;
    const bool fits =
        std::cmp_less_equal(value, most_exact) && std::cmp_greater_equal(value, -std::int64_t{1} << 53);
    if (!fits && (value & lost) != 0) value = (value & ~lost) | (lost + 1);
  }
  return static_cast<double>(value);
}

struct ToDouble {
  template <class T>
  double operator()(T value) const {
    return static_cast<double>(value);
  }
};

template <class To, class From>
To integer_to_float(From value, const Instruction& instruction) {
  const bool nearest = instruction.rounding == Rounding::nearest;
  if (instruction.saturate) value = saturated(value);
  if constexpr (std::is_same_v<To, double>) {
    return nearest ? static_cast<double>(value) : rounded_by_host<ToDouble>(instruction.rounding, value);
  } else if constexpr (std::is_same_v<To, float>) {
    return nearest ? static_cast<float>(value)
                   : to_float(to_double_for_rounding(value), instruction.rounding);
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<double>(value), instruction.rounding);
  } else {
    return to_bfloat16(to_double_for_rounding(value), instruction.rounding);
  }
}

template <class To, class From>
To integer_to_integer(From value, const Instruction& instruction) {
  if (!instruction.saturate) return static_cast<To>(value);
  if (std::cmp_less(value, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (std::cmp_greater(value, std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return static_cast<To>(value);
}

template <class To, class From>
To converted(From value, const Instruction& instruction) {
  if constexpr (is_float<From> && is_float<To>) {
    return float_to_float<To>(value, instruction);
  } else if constexpr (is_float<To>) {
    return integer_to_float<To>(value, instruction);
  } else if constexpr (is_float<From>) {
    auto number = widened(value);
    if constexpr (std::is_same_v<From, float>) {
      if (instruction.flush_to_zero) number = flushed(number);
    }
    return to_integer<To>(number, instruction.rounding);
  } else {
    return integer_to_integer<To>(value, instruction);
  }
}

/// A register may be wider than the type: then its lower part is the source, and a result is extended.
template <class To, class From>
[[gnu::flatten]] void convert(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const Operand& target = instruction.operands[0];
  const Operand& source = instruction.operands[1];
  if (target.bytes == sizeof(To) && source.bytes == sizeof(From)) {
    const From* from = warp.lanes_of<From>(source);
    for_lanes(warp.lanes_of<To>(target), lanes,
              [&instruction, from](int lane) { return converted<To>(from[lane], instruction); });
    return;
  }
  for_each_lane(lanes, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    From value{};
    std::memcpy(&value, warp.lanes_of<std::byte>(source) + l * source.bytes, sizeof value);
    const To result = converted<To>(value, instruction);
    std::uint64_t extended = 0;
    if constexpr (std::is_integral_v<To>) {
      extended = static_cast<std::uint64_t>(static_cast<std::int64_t>(result));  // a signed one with its sign
    } else {
      std::memcpy(&extended, &result, sizeof result);
    }
    std::memcpy(warp.lanes_of<std::byte>(target) + l * target.bytes, &extended, target.bytes);
  });
}

template <class To>
Handler handler_from(Type from) {
  switch (from) {
    case Type::f16:
      return &convert<To, Half>;
    case Type::bf16:
      return &convert<To, Bfloat16>;
    case Type::f32:
      return &convert<To, float>;
    case Type::f64:
      return &convert<To, double>;
    default:
      return with_any_integer_type(from, []<class From>() -> Handler { return &convert<To, From>; });
  }
}

Handler handler_for(Type to, Type from) {
  switch (to) {
    case Type::f16:
      return handler_from<Half>(from);
    case Type::bf16:
      return handler_from<Bfloat16>(from);
    case Type::f32:
      return handler_from<float>(from);
    case Type::f64:
      return handler_from<double>(from);
    default:
      return with_any_integer_type(to, [from]<class To>() { return handler_from<To>(from); });
  }
}

/// Two f32 into one register: the first source becomes the upper half.
template <class Number>
[[gnu::flatten]] void convert_pair(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<std::uint32_t, float, float>(warp, instruction, lanes, [&instruction](float high, float low) {
    const std::uint32_t upper = converted<Number>(high, instruction).bits;
    return upper << 16U | converted<Number>(low, instruction).bits;
  });
}

// ---- Pairs of 8 bits, always saturated to the largest number: to them from two f32 or from f16x2, and back to f16x2

std::uint16_t pair_of_8_bits(double high, double low, const Instruction& instruction, bool is_e4m3) {
  const auto one = [&](double value) -> std::uint32_t {
    if ((instruction.option & relu) != 0) value = rectified(value);
    return is_e4m3 ? to_e4m3(value) : to_e5m2(value);
  };
  return static_cast<std::uint16_t>(one(high) << 8U | one(low));
}
double half_of(std::uint32_t pair, unsigned shift) {
  return static_cast<double>(to_float(Half{static_cast<std::uint16_t>(pair >> shift)}));
}
template <bool is_e4m3>
void convert_to_8_bits(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<std::uint16_t, float, float>(warp, instruction, lanes, [&instruction](float high, float low) {
    return pair_of_8_bits(static_cast<double>(high), static_cast<double>(low), instruction, is_e4m3);
  });
}
template <bool is_e4m3>
void convert_halves_to_8_bits(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<std::uint16_t, std::uint32_t>(warp, instruction, lanes, [&instruction](std::uint32_t pair) {
    return pair_of_8_bits(half_of(pair, 16), half_of(pair, 0), instruction, is_e4m3);
  });
}
template <bool is_e4m3>
void convert_from_8_bits(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<std::uint32_t, std::uint16_t>(warp, instruction, lanes, [&instruction](std::uint16_t pair) {
    const auto one = [&](unsigned shift) -> std::uint32_t {
      const auto bits = static_cast<std::uint8_t>(pair >> shift);
      // e5m2 is the upper half of a f16.
      const float value =
          is_e4m3 ? from_e4m3(bits) : to_float(Half{static_cast<std::uint16_t>(unsigned{bits} << 8U)});
      return float_to_float<Half>(value, instruction).bits;
    };
    return one(8) << 16U | one(0);
  });
}
bool is_8_bits(Type type) {
  return type == Type::e4m3x2 || type == Type::e5m2x2;
}
void assemble_8_bits(Assembler& a, Type to, Type from) {
  const bool is_e4m3 = to == Type::e4m3x2 || from == Type::e4m3x2;
  a.refuse_if(a.instruction.rounding != Rounding::nearest);
  if (is_8_bits(from)) {
    a.refuse_if(to != Type::f16x2);
    a.instruction.handler = is_e4m3 ? &convert_from_8_bits<true> : &convert_from_8_bits<false>;
    return a.operands({to, from});
  }
  a.refuse_if(!a.take("satfinite"));
  if (from == Type::f32) {
    a.instruction.handler = is_e4m3 ? &convert_to_8_bits<true> : &convert_to_8_bits<false>;
    return a.operands({to, from, from});
  }
  a.refuse_if(from != Type::f16x2);
  a.instruction.handler = is_e4m3 ? &convert_halves_to_8_bits<true> : &convert_halves_to_8_bits<false>;
  a.operands({to, from});
}

// ---- tf32: f32 whose lower 13 bits are zero

template <bool ties_away>
void convert_to_tf32(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const Rounding rounding = instruction.rounding;
  const bool rectifies = (instruction.option & relu) != 0;
  map<std::uint32_t, float>(warp, instruction, lanes, [=](float value) -> std::uint32_t {
    constexpr std::uint32_t lost = 0x1fff;
    // As an H200 does it, which PTX leaves open: away from ties a NaN is only cut, even to an infinity.
    if (std::isnan(value))
      return (ties_away ? std::bit_cast<std::uint32_t>(value) : canonical_nan_f32) & ~lost;
    if (rectifies) value = rectified(value);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t half = ties_away ? lost / 2 + 1 : lost / 2 + (bits >> 13U & 1U);
    return (bits + (rounding == Rounding::nearest ? half : 0)) & ~lost;
  });
}
void assemble_tf32(Assembler& a, Type from, bool ties_away) {
  a.refuse_if(from != Type::f32 || (a.instruction.option & to_whole_number) != 0);
  a.refuse_if(a.instruction.rounding != Rounding::nearest && a.instruction.rounding != Rounding::zero);
  a.instruction.handler = ties_away ? &convert_to_tf32<true> : &convert_to_tf32<false>;
  a.operands({Type::b32, Type::f32});
}

void take_cvt_rounding(Assembler& a) {
  if (const auto whole = a.take_one_of({"rni", "rzi", "rmi", "rpi"})) {
    a.instruction.rounding = static_cast<Rounding>(*whole);
    a.instruction.option |= to_whole_number;
  } else {
    a.take_rounding();
  }
}

void assemble_cvt(Assembler& a) {
  const bool ties_away = a.take("rna");
  take_cvt_rounding(a);
  a.take_float_modifiers();
  if (a.take("relu")) a.instruction.option |= relu;
  const Type to = a.take_type();
  const Type from = a.take_type();
  if (to == Type::tf32) return assemble_tf32(a, from, ties_away);
  a.refuse_if(ties_away);
  if (is_8_bits(to) || is_8_bits(from)) return assemble_8_bits(a, to, from);
  if (to == Type::f16x2 || to == Type::bf16x2) {
    a.refuse_if(from != Type::f32);
    a.instruction.handler = to == Type::f16x2 ? &convert_pair<Half> : &convert_pair<Bfloat16>;
    a.operands({to, from, from});
    return;
  }
  a.refuse_if(from == Type::f16x2 || from == Type::bf16x2);
  const bool directed = a.instruction.rounding != Rounding::nearest;
  a.refuse_if(directed && to == Type::f64 && is_floating_point(from) &&
              (a.instruction.option & to_whole_number) == 0);
  a.instruction.handler = handler_for(to, from);
  a.refuse_if(a.operand_count() != 2);
  a.destination(0, to, false);
  a.source(1, from, false);
  a.refuse_if(a.instruction.operands[0].bytes < size_of(to) ||
              a.instruction.operands[1].bytes < size_of(from));
}

constexpr std::array table{OpcodeEntry{"cvt", &assemble_cvt}};

}  // namespace

OpcodeTable conversion_opcodes() {
  return {table.data(), table.data() + table.size()};
}

}  // namespace sim
