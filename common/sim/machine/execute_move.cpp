// Moves between registers, and between the address spaces.
#include <array>

#include "common/sim/machine/block.h"
#include "common/sim/machine/cluster.h"
#include "common/sim/machine/map.h"
#include "common/sim/machine/memory.h"
#include "common/sim/machine/type_dispatch.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

using Kind = WrittenOperand::Kind;

template <class T>
[[gnu::flatten]] void mov(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  map<T, T>(warp, instruction, lanes, [](T value) { return value; });
}
void mov_predicate(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  warp.set_mask(instruction.operands[0], lanes, warp.mask_of(instruction.operands[1]));
}

/// mov.b64 {a, b}, c: a is the lower part. Part: the type of a and b.
template <class Whole, class Part>
[[gnu::flatten]] void split(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  constexpr std::size_t parts = sizeof(Whole) / sizeof(Part);
  const Whole* from = warp.lanes_of<Whole>(instruction.operands[parts]);
  for_each_lane(lanes, [&](int lane) {
    const Whole value = from[lane];
    for (std::size_t i = 0; i < parts; ++i) {
      warp.lanes_of<Part>(instruction.operands[i])[lane] = static_cast<Part>(value >> (8 * sizeof(Part) * i));
    }
  });
}
/// mov.b64 c, {a, b}
template <class Whole, class Part>
[[gnu::flatten]] void join(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  constexpr std::size_t parts = sizeof(Whole) / sizeof(Part);
  auto* to = warp.lanes_of<Whole>(instruction.operands[0]);
  for_each_lane(lanes, [&](int lane) {
    Whole value = 0;
    for (std::size_t i = 0; i < parts; ++i) {
      const Whole part = warp.lanes_of<Part>(instruction.operands[i + 1])[lane];
      value |= part << (8 * sizeof(Part) * i);
    }
    to[lane] = value;
  });
}

/// The same of 128 bits and their halves.
void split_128(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto* from = warp.lanes_of<Bits128>(instruction.operands[2]);
  for_each_lane(lanes, [&](int lane) {
    const Bits128 value = from[lane];
    warp.lanes_of<std::uint64_t>(instruction.operands[0])[lane] = value.low;
    warp.lanes_of<std::uint64_t>(instruction.operands[1])[lane] = value.high;
  });
}
void join_128(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto* low = warp.lanes_of<std::uint64_t>(instruction.operands[1]);
  const auto* high = warp.lanes_of<std::uint64_t>(instruction.operands[2]);
  auto* to = warp.lanes_of<Bits128>(instruction.operands[0]);
  for_each_lane(lanes, [&](int lane) { to[lane] = {low[lane], high[lane]}; });
}

Type bits_type(std::uint32_t bytes) {
  switch (bytes) {
    case 1:
      return Type::b8;
    case 2:
      return Type::b16;
    case 4:
      return Type::b32;
    default:
      return Type::b64;
  }
}

/// The parts that a value of a given size is cut into, by their number.
struct PartsEntry {
  std::uint32_t bytes;
  std::size_t parts;
  Handler split;
  Handler join;
};
constexpr std::array parts_table{
    PartsEntry{16, 2, &split_128, &join_128},
    PartsEntry{8, 2, &split<std::uint64_t, std::uint32_t>, &join<std::uint64_t, std::uint32_t>},
    PartsEntry{8, 4, &split<std::uint64_t, std::uint16_t>, &join<std::uint64_t, std::uint16_t>},
    PartsEntry{4, 2, &split<std::uint32_t, std::uint16_t>, &join<std::uint32_t, std::uint16_t>},
    PartsEntry{4, 4, &split<std::uint32_t, std::uint8_t>, &join<std::uint32_t, std::uint8_t>},
    PartsEntry{2, 2, &split<std::uint16_t, std::uint8_t>, &join<std::uint16_t, std::uint8_t>},
};

void assemble_parts(Assembler& a, Type type, bool splits) {
  const WrittenOperand& vector = a.written(splits ? 0 : 1);
  const std::uint32_t bytes = size_of(type);
  for (const PartsEntry& entry : parts_table) {
    if (entry.bytes != bytes || entry.parts != vector.elements.size()) continue;
    const Type part = bits_type(static_cast<std::uint32_t>(bytes / entry.parts));
    a.instruction.handler = splits ? entry.split : entry.join;
    for (std::size_t i = 0; i < entry.parts; ++i) {
      if (splits) {
        a.destination_at(i, vector.elements[i], part);
      } else {
        a.source_at(i + 1, vector.elements[i], part);
      }
    }
    if (splits) {
      a.source_at(entry.parts, a.written(1), type);
    } else {
      a.destination(0, type);
    }
    return;
  }
  throw Unsupported();
}

