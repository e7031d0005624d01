// Atomics: lanes one after the other, in the order of their numbers.
#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstring>

#include "common/sim/machine/access.h"
#include "common/sim/machine/block.h"
#include "common/sim/machine/execute_async.h"
#include "common/sim/machine/map.h"
#include "common/sim/machine/numbers.h"
#include "common/sim/machine/type_dispatch.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

using Exchange = decltype([]<class T>(T /*old*/, T b, T /*c*/) { return b; });
using CompareAndSwap = decltype([]<class T>(T old, T b, T c) { return old == b ? c : old; });
using Add = decltype([]<class T>(T old, T b, T /*c*/) { return static_cast<T>(old + b); });
/// f32 in global memory: there the sum is made in the L2 cache, which flushes denormals.
using AddFlushed = decltype([](float old, float b, float /*c*/) {
  return flushed(flushed(old) + flushed(b));
});
using Minimum = decltype([]<class T>(T old, T b, T /*c*/) { return std::min(old, b); });
using Maximum = decltype([]<class T>(T old, T b, T /*c*/) { return std::max(old, b); });
using Increment = decltype([]<class T>(T old, T b, T /*c*/) {
  return static_cast<T>(old >= b ? 0 : old + 1);
});
using Decrement = decltype([]<class T>(T old, T b, T /*c*/) {
  return static_cast<T>(old == 0 || old > b ? b : old - 1);
});
using And = decltype([]<std::integral T>(T old, T b, T /*c*/) { return old & b; });
using Or = decltype([]<std::integral T>(T old, T b, T /*c*/) { return old | b; });
using Xor = decltype([]<std::integral T>(T old, T b, T /*c*/) { return old ^ b; });
using AddHalf = decltype([](std::uint16_t old, std::uint16_t b, std::uint16_t /*c*/) {
  return to_half(static_cast<double>(to_float(Half{old})) + static_cast<double>(to_float(Half{b})),
                 Rounding::nearest)
      .bits;
});
using AddBfloat16 = decltype([](std::uint16_t old, std::uint16_t b, std::uint16_t /*c*/) {
  return to_bfloat16(
             static_cast<double>(to_float(Bfloat16{old})) + static_cast<double>(to_float(Bfloat16{b})),
             Rounding::nearest)
      .bits;
});
template <class Function>
struct Twice {
  std::uint32_t operator()(std::uint32_t old, std::uint32_t b, std::uint32_t /*c*/) const {
    const std::uint32_t low = Function{}(static_cast<std::uint16_t>(old), static_cast<std::uint16_t>(b), 0);
    const std::uint32_t high =
        Function{}(static_cast<std::uint16_t>(old >> 16U), static_cast<std::uint16_t>(b >> 16U), 0);
    return high << 16U | low;
  }
};

// Places of the operands: 0 result (absent for red), 1 address, 2 and 3 values.
template <class Function, class T>
void update(Warp& warp, const Instruction& instruction, LaneMask lanes, const HostAccess& access) {
  const T* b = warp.lanes_of<T>(instruction.operands[2]);
  const T* c = warp.lanes_of<T>(instruction.operands[3].bytes != 0 ? instruction.operands[3]
                                                                   : instruction.operands[2]);
  T* to = instruction.operands[0].bytes != 0 ? warp.lanes_of<T>(instruction.operands[0]) : nullptr;
  bool changes = false;
  for_each_lane(lanes, [&](int lane) {
    std::byte* place = access.contiguous ? access.host[0] + static_cast<std::size_t>(lane) * sizeof(T)
                                         : access.host[static_cast<std::size_t>(lane)];
    std::array<std::byte, sizeof(T)> before;  // NOLINT: filled in the next line
    std::memcpy(before.data(), place, sizeof before);
    const T old = std::bit_cast<T>(before);
    const T value = Function{}(old, b[lane], c[lane]);
    std::memcpy(place, &value, sizeof value);
    changes = changes || std::memcmp(place, before.data(), sizeof before) != 0;
    if (to != nullptr) to[lane] = old;
  });
  if (changes) {
    ++warp.block.launch.progress;
  } else {
    warp.poll();
  }
}

