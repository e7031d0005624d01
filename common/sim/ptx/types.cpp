#include "common/sim/ptx/types.h"

#include <array>

namespace sim {
namespace {

struct TypeEntry {
  std::string_view name;
  Type type;
  std::uint32_t bytes;
};

constexpr std::array<TypeEntry, 25> types{
    {{"pred", Type::pred, 4},   {"b8", Type::b8, 1},         {"b16", Type::b16, 2},
     {"b32", Type::b32, 4},     {"b64", Type::b64, 8},       {"b128", Type::b128, 16},
     {"u8", Type::u8, 1},       {"u16", Type::u16, 2},       {"u32", Type::u32, 4},
     {"u64", Type::u64, 8},     {"s8", Type::s8, 1},         {"s16", Type::s16, 2},
     {"s32", Type::s32, 4},     {"s64", Type::s64, 8},       {"u16x2", Type::u16x2, 4},
     {"s16x2", Type::s16x2, 4}, {"e4m3x2", Type::e4m3x2, 2}, {"e5m2x2", Type::e5m2x2, 2},
     {"tf32", Type::tf32, 4},   {"f16", Type::f16, 2},       {"bf16", Type::bf16, 2},
     {"f16x2", Type::f16x2, 4}, {"bf16x2", Type::bf16x2, 4}, {"f32", Type::f32, 4},
     {"f64", Type::f64, 8}}};

constexpr std::array<std::uint32_t, types.size() + 1> bytes_of = [] {
  std::array<std::uint32_t, types.size() + 1> bytes{};  // and none of Type::none
  for (const TypeEntry& entry : types) bytes.at(static_cast<std::size_t>(entry.type)) = entry.bytes;
  return bytes;
}();

/// A word of at most eight characters, which all types are; 0 for a longer one. To compare all modifiers of an instruction
/// with all types as strings took a tenth of the time of the parser.
constexpr std::uint64_t as_number(std::string_view word) {
  if (word.size() > sizeof(std::uint64_t)) return 0;
  std::uint64_t number = 0;
  for (const char c : word) number = number << 8U | static_cast<unsigned char>(c);
  return number;
}
constexpr std::array<std::uint64_t, types.size()> names_as_numbers = [] {
  std::array<std::uint64_t, types.size()> numbers{};
  for (std::size_t i = 0; i < types.size(); ++i) numbers.at(i) = as_number(types.at(i).name);
  return numbers;
}();

}  // namespace

std::optional<Type> type_named(std::string_view word) {
  const std::uint64_t wanted = as_number(word);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (names_as_numbers[i] == wanted) return types[i].type;
  }
  return std::nullopt;
}

std::uint32_t size_of(Type type) {
  return bytes_of.at(static_cast<std::size_t>(type));
}

bool is_signed_integer(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

bool is_floating_point(Type type) {
  return type >= Type::f16;
}

}  // namespace sim
