// Whole numbers and bits.
#include "common/sim/machine/execute_integer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "common/sim/machine/map.h"
#include "common/sim/machine/type_dispatch.h"
#include "common/sim/ptx/module.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

/// Unsigned, and at least as wide as int: arithmetic in it wraps.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) < sizeof(int), unsigned, std::make_unsigned_t<T>>;

template <class T>
constexpr unsigned bits_of = 8 * sizeof(T);

// ---- Arithmetic

// Each of these is the type of a function.
using Add = decltype([]<class T>(T a, T b) { return static_cast<T>(Wrapping<T>(a) + Wrapping<T>(b)); });
using Subtract = decltype([]<class T>(T a, T b) { return static_cast<T>(Wrapping<T>(a) - Wrapping<T>(b)); });
using MultiplyLow = decltype([]<class T>(T a, T b) {
  return static_cast<T>(Wrapping<T>(a) * Wrapping<T>(b));
});
struct MultiplyHigh {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (sizeof(T) == 8) {
      const std::uint64_t high =
          high_of_unsigned(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b));
      if constexpr (std::is_unsigned_v<T>) return high;
      return static_cast<T>(high - (a < 0 ? static_cast<std::uint64_t>(b) : 0) -
                            (b < 0 ? static_cast<std::uint64_t>(a) : 0));
    } else {
      using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
      return static_cast<T>((Wide{a} * Wide{b}) >> bits_of<T>);
    }
  }
  static std::uint64_t high_of_unsigned(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t a_low = a & 0xffffffffU;
    const std::uint64_t b_low = b & 0xffffffffU;
    const std::uint64_t a_high = a >> 32U;
    const std::uint64_t b_high = b >> 32U;
    const std::uint64_t middle = a_high * b_low + ((a_low * b_low) >> 32U);
    const std::uint64_t other = a_low * b_high + (middle & 0xffffffffU);
    return a_high * b_high + (middle >> 32U) + (other >> 32U);
  }
};
using MultiplyAddLow = decltype([]<class T>(T a, T b, T c) { return Add{}(MultiplyLow{}(a, b), c); });
using MultiplyAddHigh = decltype([]<class T>(T a, T b, T c) { return Add{}(MultiplyHigh{}(a, b), c); });
/// Division by zero gives all ones on the device.
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Subtract{}(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
using Minimum = decltype([]<class T>(T a, T b) { return a < b ? a : b; });
using Maximum = decltype([]<class T>(T a, T b) { return a < b ? b : a; });
using Negate = decltype([]<class T>(T a) { return Subtract{}(T{0}, a); });
using Absolute = decltype([]<class T>(T a) { return a < T{0} ? Negate{}(a) : a; });
using AbsoluteDifferenceAdd = decltype([]<class T>(T a, T b, T c) {
  return Add{}(c, a < b ? Subtract{}(b, a) : Subtract{}(a, b));
});

template <class Function>
void assemble_binary(Assembler& a) {
  const Type type = a.take_type();
  a.instruction.handler = with_integer_type(type, []<class T>() -> Handler { return &binary<Function, T>; });
  a.operands({type, type, type});
}

template <class Function>
void assemble_unary(Assembler& a) {
  const Type type = a.take_type();
  a.instruction.handler = with_integer_type(type, []<class T>() -> Handler { return &unary<Function, T>; });
  a.operands({type, type});
}

// ---- Two numbers of 16 bits, or four of 8, in a register

/// The function for each half.
template <class Function, class T>
struct OfPairs {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const {
    const auto low = static_cast<std::uint16_t>(Function{}(static_cast<T>(a), static_cast<T>(b)));
    const auto high =
        static_cast<std::uint16_t>(Function{}(static_cast<T>(a >> 16U), static_cast<T>(b >> 16U)));
    return static_cast<std::uint32_t>(high) << 16U | low;
  }
};
/// .relu: negative results become 0.
template <class Function>
struct Rectified {
  template <class T>
  T operator()(T a, T b) const {
    return Maximum{}(Function{}(a, b), T{0});
  }
};

template <class Function>
Handler pairs_handler(Type type) {
  return type == Type::u16x2 ? &binary<OfPairs<Function, std::uint16_t>, std::uint32_t>
                             : &binary<OfPairs<Function, std::int16_t>, std::uint32_t>;
}
bool is_pair(Type type) {
  return type == Type::u16x2 || type == Type::s16x2;
}

/// min and max
template <class Function>
void assemble_extremum(Assembler& a) {
  const Type type = a.peek_type();
  const bool relu = a.take("relu");
  a.refuse_if(relu && type != Type::s32 && type != Type::s16x2);
  if (!relu && !is_pair(type)) return assemble_binary<Function>(a);
  if (!relu) a.instruction.handler = pairs_handler<Function>(type);
  if (relu) {
    a.instruction.handler = type == Type::s32 ? &binary<Rectified<Function>, std::int32_t>
                                              : pairs_handler<Rectified<Function>>(type);
  }
  (void)a.take_type();
  a.operands({type, type, type});
}

/// The byte or, with `bits` 16, the half number i, extended by its sign if it has one.
std::int64_t part(std::uint32_t word, unsigned i, unsigned bits, bool has_sign) {
  const std::uint32_t top = word << (32 - bits * (i + 1));
  return has_sign ? static_cast<std::int32_t>(top) >> (32 - bits)
                  : static_cast<std::int64_t>(top >> (32 - bits));
}

constexpr std::uint8_t first_has_sign = 1;
constexpr std::uint8_t second_has_sign = 2;
constexpr std::uint8_t upper_half = 4;

/// dp4a, dp2a: products of parts, added up. count: 4 bytes with 4 bytes, or 2 halves with 2 of the bytes.
template <unsigned count>
void dot_product(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const std::uint8_t option = instruction.option;
  map<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
      warp, instruction, lanes, [option](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        std::int64_t sum = c;
        for (unsigned i = 0; i < count; ++i) {
          const unsigned of_b = (option & upper_half) != 0 ? i + 2 : i;
          sum += part(a, i, 32 / count, (option & first_has_sign) != 0) *
                 part(b, of_b, 8, (option & second_has_sign) != 0);
        }
        return static_cast<std::uint32_t>(sum);
      });
}
template <unsigned count>
void assemble_dot_product(Assembler& a) {
  if (count == 2) {
    const auto half = a.take_one_of({"lo", "hi"});
    a.refuse_if(!half);
    if (*half == 1) a.instruction.option |= upper_half;
  }
  for (const std::uint8_t has_sign : {first_has_sign, second_has_sign}) {
    const Type type = a.take_type();
    a.refuse_if(type != Type::u32 && type != Type::s32);
    if (type == Type::s32) a.instruction.option |= has_sign;
  }
  a.operands({Type::b32, Type::b32, Type::b32, Type::b32});
  a.instruction.handler = &dot_product<count>;
}