HostAccess access_of(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  return access_memory(warp, instruction, lanes, instruction.operands[1], AccessKind::atomic);
}
template <class Function, class T>
void atomic(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  update<Function, T>(warp, instruction, lanes, access_of(warp, instruction, lanes));
}
/// f32: whether denormals are flushed depends on where the address points.
void add_single(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const HostAccess access = access_of(warp, instruction, lanes);
  const LaneMask in_shared = lanes & access.shared_lanes;
  if (in_shared != 0) update<Add, float>(warp, instruction, in_shared, access);
  if (in_shared != lanes) update<AddFlushed, float>(warp, instruction, lanes & ~in_shared, access);
}

Handler add_handler(Type type) {
  switch (type) {
    case Type::f32:
      return &add_single;
    case Type::f64:
      return &atomic<Add, double>;
    case Type::f16:
      return &atomic<AddHalf, std::uint16_t>;
    case Type::bf16:
      return &atomic<AddBfloat16, std::uint16_t>;
    case Type::f16x2:
      return &atomic<Twice<AddHalf>, std::uint32_t>;
    case Type::bf16x2:
      return &atomic<Twice<AddBfloat16>, std::uint32_t>;
    case Type::u64:
    case Type::s64:
      return &atomic<Add, std::uint64_t>;
    case Type::u32:
    case Type::s32:
      return &atomic<Add, std::uint32_t>;
    default:
      throw Unsupported();
  }
}

template <class Function>
Handler integer_handler(Type type) {
  return with_integer_type(type, []<class T>() -> Handler {
    if constexpr (sizeof(T) >= 4) return &atomic<Function, T>;
    throw Unsupported();
  });
}
template <class Function>
Handler bits_handler(Type type) {
  // For 128 bits there are only exch and cas.
  if constexpr (requires(Bits128 bits) { Function{}(bits, bits, bits); }) {
    if (type == Type::b128) return &atomic<Function, Bits128>;
  }
  return with_bits(size_of(type), []<class T>() -> Handler { return &atomic<Function, T>; });
}

struct AtomicEntry {
  std::string_view name;
  Handler (*handler)(Type);
};
constexpr std::array operations{
    AtomicEntry{"add", &add_handler},
    AtomicEntry{"exch", &bits_handler<Exchange>},
    AtomicEntry{"cas", &bits_handler<CompareAndSwap>},
    AtomicEntry{"min", &integer_handler<Minimum>},
    AtomicEntry{"max", &integer_handler<Maximum>},
    AtomicEntry{"inc", &integer_handler<Increment>},
    AtomicEntry{"dec", &integer_handler<Decrement>},
    AtomicEntry{"and", &bits_handler<And>},
    AtomicEntry{"or", &bits_handler<Or>},
    AtomicEntry{"xor", &bits_handler<Xor>},
};

/// atom d, [a], b, c   and   red [a], b
void assemble_atomic(Assembler& a) {
  if (a.has("async")) return assemble_async_send(a);
  const bool returns = a.opcode() == "atom";
  a.instruction.acquires = true;
  a.instruction.releases = a.take_one_of({"relaxed", "acquire", "release", "acq_rel"}).value_or(0) >= 2;
  a.instruction.scope = a.take_scope(Scope::device);
  (void)a.take("noftz");
  const auto space = a.take_one_of({"global", "shared", "shared::cta", "shared::cluster"});
  a.instruction.space = !space        ? MemorySpace::generic
                        : *space == 0 ? MemorySpace::global
                                      : MemorySpace::shared;
  const auto* entry = std::find_if(operations.begin(), operations.end(),
                                   [&](const AtomicEntry& candidate) { return a.take(candidate.name); });
  a.refuse_if(entry == operations.end());
  const Type type = a.take_type();
  a.instruction.handler = entry->handler(type);
  a.instruction.access_bytes = static_cast<std::uint8_t>(size_of(type));
  a.instruction.counted_as = InstructionClass::atomic;
  const std::size_t first = returns ? 1 : 0;
  // A policy for the cache is the last operand.
  const std::size_t count = a.operand_count() - (a.take("L2::cache_hint") ? 1 : 0);
  a.refuse_if(count < first + 2 || count > first + 3);
  if (returns && a.written(0).kind != WrittenOperand::Kind::nothing) a.destination_at(0, a.written(0), type);
  a.address_at(1, a.written(first));
  a.source_at(2, a.written(first + 1), type);
  if (count == first + 3) a.source_at(3, a.written(first + 2), type);
}

constexpr std::array table{OpcodeEntry{"atom", &assemble_atomic}, OpcodeEntry{"red", &assemble_atomic}};

}  // namespace

OpcodeTable atomic_opcodes() {
  return {table.data(), table.data() + table.size()};
}

}  // namespace sim
