// The operations of a warp's lanes, or a block's warps, together: shuffles, votes, barriers.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "common/sim/machine/block.h"
#include "common/sim/machine/cluster.h"
#include "common/sim/machine/faults.h"
#include "common/sim/machine/least_most.h"
#include "common/sim/machine/map.h"
#include "common/sim/machine/type_dispatch.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

/// The operand with the mask of the participating lanes, for the scheduler; see Warp::complete_lanes.
constexpr std::size_t mask_place = max_operands - 1;

void take_part_together(Assembler& a, const WrittenOperand& mask, InstructionClass counted_as) {
  a.source_at(mask_place, mask, Type::b32);
  a.instruction.control = Control::warp_sync;
  a.instruction.counted_as = counted_as;
}

// ---- Shuffles

constexpr std::uint32_t undefined_value = 0xffffffff;

/// Kept in Instruction::option, so that a trace finds it.
enum Direction : std::uint8_t { up, down, butterfly, index };

/// A mask must name the lanes that take part: those, all of them, and no others.
void check_shuffle_masks(const Warp& warp, const std::uint32_t* masks, LaneMask lanes) {
  LaneMask different = 0;
  for (std::size_t lane = 0; lane < warp_size; ++lane) different |= masks[lane] ^ lanes;
  if (different == 0) return;
  for_each_lane(lanes, [&](int lane) {
    const LaneMask absent = masks[lane] & ~lanes;
    if (absent == 0 && contains(masks[lane], lane)) return;
    const LaneMask missing = absent & ~warp.existing;
    std::string why = describe_lanes(absent) + ", which do not take part";
    if (absent == 0) why = "other lanes, but not the one that calls it";
    if (absent != 0 && (absent & warp.alive) == 0) {
      why =
          describe_lanes(absent) + (absent == missing ? ", which the block does not have"
                                                      : ", which have ended the kernel without coming here");
    }
    suspect(warp, lane, FaultKind::shuffle, "the mask of a shuffle names " + why);
  });
}

// Places of the operands: 0 result, 1 predicate, 2 value, 3 lane or distance, 4 clamp and segment mask.
template <Direction direction>
[[gnu::flatten]] void shfl(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const auto& operands = instruction.operands;
  const auto* masks = warp.lanes_of<std::uint32_t>(operands[mask_place]);
  if (lanes != all_lanes || operands[mask_place].base != Base::constants || masks[0] != all_lanes) {
    check_shuffle_masks(warp, masks, lanes);
  }
  std::array<std::uint32_t, warp_size>
      values;  // NOLINT: filled in the next line; the result may be the same register
  std::copy_n(warp.lanes_of<std::uint32_t>(operands[2]), warp_size, values.begin());
  const auto* by = warp.lanes_of<std::int32_t>(operands[3]);
  const auto* control = warp.lanes_of<std::int32_t>(operands[4]);
  auto* to = warp.lanes_of<std::uint32_t>(operands[0]);
  // The source lanes are computed by vector instructions, and so apart from the reads.
  std::array<std::uint32_t, warp_size> sources;       // NOLINT: filled in the next loop
  std::array<std::uint32_t, warp_size> inside_lanes;  // NOLINT
  std::array<std::uint32_t, warp_size> undefined;     // NOLINT
  for (int lane = 0; lane < warp_size; ++lane) {
    const int distance = by[lane] & 31;
    const int clamp = control[lane] & 31;
    const int segment = (control[lane] >> 8) & 31;
    const int limit = (lane & segment) | (clamp & ~segment);
    int from = lane;
    switch (direction) {
      case up:
        from = lane - distance;
        break;
      case down:
        from = lane + distance;
        break;
      case butterfly:
        from = lane ^ distance;
        break;
      case index:
        from = (lane & segment) | (distance & ~segment);
        break;
    }
    const bool inside = direction == up ? from >= limit : from <= limit;
    from = (inside ? from : lane) & 31;
    const auto l = static_cast<std::size_t>(lane);
    sources[l] = static_cast<std::uint32_t>(from);
    inside_lanes[l] = (inside ? 1U : 0U) << static_cast<unsigned>(lane);
    // The value of a lane that takes no part is undefined. Code may read it and not use it: here it is NaN.
    const bool takes_part = (lanes >> static_cast<unsigned>(from) & 1U) != 0;
    undefined[l] = takes_part ? 0 : undefined_value;
  }
  std::array<std::uint32_t, warp_size> shuffled;  // NOLINT
  for (std::size_t lane = 0; lane < warp_size; ++lane) {
    shuffled[lane] = values[sources[lane]] | undefined[lane];
  }
  for_lanes(to, lanes, [&](int lane) { return shuffled[static_cast<std::size_t>(lane)]; });
  if (lanes != all_lanes || !warp.knows_all()) {
    const LaneMask unknown_before = warp.unknown_lanes_of(operands[2]);
    LaneMask unknown = 0;
    for_each_lane(lanes, [&](int lane) {
      const auto l = static_cast<std::size_t>(lane);
      if (undefined[l] != 0 || contains(unknown_before, static_cast<int>(sources[l]))) unknown |= bit(lane);
    });
    warp.shuffled(instruction, lanes, unknown);
  }
  if (operands[1].bytes == 0) return;
  LaneMask inside = 0;
  for (const std::uint32_t one : inside_lanes) inside |= one;
  warp.set_mask(operands[1], lanes, inside);
}