/// vabsdiff4: of four bytes without sign, with .add the sum of all.
template <bool adds>
void absolute_differences(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
      warp, instruction, lanes, [](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        std::uint32_t result = adds ? c : 0;
        for (unsigned i = 0; i < 4; ++i) {
          const std::int64_t difference = part(a, i, 8, false) - part(b, i, 8, false);
          const auto distance = static_cast<std::uint32_t>(difference < 0 ? -difference : difference);
          result += adds ? distance : distance << (8 * i);
        }
        return result;
      });
}
void assemble_vabsdiff4(Assembler& a) {
  for (int i = 0; i < 3; ++i) a.refuse_if(a.take_type() != Type::u32);
  a.instruction.handler = a.take("add") ? &absolute_differences<true> : &absolute_differences<false>;
  a.operands({Type::b32, Type::b32, Type::b32, Type::b32});
}

/// add.sat.s32 and sub.sat.s32
template <int sign>
[[gnu::flatten]] void saturating_add(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<std::int32_t, std::int32_t, std::int32_t>(warp, instruction, lanes, [](std::int32_t a, std::int32_t b) {
    const std::int64_t sum = std::int64_t{a} + sign * std::int64_t{b};
    return std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
  });
}

// ---- Multiplication to twice the width

template <class T>
using Twice =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

using MultiplyWide = decltype([]<class T>(T a, T b) { return MultiplyLow{}(Twice<T>{a}, Twice<T>{b}); });
using MultiplyAddWide = decltype([]<class T>(T a, T b, Twice<T> c) {
  return MultiplyAddLow{}(Twice<T>{a}, Twice<T>{b}, c);
});

Type twice(Type type) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    default:
      throw Unsupported();
  }
}

