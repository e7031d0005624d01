// The types of PTX values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sim {

enum class Type : std::uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  u16x2,
  s16x2,
  e4m3x2,
  e5m2x2,
  tf32,
  f16,
  bf16,
  f16x2,
  bf16x2,
  f32,
  f64,
};

/// "u32" -> Type::u32; empty for a word that is not a type.
std::optional<Type> type_named(std::string_view word);

/// Bytes of one value. A predicate is one bit of a lane mask, and counts as 4 bytes for the whole warp.
std::uint32_t size_of(Type type);

bool is_signed_integer(Type type);
bool is_floating_point(Type type);

}  // namespace sim
