// Comparisons and selections.
#include <array>
#include <cstring>

#include "common/sim/machine/map.h"
#include "common/sim/machine/numbers.h"
#include "common/sim/machine/type_dispatch.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

using Equal = decltype([]<class T>(T a, T b) { return a == b; });
/// PTX's ne is false for NaN; whole numbers have none.
using NotEqual = decltype([]<class T>(T a, T b) { return a < b || a > b; });
using Less = decltype([]<class T>(T a, T b) { return a < b; });
using LessOrEqual = decltype([]<class T>(T a, T b) { return a <= b; });
using Greater = decltype([]<class T>(T a, T b) { return a > b; });
using GreaterOrEqual = decltype([]<class T>(T a, T b) { return a >= b; });
constexpr float smallest_normal_half = 0x1p-14F;

template <class Opposite>
struct Unordered {  // true also when an operand is NaN
  template <class T>
  bool operator()(T a, T b) const {
    return !Opposite{}(a, b);
  }
};
using BothNumbers = decltype([]<class T>(T a, T b) { return !std::isnan(a) && !std::isnan(b); });

/// One bit per lane from one byte, 0 or 1, per lane.
LaneMask pack(const std::array<std::uint8_t, warp_size>& flags) {
  LaneMask mask = 0;
  for (unsigned group = 0; group < 4; ++group) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, flags.data() + std::size_t{8} * group, sizeof eight);
    mask |= static_cast<LaneMask>((eight * 0x0102040810204080U) >> 56U) << (8 * group);
  }
  return mask;
}

/// All lanes, also those that take no part: their registers hold some value or other.
template <class Compare, class T>
LaneMask compare(Warp& warp, const Operand& left, const Operand& right) {
  const T* a = warp.lanes_of<T>(left);
  const T* b = warp.lanes_of<T>(right);
  std::array<std::uint8_t, warp_size> flags;  // NOLINT: filled in the next line
  for (std::size_t lane = 0; lane < warp_size; ++lane) flags[lane] = Compare{}(a[lane], b[lane]) ? 1 : 0;
  return pack(flags);
}

/// f16 and bf16, and flushed operands, by way of float.
template <class Compare, class Number, bool flush>
LaneMask compare_as_float(Warp& warp, const Operand& left, const Operand& right) {
  const Number* a = warp.lanes_of<Number>(left);
  const Number* b = warp.lanes_of<Number>(right);
  const auto number = [](Number value) {
    if constexpr (std::is_same_v<Number, float>) {
      return flushed(value);
    } else if constexpr (flush) {
      return std::fabs(to_float(value)) < smallest_normal_half ? 0.0F : to_float(value);
    } else {
      return to_float(value);
    }
  };
  std::array<std::uint8_t, warp_size> flags;  // NOLINT: filled in the next line
  for (std::size_t lane = 0; lane < warp_size; ++lane)
    flags[lane] = Compare{}(number(a[lane]), number(b[lane])) ? 1 : 0;
  return pack(flags);
}

using Comparison = LaneMask (*)(Warp&, const Operand&, const Operand&);

enum Combine : std::uint8_t { alone, with_and, with_or, with_xor };

LaneMask combined(LaneMask result, LaneMask other, std::uint8_t how) {
  switch (how) {
    case with_and:
      return result & other;
    case with_or:
      return result | other;
    case with_xor:
      return result ^ other;
    default:
      return result;
  }
}

// Places of the operands: p, q, a, b, c. The sign of c in `immediate`.
template <Comparison comparison>
[[gnu::flatten]] void setp(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto& operands = instruction.operands;
  const LaneMask result = comparison(warp, operands[2], operands[3]);
  LaneMask other = 0;
  if (instruction.option != alone) {
    other = warp.mask_of(operands[4]) ^ static_cast<LaneMask>(instruction.immediate);
  }
  warp.set_mask(operands[0], lanes, combined(result, other, instruction.option));
  if (operands[1].bytes == 0) return;
  warp.set_mask(operands[1], lanes, combined(~result, other, instruction.option));
}

/// Writes all ones, or 1.0.
template <Comparison comparison, bool as_float>
void set(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const LaneMask result = comparison(warp, instruction.operands[1], instruction.operands[2]);
  auto* to = warp.lanes_of<std::uint32_t>(instruction.operands[0]);
  constexpr std::uint32_t one = as_float ? 0x3f800000 : 0xffffffff;
  for_each_lane(lanes, [&](int lane) { to[lane] = contains(result, lane) ? one : 0; });
}

enum class Form : std::uint8_t { predicate, ones, one };

template <class Compare>
Handler handler_for(Type type, bool flush, Form form) {
  const auto with = [form]<Comparison comparison>() -> Handler {
    switch (form) {
      case Form::ones:
        return &set<comparison, false>;
      case Form::one:
        return &set<comparison, true>;
      default:
        return &setp<comparison>;
    }
  };
  switch (type) {
    case Type::f32:
      return flush ? with.template operator()<&compare_as_float<Compare, float, true>>()
                   : with.template operator()<&compare<Compare, float>>();
    case Type::f64:
      return with.template operator()<&compare<Compare, double>>();
    case Type::f16:
      return flush ? with.template operator()<&compare_as_float<Compare, Half, true>>()
                   : with.template operator()<&compare_as_float<Compare, Half, false>>();
    case Type::bf16:
      return with.template operator()<&compare_as_float<Compare, Bfloat16, false>>();
    default:
      return with_integer_type(
          type, [&]<class T>() -> Handler { return with.template operator()<&compare<Compare, T>>(); });
  }
}