// ---- The carry flag: one bit per lane

constexpr std::uint8_t carry_in = 1;
constexpr std::uint8_t carry_out = 2;

/// How a carrying instruction makes its result: function(lane, carry) -> value. `first`: the carry of one that takes
/// none.
template <class T, class Function>
void with_carry(Warp& warp, const Instruction& instruction, LaneMask lanes, bool first, Function function) {
  LaneMask& flags = warp.carry();
  T* to = warp.lanes_of<T>(instruction.operands[0]);
  for_each_lane(lanes, [&](int lane) {
    bool carry = (instruction.option & carry_in) != 0 ? contains(flags, lane) : first;
    to[lane] = function(lane, carry);
    if ((instruction.option & carry_out) != 0) flags = (flags & ~bit(lane)) | (carry ? bit(lane) : 0);
  });
}
template <class T>
T add_with_carry(T a, T b, bool& carry) {
  const T sum = a + b;
  const T all = sum + (carry ? 1 : 0);
  carry = sum < a || all < sum;
  return all;
}
template <class T>
void add_carrying(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const T* a = warp.lanes_of<T>(instruction.operands[1]);
  const T* b = warp.lanes_of<T>(instruction.operands[2]);
  with_carry<T>(warp, instruction, lanes, false,
                [=](int lane, bool& carry) { return add_with_carry(a[lane], b[lane], carry); });
}
/// a + ~b + 1, as the GPU does it: its carry is 1 where nothing was borrowed. nvcc chains sub.cc with addc.
template <class T>
void subtract_carrying(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const T* a = warp.lanes_of<T>(instruction.operands[1]);
  const T* b = warp.lanes_of<T>(instruction.operands[2]);
  with_carry<T>(warp, instruction, lanes, true, [=](int lane, bool& carry) {
    return add_with_carry(a[lane], static_cast<T>(~b[lane]), carry);
  });
}
template <class T, bool high>
void multiply_add_carrying(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  using Function = std::conditional_t<high, MultiplyHigh, MultiplyLow>;
  const T* a = warp.lanes_of<T>(instruction.operands[1]);
  const T* b = warp.lanes_of<T>(instruction.operands[2]);
  const T* c = warp.lanes_of<T>(instruction.operands[3]);
  with_carry<T>(warp, instruction, lanes, false, [=](int lane, bool& carry) {
    return add_with_carry(Function{}(a[lane], b[lane]), c[lane], carry);
  });
}

/// 32 or 64 bits; the sign makes no difference.
template <class Choose>
void assemble_carrying(Assembler& a, std::size_t sources, bool takes_carry, Choose choose) {
  const Type type = a.take_type();
  const bool sets_carry = a.take("cc");
  a.instruction.option =
      static_cast<std::uint8_t>((takes_carry ? carry_in : 0) | (sets_carry ? carry_out : 0));
  a.refuse_if(size_of(type) < 4);
  a.instruction.handler = size_of(type) == 4 ? choose(std::uint32_t{}) : choose(std::uint64_t{});
  a.refuse_if(a.operand_count() != sources + 1);
  a.destination(0, type);
  for (std::size_t i = 1; i <= sources; ++i) a.source(i, type);
}

void assemble_addc(Assembler& a) {
  assemble_carrying(a, 2, a.opcode() == "addc",
                    []<class T>(T /*type*/) -> Handler { return &add_carrying<T>; });
}
void assemble_subc(Assembler& a) {
  assemble_carrying(a, 2, a.opcode() == "subc",
                    []<class T>(T /*type*/) -> Handler { return &subtract_carrying<T>; });
}
void assemble_madc(Assembler& a) {
  const bool high = a.take("hi");
  a.refuse_if(!high && !a.take("lo"));
  if (!high) {
    assemble_carrying(a, 3, a.opcode() == "madc",
                      []<class T>(T /*type*/) -> Handler { return &multiply_add_carrying<T, false>; });
    return;
  }
  // The high half depends on the sign.
  a.refuse_if(is_signed_integer(a.peek_type()));
  assemble_carrying(a, 3, a.opcode() == "madc",
                    []<class T>(T /*type*/) -> Handler { return &multiply_add_carrying<T, true>; });
}