void assemble_shfl(Assembler& a) {
  a.refuse_if(!a.take("sync"));
  constexpr std::array handlers{&shfl<up>, &shfl<down>, &shfl<butterfly>, &shfl<index>};
  const auto direction = a.take_one_of({"up", "down", "bfly", "idx"});
  a.refuse_if(!direction || a.take_type() != Type::b32);
  a.instruction.handler = handlers.at(*direction);
  a.instruction.option = static_cast<std::uint8_t>(*direction);
  const std::size_t results = a.operand_count() - 4;
  a.refuse_if(results < 1 || results > 2);
  a.destination_at(0, a.written(0), Type::b32);
  if (results == 2) a.destination_at(1, a.written(1), Type::pred);
  for (std::size_t i = 0; i < 3; ++i) a.source_at(2 + i, a.written(results + i), Type::b32);
  take_part_together(a, a.written(results + 3), InstructionClass::shuffle);
}

// ---- Votes

/// Kept in Instruction::option, so that a trace finds it.
enum Vote : std::uint8_t { all, any, uniform, ballot, match_any, match_all, reduction, election };

/// Calls function(mask, lanes that have it) for each mask among the lanes.
template <class Function>
void for_each_mask(const Warp& warp, const Instruction& instruction, LaneMask lanes, Function function) {
  const auto* masks = warp.lanes_of<std::uint32_t>(instruction.operands[mask_place]);
  while (lanes != 0) {
    const LaneMask mask = masks[first_lane(lanes)];
    LaneMask together = 0;
    for_each_lane(lanes, [&](int lane) {
      if (masks[lane] == mask) together |= bit(lane);
    });
    function(mask, together);
    lanes &= ~together;
  }
}

// Places of the operands: 0 result, 1 predicate; its sign in `immediate`.
template <Vote vote>
void take_vote(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const LaneMask predicate =
      warp.mask_of(instruction.operands[1]) ^ static_cast<LaneMask>(instruction.immediate);
  for_each_mask(warp, instruction, lanes, [&](LaneMask /*mask*/, LaneMask together) {
    const LaneMask yes = predicate & together;
    if constexpr (vote == ballot) {
      auto* to = warp.lanes_of<std::uint32_t>(instruction.operands[0]);
      for_each_lane(together, [&](int lane) { to[lane] = yes; });
    } else {
      const bool result = vote == all   ? yes == together
                          : vote == any ? yes != 0
                                        : yes == 0 || yes == together;
      warp.set_mask(instruction.operands[0], together, result ? all_lanes : 0);
    }
  });
}

void source_predicate(Assembler& a, std::size_t place, WrittenOperand written) {
  a.instruction.immediate = written.negated ? all_lanes : 0;
  written.negated = false;
  a.source_at(place, written, Type::pred);
}

void assemble_vote(Assembler& a) {
  a.refuse_if(!a.take("sync"));
  constexpr std::array handlers{&take_vote<all>, &take_vote<any>, &take_vote<uniform>, &take_vote<ballot>};
  const auto vote = a.take_one_of({"all", "any", "uni", "ballot"});
  a.refuse_if(!vote || a.operand_count() != 3);
  const Type type = a.take_type();
  a.refuse_if((type == Type::b32) != (*vote == ballot));
  a.instruction.handler = handlers.at(*vote);
  a.instruction.option = static_cast<std::uint8_t>(*vote);
  a.destination(0, type);
  source_predicate(a, 1, a.written(1));
  take_part_together(a, a.written(2), InstructionClass::vote);
}

