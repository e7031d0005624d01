// Loads and stores.
#include <array>
#include <cstring>

#include "common/sim/machine/access.h"
#include "common/sim/machine/block.h"
#include "common/sim/machine/execute_async.h"
#include "common/sim/machine/map.h"
#include "common/sim/machine/type_dispatch.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

// Places of the operands: the values (one per element of a vector), then the address.

/// function.operator()<vector>() for as many values of one lane as there are: with a number that the compiler knows, it turns
/// loops over lanes that lie one after the other into vector instructions.
template <class Function>
void with_vector(std::size_t vector, Function function) {
  switch (vector) {
    case 1:
      return function.template operator()<1>();
    case 2:
      return function.template operator()<2>();
    case 4:
      return function.template operator()<4>();
    default:
      return function.template operator()<8>();
  }
}

/// Element: as in memory. Register: as wide as the register, of the element's signedness.
template <class Element, class Register>
[[gnu::flatten]] void load(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const std::size_t vector = instruction.vector;
  const HostAccess access =
      access_memory(warp, instruction, lanes, instruction.operands[vector], AccessKind::load);
  if (instruction.strong) warp.poll(instruction, vector, lanes);
  const auto read = [](const std::byte* from) {
    Element value;
    std::memcpy(&value, from, sizeof value);
    return static_cast<Register>(value);
  };
  if (access.contiguous) {
    with_vector(vector, [&]<std::size_t values>() {
      for (std::size_t i = 0; i < values; ++i) {
        auto* to = warp.lanes_of<Register>(instruction.operands[i]);
        const std::byte* from = access.host[0] + i * sizeof(Element);
        SIM_INDEPENDENT_LANES  // registers do not lie in the memory that kernels reach
            for (int lane = 0; lane < warp_size; ++lane) {
          to[lane] = read(from + static_cast<std::size_t>(lane) * values * sizeof(Element));
        }
      }
    });
    return;
  }
  for (std::size_t i = 0; i < vector; ++i) {
    auto* to = warp.lanes_of<Register>(instruction.operands[i]);
    for_each_lane(lanes, [&](int lane) {
      to[lane] = read(access.host[static_cast<std::size_t>(lane)] + i * sizeof(Element));
    });
  }
}

template <class Element, class Register>
void stored_value(const Warp& warp, const Instruction& instruction, int lane, std::byte* to) {
  for (std::size_t i = 0; i < instruction.vector; ++i) {
    const auto element = static_cast<Element>(warp.lanes_of<Register>(instruction.operands[i])[lane]);
    std::memcpy(to + i * sizeof element, &element, sizeof element);
  }
}

template <class Element, class Register>
[[gnu::flatten]] void store(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const std::size_t vector = instruction.vector;
  const HostAccess access = access_memory(warp, instruction, lanes, instruction.operands[vector],
                                          AccessKind::store, &stored_value<Element, Register>);
  const auto write = [](std::byte* to, Register value) {
    const auto element = static_cast<Element>(value);
    std::memcpy(to, &element, sizeof element);
  };
  if (access.contiguous) {
    with_vector(vector, [&]<std::size_t values>() {
      for (std::size_t i = 0; i < values; ++i) {
        const Register* from = warp.lanes_of<Register>(instruction.operands[i]);
        std::byte* to = access.host[0] + i * sizeof(Element);
        SIM_INDEPENDENT_LANES
        for (int lane = 0; lane < warp_size; ++lane) {
          write(to + static_cast<std::size_t>(lane) * values * sizeof(Element), from[lane]);
        }
      }
    });
    return;
  }
  for (std::size_t i = 0; i < vector; ++i) {
    const Register* from = warp.lanes_of<Register>(instruction.operands[i]);
    for_each_lane(lanes, [&](int lane) {
      write(access.host[static_cast<std::size_t>(lane)] + i * sizeof(Element), from[lane]);
    });
  }
}

/// A kernel's parameter at a known place: the same value for all lanes.
template <class T>
[[gnu::flatten]] void load_parameter(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const std::byte* parameter = warp.block.launch.configuration.parameters.data() + instruction.immediate;
  for (std::size_t i = 0; i < instruction.vector; ++i) {
    T value{};
    std::memcpy(&value, parameter + i * sizeof value, sizeof value);
    for_lanes(warp.lanes_of<T>(instruction.operands[i]), lanes, [value](int /*lane*/) { return value; });
  }
}