void assemble_add(Assembler& a) {
  if (a.has("cc")) return assemble_addc(a);
  if (a.take("sat")) {
    a.refuse_if(a.take_type() != Type::s32);
    a.instruction.handler = &saturating_add<1>;
    a.operands({Type::s32, Type::s32, Type::s32});
    return;
  }
  if (is_pair(a.peek_type())) {
    const Type type = a.take_type();
    a.instruction.handler = pairs_handler<Add>(type);
    a.operands({type, type, type});
    return;
  }
  assemble_binary<Add>(a);
}
void assemble_sub(Assembler& a) {
  if (a.has("cc")) return assemble_subc(a);
  if (a.take("sat")) {
    a.refuse_if(a.take_type() != Type::s32);
    a.instruction.handler = &saturating_add<-1>;
    a.operands({Type::s32, Type::s32, Type::s32});
    return;
  }
  assemble_binary<Subtract>(a);
}

void assemble_mul(Assembler& a) {
  if (a.take("lo")) return assemble_binary<MultiplyLow>(a);
  if (a.take("hi")) return assemble_binary<MultiplyHigh>(a);
  a.refuse_if(!a.take("wide"));
  const Type type = a.take_type();
  const Type wide = twice(type);
  a.operands({wide, type, type});
  a.instruction.handler = with_integer_type(type, []<class T>() -> Handler {
    if constexpr (sizeof(T) < 8) return &mapped<MultiplyWide, Twice<T>, T, T>;
    throw Unsupported();
  });
}

void assemble_mad(Assembler& a) {
  if (a.has("cc")) return assemble_madc(a);
  if (a.take("wide")) {
    const Type type = a.take_type();
    const Type wide = twice(type);
    a.operands({wide, type, type, wide});
    a.instruction.handler = with_integer_type(type, []<class T>() -> Handler {
      if constexpr (sizeof(T) < 8) return &mapped<MultiplyAddWide, Twice<T>, T, T, Twice<T>>;
      throw Unsupported();
    });
    return;
  }
  const bool high = a.take("hi");
  a.refuse_if(!high && !a.take("lo"));
  const Type type = a.take_type();
  a.operands({type, type, type, type});
  a.instruction.handler = with_integer_type(type, [high]<class T>() -> Handler {
    return high ? &ternary<MultiplyAddHigh, T> : &ternary<MultiplyAddLow, T>;
  });
}

void assemble_sad(Assembler& a) {
  const Type type = a.take_type();
  a.operands({type, type, type, type});
  a.instruction.handler =
      with_integer_type(type, []<class T>() -> Handler { return &ternary<AbsoluteDifferenceAdd, T>; });
}

// ---- Bits. Predicates are whole lane masks.

using And = decltype([]<class T>(T a, T b) { return static_cast<T>(a & b); });
using Or = decltype([]<class T>(T a, T b) { return static_cast<T>(a | b); });
using Xor = decltype([]<class T>(T a, T b) { return static_cast<T>(a ^ b); });
using Not = decltype([]<class T>(T a) { return static_cast<T>(~a); });
using LogicalNot = decltype([]<class T>(T a) { return a == 0 ? T{1} : T{0}; });

template <class Function>
void predicate_binary(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto& operands = instruction.operands;
  warp.set_mask(operands[0], lanes, Function{}(warp.mask_of(operands[1]), warp.mask_of(operands[2])));
}
void predicate_not(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  warp.set_mask(instruction.operands[0], lanes, ~warp.mask_of(instruction.operands[1]));
}

template <class Function>
void assemble_bits(Assembler& a) {
  const Type type = a.take_type();
  a.operands({type, type, type});
  a.instruction.handler =
      type == Type::pred
          ? &predicate_binary<Function>
          : with_bits(size_of(type), []<class T>() -> Handler { return &binary<Function, T>; });
}
void assemble_not(Assembler& a) {
  const Type type = a.take_type();
  a.operands({type, type});
  a.instruction.handler = type == Type::pred
                              ? &predicate_not
                              : with_bits(size_of(type), []<class T>() -> Handler { return &unary<Not, T>; });
}

// ---- Shifts: beyond the width everything has been shifted out.