/// Which of the lanes have the same value.
template <class T, bool all_of_them>
void match(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const T* values = warp.lanes_of<T>(instruction.operands[2]);
  auto* to = warp.lanes_of<std::uint32_t>(instruction.operands[0]);
  for_each_mask(warp, instruction, lanes, [&](LaneMask mask, LaneMask together) {
    LaneMask agreed = 0;
    for_each_lane(together, [&](int lane) {
      LaneMask same = 0;
      for_each_lane(together, [&](int other) {
        if (values[other] == values[lane]) same |= bit(other);
      });
      to[lane] = !all_of_them || same == together ? same : 0;
      if (same == together) agreed = mask;
    });
    if (!all_of_them || instruction.operands[1].bytes == 0) return;
    warp.set_mask(instruction.operands[1], together, agreed != 0 ? all_lanes : 0);
  });
}
void assemble_match(Assembler& a) {
  a.refuse_if(!a.take("sync"));
  const auto which = a.take_one_of({"any", "all"});
  const Type type = a.take_type();
  const std::size_t results = a.operand_count() - 2;
  a.refuse_if(!which || results < 1 || results > 2);
  a.destination_at(0, a.written(0), Type::b32);
  if (results == 2) a.destination_at(1, a.written(1), Type::pred);
  a.source_at(2, a.written(results), type);
  constexpr std::array handlers{&match<std::uint32_t, false>, &match<std::uint32_t, true>,
                                &match<std::uint64_t, false>, &match<std::uint64_t, true>};
  a.instruction.handler = handlers.at(*which + (size_of(type) == 8 ? 2 : 0));
  a.instruction.option = static_cast<std::uint8_t>(match_any + *which);
  take_part_together(a, a.written(results + 1), InstructionClass::vote);
}

// ---- redux: one value for all of the lanes

using Sum = decltype([]<class T>(T a, T b) {
  return static_cast<T>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
});

template <class Function, class T>
[[gnu::flatten]] void redux(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const T* values = warp.lanes_of<T>(instruction.operands[1]);
  T* to = warp.lanes_of<T>(instruction.operands[0]);
  for_each_mask(warp, instruction, lanes, [&](LaneMask /*mask*/, LaneMask together) {
    T result = values[first_lane(together)];
    for_each_lane(together & (together - 1), [&](int lane) { result = Function{}(result, values[lane]); });
    for_each_lane(together, [&](int lane) { to[lane] = result; });
  });
}

void assemble_redux(Assembler& a) {
  a.refuse_if(!a.take("sync") || a.operand_count() != 3);
  const auto operation = a.take_one_of({"add", "min", "max", "and", "or", "xor"});
  const Type type = a.take_type();
  a.refuse_if(!operation || size_of(type) != 4 || is_floating_point(type));
  constexpr std::array unsigned_handlers{
      &redux<Sum, std::uint32_t>,           &redux<Least, std::uint32_t>,
      &redux<Most, std::uint32_t>,          &redux<std::bit_and<>, std::uint32_t>,
      &redux<std::bit_or<>, std::uint32_t>, &redux<std::bit_xor<>, std::uint32_t>};
  a.instruction.handler = unsigned_handlers.at(*operation);
  if (type == Type::s32 && *operation == 1) a.instruction.handler = &redux<Least, std::int32_t>;
  if (type == Type::s32 && *operation == 2) a.instruction.handler = &redux<Most, std::int32_t>;
  a.instruction.option = reduction;
  a.destination(0, type);
  a.source(1, type);
  take_part_together(a, a.written(2), InstructionClass::vote);
}

void activemask(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  for_lanes(warp.lanes_of<std::uint32_t>(instruction.operands[0]), lanes,
            [lanes](int /*lane*/) { return lanes; });
}
void assemble_activemask(Assembler& a) {
  a.refuse_if(a.take_type() != Type::b32 || a.operand_count() != 1);
  a.destination(0, Type::b32);
  a.instruction.handler = &activemask;
}

/// One of the lanes is chosen: the first.
void elect(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  for_each_mask(warp, instruction, lanes, [&](LaneMask /*mask*/, LaneMask together) {
    const int leader = first_lane(together);
    auto* to = warp.lanes_of<std::uint32_t>(instruction.operands[0]);
    for_each_lane(together, [&](int lane) { to[lane] = static_cast<std::uint32_t>(leader); });
    warp.set_mask(instruction.operands[1], together, bit(leader));
  });
}
void assemble_elect(Assembler& a) {
  a.refuse_if(!a.take("sync") || a.operand_count() != 3);
  a.destination_at(0, a.written(0), Type::b32);
  a.destination_at(1, a.written(1), Type::pred);
  a.instruction.handler = &elect;
  a.instruction.option = election;
  take_part_together(a, a.written(2), InstructionClass::vote);
}

// ---- Barriers. Places of the operands: 0 which, 1 how many threads (0: all), 2 predicate, 3 result.

void sync_warp(Warp& warp, const Instruction& /*instruction*/, LaneMask /*lanes*/) {
  warp.order();
}