struct CompareEntry {
  std::string_view name;
  Handler (*handler)(Type, bool, Form);
  bool unsigned_only = false;  ///< lo, ls, hi, hs
};
constexpr std::array comparisons{
    CompareEntry{"eq", &handler_for<Equal>},
    CompareEntry{"ne", &handler_for<NotEqual>},
    CompareEntry{"lt", &handler_for<Less>},
    CompareEntry{"le", &handler_for<LessOrEqual>},
    CompareEntry{"gt", &handler_for<Greater>},
    CompareEntry{"ge", &handler_for<GreaterOrEqual>},
    CompareEntry{"lo", &handler_for<Less>, true},
    CompareEntry{"ls", &handler_for<LessOrEqual>, true},
    CompareEntry{"hi", &handler_for<Greater>, true},
    CompareEntry{"hs", &handler_for<GreaterOrEqual>, true},
    CompareEntry{"equ", &handler_for<Unordered<NotEqual>>},
    CompareEntry{"neu", &handler_for<Unordered<Equal>>},
    CompareEntry{"ltu", &handler_for<Unordered<GreaterOrEqual>>},
    CompareEntry{"leu", &handler_for<Unordered<Greater>>},
    CompareEntry{"gtu", &handler_for<Unordered<LessOrEqual>>},
    CompareEntry{"geu", &handler_for<Unordered<Less>>},
    CompareEntry{"num", &handler_for<BothNumbers>},
    CompareEntry{"nan", &handler_for<Unordered<BothNumbers>>},
};

Handler take_comparison(Assembler& a, Type type, Form form) {
  const bool flush = a.take("ftz");
  a.refuse_if(flush && type != Type::f32 && type != Type::f16);
  for (const CompareEntry& entry : comparisons) {
    if (!a.take(entry.name)) continue;
    if (entry.unsigned_only && !is_signed_integer(type)) return entry.handler(type, flush, form);
    a.refuse_if(entry.unsigned_only);
    return entry.handler(type, flush, form);
  }
  throw Unsupported();
}

void assemble_setp(Assembler& a) {
  const auto combine = a.take_one_of({"and", "or", "xor"});
  const Type type = a.take_type();
  a.instruction.handler = take_comparison(a, type, Form::predicate);
  a.instruction.option = combine ? static_cast<std::uint8_t>(*combine + 1) : std::uint8_t{alone};
  const std::size_t sources = combine ? 3 : 2;
  const std::size_t results = a.operand_count() - sources;
  a.refuse_if(a.operand_count() < sources || results < 1 || results > 2);
  a.destination_at(0, a.written(0), Type::pred);
  if (results == 2) a.destination_at(1, a.written(1), Type::pred);
  a.source_at(2, a.written(results), type);
  a.source_at(3, a.written(results + 1), type);
  if (combine) {
    WrittenOperand other = a.written(results + 2);
    a.instruction.immediate = other.negated ? all_lanes : 0;
    other.negated = false;
    a.source_at(4, other, Type::pred);
  }
}

void assemble_set(Assembler& a) {
  const Type result = a.take_type();
  a.refuse_if(result != Type::u32 && result != Type::s32 && result != Type::f32);
  const Type type = a.take_type();
  a.instruction.handler = take_comparison(a, type, result == Type::f32 ? Form::one : Form::ones);
  a.operands({result, type, type});
}

template <class T>
[[gnu::flatten]] void selp(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const T* if_true = warp.lanes_of<T>(instruction.operands[1]);
  const T* if_false = warp.lanes_of<T>(instruction.operands[2]);
  const LaneMask choice = warp.mask_of(instruction.operands[3]);
  for_lanes(warp.lanes_of<T>(instruction.operands[0]), lanes,
            [=](int lane) { return contains(choice, lane) ? if_true[lane] : if_false[lane]; });
}

void assemble_selp(Assembler& a) {
  const Type type = a.take_type();
  a.operands({type, type, type, Type::pred});
  a.instruction.handler = with_bits(size_of(type), []<class T>() -> Handler { return &selp<T>; });
  a.instruction.selects = true;
}

// testp: a property of one f32 or f64
enum Property : std::uint8_t { finite, infinite, number, not_a_number, normal, subnormal };

template <class T>
void testp(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const T* values = warp.lanes_of<T>(instruction.operands[1]);
  LaneMask& to = warp.mask_of(instruction.operands[0]);
  for_each_lane(lanes, [&](int lane) {
    const T value = values[lane];
    bool holds = false;
    switch (instruction.option) {
      case finite:
        holds = std::isfinite(value);
        break;
      case infinite:
        holds = std::isinf(value);
        break;
      case number:
        holds = !std::isnan(value);
        break;
      case not_a_number:
        holds = std::isnan(value);
        break;
      case normal:
        holds = std::isnormal(value) || value == 0;  // zero is normal here
        break;
      default:
        holds = std::fpclassify(value) == FP_SUBNORMAL;
    }
    to = (to & ~bit(lane)) | (holds ? bit(lane) : 0);
  });
}
void assemble_testp(Assembler& a) {
  const auto property = a.take_one_of({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  a.refuse_if(!property);
  a.instruction.option = static_cast<std::uint8_t>(*property);
  const Type type = a.take_type();
  a.refuse_if(type != Type::f32 && type != Type::f64);
  a.operands({Type::pred, type});
  a.instruction.handler = type == Type::f32 ? &testp<float> : &testp<double>;
}

constexpr std::array table{
    OpcodeEntry{"setp", &assemble_setp},
    OpcodeEntry{"set", &assemble_set},
    OpcodeEntry{"selp", &assemble_selp},
    OpcodeEntry{"testp", &assemble_testp},
};

}  // namespace

OpcodeTable comparison_opcodes() {
  return {table.data(), table.data() + table.size()};
}

}  // namespace sim