using ShiftLeft = decltype([]<class T>(T value, std::uint32_t by) {
  return by < bits_of<T> ? static_cast<T>(Wrapping<T>(value) << by) : T{0};
});
using ShiftRight = decltype([]<class T>(T value, std::uint32_t by) {
  return by < bits_of<T> ? static_cast<T>(value >> by) : static_cast<T>(value < T{0} ? -1 : 0);
});
template <class Function>
void assemble_shift(Assembler& a) {
  const Type type = a.take_type();
  a.operands({type, type, Type::u32});
  a.instruction.handler =
      with_integer_type(type, []<class T>() -> Handler { return &mapped<Function, T, T, std::uint32_t>; });
}

/// shf: the upper or lower half of a 64-bit value shifted.
template <bool left, bool wrap>
[[gnu::flatten]] void funnel_shift(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
      warp, instruction, lanes, [](std::uint32_t low, std::uint32_t high, std::uint32_t amount) {
        const std::uint32_t by = wrap ? amount & 31U : std::min(amount, 32U);
        const std::uint64_t both = std::uint64_t{high} << 32U | low;
        return static_cast<std::uint32_t>(left ? (both << by) >> 32U : both >> by);
      });
}
void assemble_shf(Assembler& a) {
  const bool left = a.take("l");
  a.refuse_if(!left && !a.take("r"));
  const bool wrap = a.take("wrap");
  a.refuse_if(!wrap && !a.take("clamp"));
  a.refuse_if(a.take_type() != Type::b32);
  a.operands({Type::b32, Type::b32, Type::b32, Type::u32});
  a.instruction.handler = left ? (wrap ? &funnel_shift<true, true> : &funnel_shift<true, false>)
                               : (wrap ? &funnel_shift<false, true> : &funnel_shift<false, false>);
}

/// Any function of three bits, given by its truth table.
[[gnu::flatten]] void lop3(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto table = static_cast<unsigned>(instruction.immediate);
  map<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
      warp, instruction, lanes, [table](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        std::uint32_t result = 0;
        for (unsigned row = 0; row < 8; ++row) {
          if (((table >> row) & 1U) == 0) continue;
          result |= ((row & 4U) != 0 ? a : ~a) & ((row & 2U) != 0 ? b : ~b) & ((row & 1U) != 0 ? c : ~c);
        }
        return result;
      });
}
void assemble_lop3(Assembler& a) {
  a.refuse_if(a.take_type() != Type::b32 || a.operand_count() != 5);
  a.destination(0, Type::b32);
  for (std::size_t i = 1; i <= 3; ++i) a.source(i, Type::b32);
  a.refuse_if(a.written(4).kind != WrittenOperand::Kind::number);
  a.instruction.immediate = static_cast<std::int64_t>(parse_unsigned(a.written(4).text));
  a.instruction.handler = &lop3;
}

// Functions with loops are structs: clang-tidy takes the loop of a lambda in decltype for one that never ends.
struct PermuteBytes {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t selector) const {
    const std::uint64_t all = std::uint64_t{b} << 32U | a;
    std::uint32_t result = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint32_t control = (selector >> (4 * i)) & 0xfU;
      std::uint32_t byte = static_cast<std::uint32_t>(all >> (8 * (control & 7U))) & 0xffU;
      if ((control & 8U) != 0) byte = (byte & 0x80U) != 0 ? 0xff : 0;  // the sign, eight times
      result |= byte << (8 * i);
    }
    return result;
  }
};
void assemble_prmt(Assembler& a) {
  a.refuse_if(a.take_type() != Type::b32);
  a.operands({Type::b32, Type::b32, Type::b32, Type::b32});
  a.instruction.handler = &ternary<PermuteBytes, std::uint32_t>;
}

/// A position or length of bfe and bfi. Above 255 PTX promises nothing: an H200 takes the lowest byte for
/// fields of 32 bits, and any larger number for fields of 64.
template <class T>
std::uint32_t position_or_length(std::uint32_t value) {
  return sizeof(T) == 4 ? value & 0xffU : std::min(value, 255U);
}