void barrier_or(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  warp.set_mask(instruction.operands[3], lanes, warp.block.reduced_true_threads != 0 ? all_lanes : 0);
}
void barrier_and(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const bool all_true = warp.block.reduced_true_threads == warp.block.reduced_threads;
  warp.set_mask(instruction.operands[3], lanes, all_true ? all_lanes : 0);
}
void barrier_count(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const std::uint32_t count = warp.block.reduced_true_threads;
  for_lanes(warp.lanes_of<std::uint32_t>(instruction.operands[3]), lanes,
            [count](int /*lane*/) { return count; });
}

/// Arrives without waiting.
void arrive(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const std::uint32_t barrier = warp.lanes_of<std::uint32_t>(instruction.operands[0])[first_lane(lanes)];
  if (barrier >= block_barriers) {
    fault(warp, first_lane(lanes), FaultKind::barrier, "there is no barrier " + std::to_string(barrier));
  }
  warp.block.arrived.at(barrier) += static_cast<std::uint32_t>(std::popcount(lanes));
  ++warp.block.launch.progress;
}

void arrive_at_cluster(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  warp.block.cluster->arrive(warp, lanes, instruction.releases);
}
void assemble_cluster_barrier(Assembler& a) {
  const auto what = a.take_one_of({"arrive", "wait"});
  a.refuse_if(!what || a.operand_count() != 0);
  (void)a.take("aligned");
  const bool relaxed = a.take("relaxed");
  (void)a.take_one_of({"release", "acquire"});
  a.instruction.releases = !relaxed;
  if (*what == 0) {
    a.instruction.handler = &arrive_at_cluster;
    a.instruction.counted_as = InstructionClass::cluster_barrier;
  } else {
    a.instruction.control = Control::cluster_wait;
  }
}

void assemble_barrier(Assembler& a) {
  if (a.take("warp")) {
    a.refuse_if(!a.take("sync") || a.operand_count() != 1);
    a.instruction.handler = &sync_warp;
    take_part_together(a, a.written(0), InstructionClass::warp_barrier);
    return;
  }
  if (a.take("cluster")) return assemble_cluster_barrier(a);
  (void)a.take("cta");
  (void)a.take("aligned");
  a.instruction.control = Control::barrier;
  a.instruction.counted_as = InstructionClass::barrier;
  WrittenOperand all_threads;
  all_threads.kind = WrittenOperand::Kind::number;
  all_threads.text = "0";
  if (a.take("sync")) {
    a.refuse_if(a.operand_count() < 1 || a.operand_count() > 2);
    a.source_at(0, a.written(0), Type::b32);
    a.source_at(1, a.operand_count() == 2 ? a.written(1) : all_threads, Type::b32);
    return;
  }
  if (a.take("arrive")) {
    a.refuse_if(a.operand_count() != 2);
    a.source_at(0, a.written(0), Type::b32);
    a.source_at(1, a.written(1), Type::b32);
    a.instruction.control = Control::none;
    a.instruction.handler = &arrive;
    return;
  }
  a.refuse_if(!a.take("red"));
  const auto operation = a.take_one_of({"or", "and", "popc"});
  const Type type = a.take_type();
  constexpr std::array<Handler, 3> handlers{&barrier_or, &barrier_and, &barrier_count};
  a.refuse_if(!operation || a.operand_count() < 3 || a.operand_count() > 4);
  a.refuse_if((type == Type::pred) != (*operation < 2));
  a.instruction.handler = handlers.at(*operation);
  a.destination_at(3, a.written(0), type);
  a.source_at(0, a.written(1), Type::b32);
  a.source_at(1, a.operand_count() == 4 ? a.written(2) : all_threads, Type::b32);
  source_predicate(a, 2, a.written(a.operand_count() - 1));
}

// ---- The end

void trap(Warp& warp, const Instruction& /*instruction*/, LaneMask lanes) {
  fault(warp, first_lane(lanes), FaultKind::trap, "trap instruction");
}
void assemble_trap(Assembler& a) {
  a.refuse_if(a.operand_count() != 0);
  a.instruction.handler = &trap;
}

constexpr std::array table{
    OpcodeEntry{"shfl", &assemble_shfl},
    OpcodeEntry{"vote", &assemble_vote},
    OpcodeEntry{"match", &assemble_match},
    OpcodeEntry{"redux", &assemble_redux},
    OpcodeEntry{"activemask", &assemble_activemask},
    OpcodeEntry{"elect", &assemble_elect},
    OpcodeEntry{"bar", &assemble_barrier},
    OpcodeEntry{"barrier", &assemble_barrier},
    OpcodeEntry{"trap", &assemble_trap},
};

}  // namespace

OpcodeTable warp_opcodes() {
  return {table.data(), table.data() + table.size()};
}

}  // namespace sim
