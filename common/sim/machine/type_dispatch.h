// From a PTX type to the C++ type that handlers are compiled for.
#pragma once

#include <cstdint>

#include "common/sim/machine/numbers.h"
#include "common/sim/ptx/assembler.h"

namespace sim {

/// function.operator()<T>() with T of as many bits as the type and of its signedness; throws Unsupported for
/// others.
template <class Function>
auto with_integer_type(Type type, Function function) {
  switch (type) {
    case Type::b16:
    case Type::u16:
      return function.template operator()<std::uint16_t>();
    case Type::s16:
      return function.template operator()<std::int16_t>();
    case Type::b32:
    case Type::u32:
      return function.template operator()<std::uint32_t>();
    case Type::s32:
      return function.template operator()<std::int32_t>();
    case Type::b64:
    case Type::u64:
      return function.template operator()<std::uint64_t>();
    case Type::s64:
      return function.template operator()<std::int64_t>();
    default:
      throw Unsupported();
  }
}

/// The same, of 8 bits, too.
template <class Function>
auto with_any_integer_type(Type type, Function function) {
  if (type == Type::u8 || type == Type::b8) return function.template operator()<std::uint8_t>();
  if (type == Type::s8) return function.template operator()<std::int8_t>();
  return with_integer_type(type, function);
}

/// A b128: it is moved and compared, but never computed with. The low half is first.
struct Bits128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Bits128&, const Bits128&) = default;
};

/// By size alone.
template <class Function>
auto with_bits(std::uint32_t bytes, Function function) {
  switch (bytes) {
    case 1:
      return function.template operator()<std::uint8_t>();
    case 2:
      return function.template operator()<std::uint16_t>();
    case 4:
      return function.template operator()<std::uint32_t>();
    case 8:
      return function.template operator()<std::uint64_t>();
    default:
      throw Unsupported();
  }
}

}  // namespace sim