struct ExtractBits {
  template <class T>
  T operator()(T value, std::uint32_t position, std::uint32_t length) const {
    position = position_or_length<T>(position);
    length = position_or_length<T>(length);
    using U = std::make_unsigned_t<T>;
    const unsigned width = bits_of<T>;
    if (length == 0) return T{0};
    const unsigned sign_position = std::min(position + length - 1, width - 1);
    const bool negative = std::is_signed_v<T> && ((static_cast<U>(value) >> sign_position) & 1U) != 0;
    U result = negative ? ~U{0} : U{0};
    for (unsigned i = 0; i < length && i < width && position + i < width; ++i) {
      const U one = U{1} << i;
      result = ((static_cast<U>(value) >> (position + i)) & 1U) != 0 ? result | one : result & ~one;
    }
    return static_cast<T>(result);
  }
};
void assemble_bfe(Assembler& a) {
  const Type type = a.take_type();
  a.refuse_if(size_of(type) < 4);
  a.operands({type, type, Type::u32, Type::u32});
  a.instruction.handler = with_integer_type(
      type, []<class T>() -> Handler { return &mapped<ExtractBits, T, T, std::uint32_t, std::uint32_t>; });
}

using InsertBits = decltype([]<class T>(T field, T into, std::uint32_t position, std::uint32_t length) {
  position = position_or_length<T>(position);
  length = position_or_length<T>(length);
  const unsigned width = bits_of<T>;
  if (length == 0 || position >= width) return into;
  const T ones = length >= width ? static_cast<T>(~T{0}) : (T{1} << length) - 1;
  const T mask = ones << position;
  return (into & ~mask) | ((field << position) & mask);
});
void assemble_bfi(Assembler& a) {
  const Type type = a.take_type();
  a.operands({type, type, type, Type::u32, Type::u32});
  const auto of = []<class T>(T) { return &mapped<InsertBits, T, T, T, std::uint32_t, std::uint32_t>; };
  a.instruction.handler = size_of(type) == 4 ? of(std::uint32_t{}) : of(std::uint64_t{});
  a.refuse_if(type != Type::b32 && type != Type::b64);
}

// ---- Counting bits: the result has 32 bits

template <class T>
std::uint32_t find_leading(T value, bool shift_amount) {
  using U = std::make_unsigned_t<T>;
  const bool negative = std::is_signed_v<T> && value < T{0};
  const U bits = negative ? static_cast<U>(~static_cast<U>(value)) : static_cast<U>(value);
  if (bits == 0) return ~std::uint32_t{0};
  const auto leading = static_cast<std::uint32_t>(std::countl_zero(bits));
  return shift_amount ? leading : bits_of<T> - 1 - leading;
}
template <class T>
[[gnu::flatten]] void bfind(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const bool shift_amount = instruction.option != 0;
  map<std::uint32_t, T>(warp, instruction, lanes, [=](T value) { return find_leading(value, shift_amount); });
}
void assemble_bfind(Assembler& a) {
  a.instruction.option = a.take("shiftamt") ? 1 : 0;
  const Type type = a.take_type();
  a.operands({Type::u32, type});
  a.instruction.handler = with_integer_type(type, []<class T>() -> Handler { return &bfind<T>; });
}
using CountOnes = decltype([](auto value) { return std::popcount(value); });
using CountLeadingZeros = decltype([](auto value) { return std::countl_zero(value); });
struct Reverse {
  template <class T>
  T operator()(T value) const {
    T reversed = 0;
    for (unsigned i = 0; i < bits_of<T>; ++i) reversed |= ((value >> i) & 1U) << (bits_of<T> - 1 - i);
    return reversed;
  }
};
template <class Function>
void assemble_count(Assembler& a) {
  const Type type = a.take_type();
  a.operands({Type::u32, type});
  a.instruction.handler = size_of(type) == 4 ? &mapped<Function, std::uint32_t, std::uint32_t>
                                             : &mapped<Function, std::uint32_t, std::uint64_t>;
}
void assemble_brev(Assembler& a) {
  const Type type = a.take_type();
  a.operands({type, type});
  a.instruction.handler =
      size_of(type) == 4 ? &unary<Reverse, std::uint32_t> : &unary<Reverse, std::uint64_t>;
}

/// The n-th set bit of a mask from a base on, upwards or (n negative) downwards.
std::uint32_t find_nth_set(std::uint32_t mask, std::uint32_t base, std::int32_t offset) {
  if (base > 31) return ~std::uint32_t{0};
  if (offset == 0) return ((mask >> base) & 1U) != 0 ? base : ~std::uint32_t{0};
  const int step = offset > 0 ? 1 : -1;
  std::int64_t left = offset > 0 ? std::int64_t{offset} : -std::int64_t{offset};
  for (int at = static_cast<int>(base); at >= 0 && at < warp_size; at += step) {
    if (((mask >> static_cast<unsigned>(at)) & 1U) != 0 && --left == 0) return static_cast<std::uint32_t>(at);
  }
  return ~std::uint32_t{0};
}
void fns(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t>(warp, instruction, lanes, find_nth_set);
}
void assemble_fns(Assembler& a) {
  a.refuse_if(a.take_type() != Type::b32);
  a.operands({Type::b32, Type::b32, Type::b32, Type::s32});
  a.instruction.handler = &fns;
}