MemorySpace take_space(Assembler& a) {
  constexpr std::array spaces{MemorySpace::global,    MemorySpace::shared,    MemorySpace::shared,
                              MemorySpace::shared,    MemorySpace::local,     MemorySpace::parameter,
                              MemorySpace::parameter, MemorySpace::parameter, MemorySpace::constant};
  const auto space = a.take_one_of({"global", "shared", "shared::cta", "shared::cluster", "local", "param",
                                    "param::entry", "param::func", "const"});
  return space ? spaces.at(*space) : MemorySpace::generic;
}

/// Hints to the caches, which are not simulated. One of them is an operand, the last.
void take_cache_hints(Assembler& a) {
  a.refuse_if(a.operand_count() != (a.take("L2::cache_hint") ? 3 : 2));
  (void)a.take("nc");
  (void)a.take_one_of({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  (void)a.take_one_of(
      {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
  (void)a.take_one_of({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  (void)a.take_one_of({"L2::64B", "L2::128B", "L2::256B"});
}

void take_ordering(Assembler& a) {
  const auto ordering = a.take_one_of({"release", "acquire", "relaxed", "volatile", "mmio"});
  (void)a.take("weak");
  const bool is_volatile = ordering >= std::size_t{3};
  a.instruction.scope = a.take_scope(is_volatile ? Scope::system : Scope::device);
  a.instruction.strong = a.instruction.acquires = ordering.has_value();
  a.instruction.releases = ordering == std::size_t{0};
}

std::size_t take_vector(Assembler& a) {
  const auto vector = a.take_one_of({"v2", "v4", "v8"});
  return vector ? std::size_t{2} << *vector : 1;
}

/// The values of an access, and how they lie in memory.
void assemble_values(Assembler& a, const WrittenOperand& values, bool loads) {
  const std::size_t vector = take_vector(a);
  const Type type = a.take_type();
  a.refuse_if(type == Type::pred || (vector > 1) != (values.kind == WrittenOperand::Kind::vector));
  a.refuse_if(vector > 1 && values.elements.size() != vector);
  for (std::size_t i = 0; i < vector; ++i) {
    const WrittenOperand& value = vector == 1 ? values : values.elements[i];
    if (loads) {
      a.destination_at(i, value, type, false);
    } else {
      a.source_at(i, value, type, false);
    }
    a.refuse_if(a.instruction.operands.at(i).bytes != a.instruction.operands[0].bytes);
  }
  a.instruction.vector = static_cast<std::uint8_t>(vector);
  a.instruction.access_bytes = static_cast<std::uint8_t>(vector * size_of(type));
  const std::uint32_t register_bytes = a.instruction.operands[0].bytes;
  a.refuse_if(register_bytes < size_of(type));
  if (type == Type::b128) {
    a.refuse_if(vector > 1);
    a.instruction.handler = loads ? &load<Bits128, Bits128> : &store<Bits128, Bits128>;
    return;
  }
  const bool sign_extends = is_signed_integer(type);
  a.instruction.handler = with_bits(size_of(type), [&]<class Element>() {
    return with_bits(register_bytes, [&]<class Register>() -> Handler {
      if constexpr (sizeof(Register) >= sizeof(Element)) {
        if (!loads) return &store<Element, Register>;
        using Signed = std::make_signed_t<Element>;
        return sign_extends && sizeof(Register) > sizeof(Element) ? &load<Signed, Register>
                                                                  : &load<Element, Register>;
      }
      throw Unsupported();
    });
  });
}

void assemble_ld(Assembler& a) {
  take_ordering(a);
  a.instruction.space = take_space(a);
  take_cache_hints(a);
  const bool is_parameter = a.instruction.space == MemorySpace::parameter;
  assemble_values(a, a.written(0), true);
  a.address_at(a.instruction.vector, a.written(1));
  const Operand& base = a.instruction.operands.at(a.instruction.vector);
  const std::uint32_t element_bytes = a.instruction.access_bytes / a.instruction.vector;
  if (is_parameter && a.instruction.space == MemorySpace::parameter && base.base == Base::constants &&
      a.instruction.operands[0].bytes == element_bytes && element_bytes <= sizeof(std::uint64_t)) {
    a.instruction.handler = with_bits(element_bytes, []<class T>() -> Handler { return &load_parameter<T>; });
  }
}

void assemble_st(Assembler& a) {
  if (a.has("async")) return assemble_async_send(a);
  take_ordering(a);
  a.instruction.space = take_space(a);
  take_cache_hints(a);
  assemble_values(a, a.written(1), false);
  a.address_at(a.instruction.vector, a.written(0));
}

// ---- Order between threads

void do_nothing(Warp& /*warp*/, const Instruction& /*instruction*/, LaneMask /*lanes*/) {}

void fence(Warp& warp, const Instruction& instruction, LaneMask /*lanes*/) {
  warp.fence(instruction.scope);
}
/// From now on bulk copies see the barriers that the warp has initialised.
void show_copies(const Warp& warp) {
  std::erase_if(warp.block.unseen_by_copies, [&](const Block::Initialised& any) { return any.by == &warp; });
}
/// Between accesses by loads and stores and those by bulk copies.
void fence_proxy(Warp& warp, const Instruction& /*instruction*/, LaneMask /*lanes*/) {
  warp.proxy_fence_time = warp.block.launch.next_time();
  show_copies(warp);
}
/// Orders nothing but mbarrier.init.
void fence_of_init(Warp& warp, const Instruction& /*instruction*/, LaneMask /*lanes*/) {
  Block& block = warp.block;
  block.fenced.insert(block.fenced.end(), block.initialised.begin(), block.initialised.end());
  block.initialised.clear();
  show_copies(warp);
}

void assemble_fence(Assembler& a) {
  if (a.take("proxy")) {
    a.refuse_if(!a.take_one_of({"async", "async::generic"}));
    (void)a.take_one_of({"acquire", "release"});
    (void)a.take_one_of({"global", "shared::cta", "shared::cluster", "sync_restrict::shared::cta",
                         "sync_restrict::shared::cluster"});
    (void)a.take("cluster");
    a.instruction.handler = &fence_proxy;
    return;
  }
  const bool of_init_alone = a.take("mbarrier_init");
  (void)a.take_one_of({"sc", "acq_rel", "acquire", "release"});
  a.instruction.scope = a.take_scope(Scope::device);
  a.refuse_if(a.operand_count() != 0);
  a.instruction.handler = of_init_alone ? &fence_of_init : &fence;
}

void assemble_prefetch(Assembler& a) {
  (void)take_space(a);
  (void)a.take_one_of({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  a.instruction.handler = &do_nothing;
}
void assemble_applypriority(Assembler& a) {
  (void)take_space(a);
  a.refuse_if(!a.take("L2::evict_normal") || a.operand_count() != 2);
  a.instruction.handler = &do_nothing;
}

/// The contents of a piece of 128 bytes are lost, as if they had never been written.
void discard(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  for_each_lane(lanes, [&](int lane) {
    std::byte* data = nullptr;
    const Region region =
        locate(warp, instruction, bit(lane), instruction.operands[0], AccessKind::store, data);
    region.written->remove(static_cast<std::size_t>(data - region.data), instruction.access_bytes);
  });
}
void assemble_discard(Assembler& a) {
  (void)a.take("global");  // a generic address points there, too
  a.refuse_if(!a.take("L2") || a.operand_count() != 2 || a.written(1).text != "128");
  a.instruction.space = MemorySpace::global;
  a.instruction.access_bytes = 128;
  a.address(0);
  a.instruction.handler = &discard;
}

/// A policy is for the caches, and nothing that a program can look into.
void make_policy(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  for_lanes(warp.lanes_of<std::uint64_t>(instruction.operands[0]), lanes, [](int /*lane*/) { return 0; });
}
void assemble_createpolicy(Assembler& a) {
  const auto kind = a.take_one_of({"fractional", "range", "cvt"});
  a.refuse_if(!kind);
  (void)a.take_one_of({"global", "L2"});
  for (const char* word : {"L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"}) {
    (void)a.take(word);
  }
  a.refuse_if(a.take_type() != Type::b64);
  a.destination(0, Type::b64);
  a.instruction.handler = &make_policy;
}

void assemble_pmevent(Assembler& a) {
  (void)a.take("mask");
  a.instruction.handler = &do_nothing;
}

void nanosleep(Warp& warp, const Instruction& /*instruction*/, LaneMask /*lanes*/) {
  warp.poll();
}
void assemble_nanosleep(Assembler& a) {
  (void)a.take_type();
  a.instruction.handler = &nanosleep;
}

constexpr std::array table{
    OpcodeEntry{"ld", &assemble_ld},
    OpcodeEntry{"ldu", &assemble_ld},
    OpcodeEntry{"st", &assemble_st},
    OpcodeEntry{"membar", &assemble_fence},
    OpcodeEntry{"fence", &assemble_fence},
    OpcodeEntry{"prefetch", &assemble_prefetch},
    OpcodeEntry{"applypriority", &assemble_applypriority},
    OpcodeEntry{"discard", &assemble_discard},
    OpcodeEntry{"createpolicy", &assemble_createpolicy},
    OpcodeEntry{"pmevent", &assemble_pmevent},
    OpcodeEntry{"nanosleep", &assemble_nanosleep},
};

}  // namespace

OpcodeTable memory_opcodes() {
  return {table.data(), table.data() + table.size()};
}

}  // namespace sim