/// %clock and its like: there is no time here, but loops that wait for some must end.
template <class T>
void read_clock(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto value = static_cast<T>(warp.clock() >> static_cast<unsigned>(instruction.option));
  for_lanes(warp.lanes_of<T>(instruction.operands[0]), lanes, [value](int /*lane*/) { return value; });
  warp.poll();
}
/// %gridid: which launch of the program this is.
template <class T>
void read_grid_id(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto value = static_cast<T>(warp.block.launch.memory.launches());
  for_lanes(warp.lanes_of<T>(instruction.operands[0]), lanes, [value](int /*lane*/) { return value; });
}
bool assemble_grid_id(Assembler& a, Type type) {
  if (a.written(1).text != "%gridid") return false;
  a.destination(0, type);
  a.refuse_if(size_of(type) != 4 && size_of(type) != 8);
  a.instruction.handler = size_of(type) == 8 ? &read_grid_id<std::uint64_t> : &read_grid_id<std::uint32_t>;
  return true;
}
bool assemble_clock(Assembler& a, Type type) {
  const std::string_view name = a.written(1).text;
  const bool upper_half = name == "%clock_hi" || name == "%globaltimer_hi";
  if (name != "%clock" && name != "%clock64" && name != "%globaltimer" && name != "%globaltimer_lo" &&
      !upper_half) {
    return false;
  }
  a.destination(0, type);
  a.instruction.option = upper_half ? 32 : 0;
  a.instruction.handler = size_of(type) == 8 ? &read_clock<std::uint64_t> : &read_clock<std::uint32_t>;
  a.refuse_if(size_of(type) < 4);
  return true;
}

void assemble_mov(Assembler& a) {
  const Type type = a.take_type();
  a.refuse_if(a.operand_count() != 2);
  if (assemble_clock(a, type) || assemble_grid_id(a, type)) return;
  if (a.written(0).kind == Kind::vector) return assemble_parts(a, type, true);
  if (a.written(1).kind == Kind::vector) return assemble_parts(a, type, false);
  a.operands({type, type});
  if (type == Type::b128) {
    a.instruction.handler = &mov<Bits128>;
    return;
  }
  a.instruction.handler = type == Type::pred
                              ? &mov_predicate
                              : with_bits(size_of(type), []<class T>() -> Handler { return &mov<T>; });
}

// ---- Generic addresses

/// Adds `immediate`: the window's start, or its negative.
[[gnu::flatten]] void move_window(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto by = static_cast<std::uint64_t>(instruction.immediate);
  map<std::uint64_t, std::uint64_t>(warp, instruction, lanes,
                                    [by](std::uint64_t address) { return address + by; });
}

/// The window of a space; 0: none, because addresses in no window are global memory.
std::uint64_t window_of(Assembler& a) {
  constexpr std::array<std::uint64_t, 9> windows{
      0, 0, 0, shared_window, shared_window, shared_window, local_window, parameter_window, parameter_window};
  const auto space = a.take_one_of({"global", "const", "constant", "shared", "shared::cta", "shared::cluster",
                                    "local", "param", "param::entry"});
  a.refuse_if(!space);
  return windows.at(*space);
}

void assemble_cvta(Assembler& a) {
  const bool to_space = a.take("to");
  const std::uint64_t window = window_of(a);
  const Type type = a.take_type();
  a.refuse_if(size_of(type) != 8);
  a.operands({type, type});
  a.instruction.immediate = static_cast<std::int64_t>(to_space ? ~window + 1 : window);
  a.instruction.handler = &move_window;
}

/// option: 1 where only the block's own shared memory counts, not that of the others in its cluster.
void isspacep(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto window = static_cast<std::uint64_t>(instruction.immediate);
  const auto* addresses = warp.lanes_of<std::uint64_t>(instruction.operands[1]);
  const std::uint64_t own_rank = warp.block.rank + 1;
  LaneMask& to = warp.mask_of(instruction.operands[0]);
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t offset = addresses[lane] - window;
    bool inside = window == 0 ? addresses[lane] < shared_window : offset < window_bytes;
    const std::uint64_t rank = offset >> cluster_rank_shift;  // plus 1; 0: the block's own
    if (instruction.option != 0) inside = inside && (rank == 0 || rank == own_rank);
    to = (to & ~bit(lane)) | (inside ? bit(lane) : 0);
  });
}
void assemble_isspacep(Assembler& a) {
  a.refuse_if(a.has("const"));  // constants lie in global memory here
  a.instruction.option = a.has("shared") || a.has("shared::cta") ? 1 : 0;
  a.instruction.immediate = static_cast<std::int64_t>(window_of(a));
  a.operands({Type::pred, Type::b64});
  a.instruction.handler = &isspacep;
}

constexpr std::array table{
    OpcodeEntry{"mov", &assemble_mov},
    OpcodeEntry{"cvta", &assemble_cvta},
    OpcodeEntry{"isspacep", &assemble_isspacep},
};

}  // namespace

OpcodeTable move_opcodes() {
  return {table.data(), table.data() + table.size()};
}

}  // namespace sim