/// A mask of ones from a position on.
template <bool wrap>
[[gnu::flatten]] void bmsk(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<std::uint32_t, std::uint32_t, std::uint32_t>(
      warp, instruction, lanes, [](std::uint32_t position, std::uint32_t length) {
        if (wrap) {
          position &= 31U;
          length &= 31U;
        }
        if (position > 31) return std::uint32_t{0};
        const std::uint32_t ones = length > 31 ? ~std::uint32_t{0} : (std::uint32_t{1} << length) - 1;
        return ones << position;
      });
}
void assemble_bmsk(Assembler& a) {
  const bool wrap = a.take("wrap");
  a.refuse_if(!wrap && !a.take("clamp"));
  a.refuse_if(a.take_type() != Type::b32);
  a.operands({Type::b32, Type::b32, Type::b32});
  a.instruction.handler = wrap ? &bmsk<true> : &bmsk<false>;
}

constexpr std::array arithmetic{
    OpcodeEntry{"add", &assemble_add},
    OpcodeEntry{"sub", &assemble_sub},
    OpcodeEntry{"mul", &assemble_mul},
    OpcodeEntry{"mad", &assemble_mad},
    OpcodeEntry{"div", &assemble_binary<Divide>},
    OpcodeEntry{"min", &assemble_extremum<Minimum>},
    OpcodeEntry{"max", &assemble_extremum<Maximum>},
    OpcodeEntry{"neg", &assemble_unary<Negate>},
    OpcodeEntry{"abs", &assemble_unary<Absolute>},
};

constexpr std::array table{
    OpcodeEntry{"rem", &assemble_binary<Remainder>},
    OpcodeEntry{"sad", &assemble_sad},
    OpcodeEntry{"dp4a", &assemble_dot_product<4>},
    OpcodeEntry{"dp2a", &assemble_dot_product<2>},
    OpcodeEntry{"vabsdiff4", &assemble_vabsdiff4},
    OpcodeEntry{"addc", &assemble_addc},
    OpcodeEntry{"subc", &assemble_subc},
    OpcodeEntry{"madc", &assemble_madc},
    OpcodeEntry{"and", &assemble_bits<And>},
    OpcodeEntry{"or", &assemble_bits<Or>},
    OpcodeEntry{"xor", &assemble_bits<Xor>},
    OpcodeEntry{"not", &assemble_not},
    OpcodeEntry{"cnot", &assemble_unary<LogicalNot>},
    OpcodeEntry{"shl", &assemble_shift<ShiftLeft>},
    OpcodeEntry{"shr", &assemble_shift<ShiftRight>},
    OpcodeEntry{"shf", &assemble_shf},
    OpcodeEntry{"lop3", &assemble_lop3},
    OpcodeEntry{"prmt", &assemble_prmt},
    OpcodeEntry{"bfe", &assemble_bfe},
    OpcodeEntry{"bfi", &assemble_bfi},
    OpcodeEntry{"bfind", &assemble_bfind},
    OpcodeEntry{"popc", &assemble_count<CountOnes>},
    OpcodeEntry{"clz", &assemble_count<CountLeadingZeros>},
    OpcodeEntry{"brev", &assemble_brev},
    OpcodeEntry{"fns", &assemble_fns},
    OpcodeEntry{"bmsk", &assemble_bmsk},
};

}  // namespace

void assemble_integer_arithmetic(Assembler& assembler) {
  const auto* entry = std::find_if(arithmetic.begin(), arithmetic.end(), [&](const OpcodeEntry& candidate) {
    return candidate.name == assembler.opcode();
  });
  if (entry == arithmetic.end()) throw Unsupported();
  entry->assemble(assembler);
}

OpcodeTable integer_opcodes() {
  return {table.data(), table.data() + table.size()};
}

}  // namespace sim
