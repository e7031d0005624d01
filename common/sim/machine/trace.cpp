#include "common/sim/machine/trace.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "common/sim/counter_sums.h"
#include "common/sim/machine/access.h"
#include "common/sim/machine/block.h"
#include "common/sim/machine/cluster.h"
#include "common/sim/machine/lanes.h"

namespace sim {
namespace {

// ---- JSON

std::string quoted(const std::string& text) {
  std::string result(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= ' ') {
      result += c;
    } else {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      result += code.data();
    }
  }
  result += '"';
  return result;
}

std::string object(const std::string& members) {
  std::string text(1, '{');
  text += members;
  text += '}';
  return text;
}

/// Appends `name: value`.
void put(std::string& members, const std::string& name, const std::string& value) {
  if (!members.empty()) members += ',';
  members += quoted(name);
  members += ':';
  members += value;
}
void put(std::string& members, const std::string& name, std::uint64_t value) {
  put(members, name, std::to_string(value));
}

/// [function(0), function(1), ...]; null where it gives "".
template <class Function>
std::string list(std::size_t count, Function function) {
  std::string text(1, '[');
  for (std::size_t i = 0; i < count; ++i) {
    const std::string one = function(i);
    if (i > 0) text += ',';
    text += one.empty() ? "null" : one;
  }
  text += ']';
  return text;
}
/// A list of the values of the participating lanes.
template <class Function>
std::string lane_list(LaneMask lanes, Function function) {
  return list(warp_size, [&](std::size_t lane) {
    return contains(lanes, static_cast<int>(lane)) ? function(lane) : std::string();
  });
}

std::string three(const Dim3& size) {
  const std::array sizes{size.x, size.y, size.z};
  return list(sizes.size(), [&](std::size_t i) { return std::to_string(sizes.at(i)); });
}

// ---- Counters

// For unsigned numbers, so that only counters that rose are written.
#define PUT_IF_ANY(counter, what) \
  if (counters.counter != 0) put(members, #counter, counters.counter);
#define PUT_ACCESSES_IF_ANY(kind)                              \
  if (counters.kind.requests != 0 || counters.kind.bytes != 0) \
    put(members, #kind, object(members_of(counters.kind)));

std::string members_of(const SimAccesses& counters) {
  std::string members;
  SIM_ACCESS_COUNTERS(PUT_IF_ANY)
  return members;
}
std::string members_of(const SimCounters& counters) {
  std::string members;
  SIM_ACCESS_KINDS(PUT_ACCESSES_IF_ANY)
  SIM_COUNTERS(PUT_IF_ANY)
  return members;
}

#define SUBTRACT(counter, what) difference.counter = after.counter - before.counter;
SimAccesses minus(const SimAccesses& after, const SimAccesses& before) {
  SimAccesses difference{};
  SIM_ACCESS_COUNTERS(SUBTRACT)
  return difference;
}

#undef PUT_IF_ANY
#undef PUT_ACCESSES_IF_ANY
#undef SUBTRACT

/// The numbers that an access added to the counters of its instruction, as they will be in the launch's
/// counters.
SimCounters rise(const Instruction& instruction, const InstructionCounters& before,
                 const InstructionCounters& after) {
  InstructionCounters rose{};
  // A cp.async loads before its first store has marked it as one.
  const bool copies = instruction.counted_as == InstructionClass::async_copy;
  rose.stores = after.stores || copies;
  rose.shared = after.shared || copies;
  rose.accesses = minus(after.accesses, before.accesses);
  rose.copied = minus(after.copied, before.copied);
  return counters_of(instruction, 0, rose);
}

// ---- Instructions of which no observer hears

const char* vote_name(std::uint8_t option) {
  constexpr std::array names{"all", "any", "uni", "ballot", "match any", "match all", "redux", "elect"};
  return option < names.size() ? names.at(option) : "vote";
}

bool tells_the_trace(const Instruction& instruction) {
  switch (instruction.counted_as) {
    case InstructionClass::shuffle:
    case InstructionClass::vote:
    case InstructionClass::barrier:
    case InstructionClass::warp_barrier:
    case InstructionClass::bulk_copy:
    case InstructionClass::async_store:
    case InstructionClass::cluster_barrier:
      return true;
    default:
      return false;
  }
}

void tell_the_trace(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  static_cast<Trace&>(*warp.block.launch.observers.back()).execute(warp, instruction, lanes);
}

std::string word_of(const Warp& warp, const Operand& operand, std::size_t lane) {
  return std::to_string(warp.lanes_of<std::uint32_t>(operand)[lane]);
}

/// The source of each lane's read; common/sim/machine/execute_warp.cpp executes it.
std::string sources_of_shuffle(const Warp& warp, const Instruction& instruction, LaneMask lanes) {
  return lane_list(lanes, [&](std::size_t l) {
    const int lane = static_cast<int>(l);
    const int distance = warp.lanes_of<std::int32_t>(instruction.operands[3])[l] & 31;
    const int control = warp.lanes_of<std::int32_t>(instruction.operands[4])[l];
    const int segment = control >> 8 & 31;
    const int limit = (lane & segment) | (control & 31 & ~segment);
    const std::array from{lane - distance, lane + distance, lane ^ distance,
                          (lane & segment) | (distance & ~segment)};
    const int source = from.at(instruction.option);
    const bool inside = instruction.option == 0 ? source >= limit : source <= limit;
    return std::to_string(inside ? source : lane);
  });
}

/// The result of a vote: a predicate, or 32 bits.
std::string result_of_vote(const Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const Operand& result = instruction.operands[0];
  const bool is_predicate = instruction.option < 3;
  return lane_list(lanes, [&](std::size_t lane) {
    if (!is_predicate) return word_of(warp, result, lane);
    return std::string(contains(warp.mask_of(result), static_cast<int>(lane)) ? "1" : "0");
  });
}

std::string values_of_vote(const Warp& warp, const Instruction& instruction, LaneMask lanes) {
  constexpr std::uint8_t match_any = 4;
  constexpr std::uint8_t redux = 6;
  if (instruction.option < match_any) {
    const LaneMask yes = warp.mask_of(instruction.operands[1]) ^ static_cast<LaneMask>(instruction.immediate);
    return lane_list(lanes, [&](std::size_t lane) {
      return std::string(contains(yes, static_cast<int>(lane)) ? "1" : "0");
    });
  }
  const std::size_t place = instruction.option == redux ? 1 : 2;
  if (instruction.option > redux || instruction.operands.at(place).bytes != sizeof(std::uint32_t)) return "";
  return lane_list(lanes,
                   [&](std::size_t lane) { return word_of(warp, instruction.operands.at(place), lane); });
}

/// The values that the lanes load or store, only in shared memory and of one or two words, because these may
/// be the numbers of a reduction.
void put_values(std::string& text, const Access& access) {
  constexpr std::size_t word = sizeof(std::uint32_t);
  const bool stores = access.kind == AccessKind::store;
  if (!access.is_shared() || access.instruction.strong || access.kind == AccessKind::atomic ||
      (access.bytes != word && access.bytes != 2 * word) || (stores && access.value_of == nullptr)) {
    return;
  }
  std::array<std::array<std::byte, 2 * word>, warp_size> values{};
  for_each_lane(access.lanes, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    if (stores) {
      access.value_of(access.warp, access.instruction, lane, values.at(l).data());
    } else {
      std::memcpy(values.at(l).data(), access.contiguous ? access.host[0] + l * access.bytes : access.host[l],
                  access.bytes);
    }
  });
  put(text, "words", list(access.bytes / word, [&](std::size_t which) {
        return lane_list(access.lanes, [&](std::size_t lane) {
          std::uint32_t bits = 0;
          std::memcpy(&bits, values.at(lane).data() + which * word, word);
          return std::to_string(bits);
        });
      }));
}

}  // namespace

TracedProgram::TracedProgram(const Program& of) : Program(of) {
  blocks_meet = true;
  for (Instruction& instruction : code) {
    handlers.push_back(instruction.handler);
    if (tells_the_trace(instruction) && instruction.control != Control::cluster_wait)
      instruction.handler = &tell_the_trace;
  }
}

void Trace::attach(Launch& launch, const TraceChoice& choice) {
  std::unique_ptr<AccessObserver>& counting = launch.observers.back();
  counting = std::unique_ptr<AccessObserver>(new Trace(std::move(counting), choice));
}

const Trace* Trace::of(const Launch& launch) {
  return dynamic_cast<const Trace*>(launch.observers.back().get());
}

bool Trace::is_chosen(const Warp& warp) const {
  return choice_.blocks.holds(warp.block.number) && choice_.warps.holds(warp.first_thread / warp_size);
}

std::size_t Trace::place_of(const Program& program, std::uint32_t pc) {
  return places_.try_emplace(program.describe_location(program.location_of[pc], " from "), places_.size())
      .first->second;
}

int Trace::allocation_at(const Warp& warp, std::uint64_t address, std::uint64_t& begin) {
  GlobalMemory& memory = warp.block.launch.memory;
  const Allocation* found = memory.find(memory.without_alias(address));
  if (found == nullptr) return -1;
  begin = found->begin;
  const auto known = std::find_if(allocations_.begin(), allocations_.end(),
                                  [&](const Named& any) { return any.begin == found->begin; });
  if (known == allocations_.end()) {
    allocations_.push_back({found->begin, found->bytes, found->what});
    return static_cast<int>(allocations_.size()) - 1;
  }
  return static_cast<int>(known - allocations_.begin());
}

void Trace::add(const Warp& warp, const std::string& text, const std::string& rose) {
  const std::uint32_t number = warp.first_thread / warp_size;
  const auto [latest, is_first] = latest_.try_emplace({warp.block.number, number}, 0);
  std::string whole;
  put(whole, "block", warp.block.number);
  put(whole, "warp", number);
  put(whole, "at", place_of(warp.program, warp.pc));
  whole += ',';
  whole += text;
  if (!is_first) {
    Event& before = events_[latest->second];
    if (before.pc == warp.pc && before.text == whole && before.rose == rose) {
      ++before.times;
      return;
    }
  }
  if (events_.size() >= choice_.most_events) {
    if (is_first) latest_.erase(latest);
    ++left_out_;
    return;
  }
  latest->second = events_.size();
  events_.push_back({std::move(whole), rose, 1, warp.pc});
}

void Trace::see(const Access& access) {
  const Warp& warp = access.warp;
  if (!is_chosen(warp) || access.instruction.space == MemorySpace::constant) {
    not_chosen_ += is_chosen(warp) ? 0 : 1;
    return counting_->see(access);
  }
  const InstructionCounters before = access.warp.counters();
  counting_->see(access);
  SimCounters rose = rise(access.instruction, before, access.warp.counters());
  const bool copies = access.instruction.counted_as == InstructionClass::async_copy;
  std::string text;
  put(text, "what",
      quoted(copies                             ? "async copy"
             : access.kind == AccessKind::load  ? "load"
             : access.kind == AccessKind::store ? "store"
                                                : "atomic"));
  put(text, "space", quoted(access.is_shared() ? "shared" : "global"));
  put(text, "bytes", std::uint64_t{access.bytes});
  // For each lane: its place in its allocation, or in the shared memory of a block of the cluster.
  std::array<int, warp_size> region{};
  const std::string offsets = lane_list(access.lanes, [&](std::size_t l) {
    const std::uint64_t address = access.addresses[l];
    if (access.is_shared()) {
      const std::uint64_t rank = address >> cluster_rank_shift;
      region.at(l) = static_cast<int>(rank == 0 ? warp.block.rank : rank - 1);
      return std::to_string(address & ((1U << cluster_rank_shift) - 1));
    }
    std::uint64_t begin = 0;
    region.at(l) = allocation_at(warp, address, begin);
    return std::to_string(address - begin);
  });
  const int first = region.at(static_cast<std::size_t>(first_lane(access.lanes)));
  bool one = true;
  for_each_lane(access.lanes,
                [&](int lane) { one = one && region.at(static_cast<std::size_t>(lane)) == first; });
  if (!access.is_shared() || !one || static_cast<std::uint32_t>(first) != warp.block.rank) {
    put(text, "of", one ? std::to_string(first) : lane_list(access.lanes, [&](std::size_t lane) {
          return std::to_string(region.at(lane));
        }));
  }
  put(text, "lanes", offsets);
  put_values(text, access);
  // A cp.async that reads in several pieces is one request: that of the first.
  if (copies && !access.is_shared() && before.copied.requests != 0) {
    const auto latest = latest_.find({warp.block.number, warp.first_thread / warp_size});
    if (latest != latest_.end() && events_[latest->second].pc == warp.pc &&
        events_[latest->second].text.find("\"space\":\"global\"") != std::string::npos)
      rose.global_loads.requests = 0;
  }
  add(warp, text, members_of(rose));
}

std::string Trace::describe_bulk_copy(const Warp& warp, const Instruction& instruction, LaneMask lanes,
                                      bool stores) {
  const Operand& operand = instruction.operands.at(stores ? 0 : 1);
  const auto displacement =
      static_cast<std::uint64_t>(stores ? instruction.immediate : instruction.more_immediates[0]);
  int allocation = -1;
  std::string text;
  put(text, "space", quoted(instruction.option != 0 ? "shared" : "global"));
  put(text, "bytes", word_of(warp, instruction.operands[2], static_cast<std::size_t>(first_lane(lanes))));
  const std::string offsets = lane_list(lanes, [&](std::size_t lane) {
    const std::uint64_t address =
        (operand.bytes == sizeof(std::uint64_t) ? warp.lanes_of<std::uint64_t>(operand)[lane]
                                                : warp.lanes_of<std::uint32_t>(operand)[lane]) +
        displacement;
    std::uint64_t begin = 0;
    if (instruction.option == 0) allocation = allocation_at(warp, address, begin);
    return std::to_string(address - begin);
  });
  if (allocation >= 0) put(text, "of", static_cast<std::uint64_t>(allocation));
  put(text, "lanes", offsets);
  return text;
}

void Trace::execute(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const Handler handler = static_cast<const TracedProgram&>(warp.program).handlers[warp.pc];
  if (!is_chosen(warp)) {
    ++not_chosen_;
    if (handler != nullptr) handler(warp, instruction, lanes);
    return;
  }
  const auto finish = [&](const std::string& event, const char* counter) {
    std::string rose;
    if (counter != nullptr) put(rose, counter, 1);
    add(warp, event, rose);
  };
  std::string text;
  switch (instruction.counted_as) {
    case InstructionClass::shuffle: {
      constexpr std::array names{"up", "down", "xor", "idx"};
      put(text, "what", quoted("shuffle"));
      put(text, "how", quoted(names.at(instruction.option)));
      put(text, "by", word_of(warp, instruction.operands[3], static_cast<std::size_t>(first_lane(lanes))));
      put(text, "from", sources_of_shuffle(warp, instruction, lanes));
      const auto values = [&](std::size_t place) {
        return lane_list(
            lanes, [&](std::size_t lane) { return word_of(warp, instruction.operands.at(place), lane); });
      };
      put(text, "had", values(2));
      handler(warp, instruction, lanes);
      put(text, "got", values(0));
      return finish(text, "shuffles");
    }
    case InstructionClass::vote: {
      put(text, "what", quoted("vote"));
      put(text, "how", quoted(vote_name(instruction.option)));
      const std::string values = values_of_vote(warp, instruction, lanes);
      if (!values.empty()) put(text, "had", values);
      handler(warp, instruction, lanes);
      put(text, "got", result_of_vote(warp, instruction, lanes));
      return finish(text, "votes");
    }
    case InstructionClass::barrier: {
      if (instruction.control != Control::barrier) {  // bar.arrive, which does not wait
        put(text, "what", quoted("barrier arrival"));
        handler(warp, instruction, lanes);
        return finish(text, nullptr);
      }
      // A warp passes it when its block does; the block counts once.
      Passed& passed = passed_[warp.block.number];
      const bool is_first = passed.when != warp.block.last_barrier;
      if (is_first) passed = {warp.block.last_barrier, passed.barriers + 1};
      put(text, "what", quoted("barrier"));
      put(text, "number", passed.barriers);
      put(text, "mask", std::uint64_t{lanes});
      if (handler != nullptr) handler(warp, instruction, lanes);
      return finish(text, is_first ? "block_barriers" : nullptr);
    }
    case InstructionClass::warp_barrier:
      put(text, "what", quoted("warp barrier"));
      put(text, "mask", std::uint64_t{lanes});
      handler(warp, instruction, lanes);
      return finish(text, "warp_barriers");
    case InstructionClass::cluster_barrier:
      put(text, "what", quoted("cluster barrier"));
      put(text, "mask", std::uint64_t{lanes});
      handler(warp, instruction, lanes);
      return finish(text, nullptr);
    case InstructionClass::async_store:
      put(text, "what", quoted("async store"));
      put(text, "space", quoted("shared"));
      put(text, "bytes", std::uint64_t{instruction.access_bytes});
      put(text, "of", lane_list(lanes, [&](std::size_t lane) {
            const std::uint64_t address = warp.lanes_of<std::uint32_t>(instruction.operands[0])[lane];
            const std::uint64_t rank = address >> cluster_rank_shift;
            return std::to_string(rank == 0 ? warp.block.rank : rank - 1);
          }));
      put(text, "lanes", lane_list(lanes, [&](std::size_t lane) {
            const std::uint64_t address = warp.lanes_of<std::uint32_t>(instruction.operands[0])[lane] +
                                          static_cast<std::uint64_t>(instruction.immediate);
            return std::to_string(address & ((1U << cluster_rank_shift) - 1));
          }));
      handler(warp, instruction, lanes);
      return finish(text, nullptr);
    default: {  // a bulk copy
      const InstructionCounters before = warp.counters();
      handler(warp, instruction, lanes);
      put(text, "what", quoted("bulk copy"));
      const bool stores = warp.counters().stores;
      text += ',';
      text += describe_bulk_copy(warp, instruction, lanes, stores);
      add(warp, text, members_of(rise(instruction, before, warp.counters())));
    }
  }
}

std::string Trace::json(const Launch& launch, const Fault* fault) const {
  const LaunchConfiguration& configuration = launch.configuration;
  std::string members;
  put(members, "kernel", quoted(launch.program.demangled));
  put(members, "grid", three(configuration.grid));
  put(members, "block", three(configuration.block));
  put(members, "cluster", three(configuration.cluster));
  put(members, "shared_bytes", launch.shared_bytes());
  // Which argument of the kernel points into an allocation, and where.
  put(members, "allocations", list(allocations_.size(), [&](std::size_t i) {
        const Named& of = allocations_[i];
        std::string text;
        put(text, "what", quoted(of.what));
        put(text, "bytes", of.bytes);
        for (std::size_t argument = 0; argument < launch.program.parameters.size(); ++argument) {
          const Parameter& parameter = launch.program.parameters[argument];
          for (std::size_t at = 0; at + sizeof(std::uint64_t) <= parameter.bytes;
               at += sizeof(std::uint64_t)) {
            std::uint64_t pointer = 0;
            std::memcpy(&pointer, configuration.parameters.data() + parameter.offset + at, sizeof pointer);
            if (pointer < of.begin || pointer - of.begin >= of.bytes ||
                text.find("argument") != std::string::npos)
              continue;
            put(text, "argument", argument);
            put(text, "begin", pointer - of.begin);
          }
        }
        return object(text);
      }));
  std::vector<std::string> places(places_.size());
  for (const auto& [place, number] : places_) places[number] = quoted(place);
  put(members, "places", list(places.size(), [&](std::size_t i) { return places[i]; }));
  put(members, "events", list(events_.size(), [&](std::size_t i) {
        const Event& event = events_[i];
        std::string text = event.text;
        if (event.times > 1) put(text, "times", event.times);
        put(text, "rose", object(event.rose));
        return object(text);
      }));
  std::string left_out;
  put(left_out, "of_other_blocks_and_warps", not_chosen_);
  put(left_out, "beyond_the_limit", left_out_);
  put(members, "left_out", object(left_out));
  SimCounters total{};
  std::string lines;
  for (const auto& [place, counters] : counters_by_place(launch)) {
    total += counters;
    put(lines, place, object(members_of(counters)));
  }
  put(members, "counters", object(members_of(total)));
  put(members, "lines", object(lines));
  if (fault != nullptr) put(members, "fault", quoted(fault->text));
  return object(members);
}

std::map<std::string, SimCounters> counters_by_place(const Launch& launch) {
  const Program& program = launch.program;
  std::map<std::uint32_t, SimCounters> by_location;
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    if (launch.executed[pc] == 0) continue;
    by_location[program.location_of[pc]] +=
        counters_of(program.code[pc], launch.executed[pc], launch.counters[pc]);
  }
  std::map<std::string, SimCounters> by_place;
  for (const auto& [location, counters] : by_location) {
    by_place[program.describe_location(location, " from ")] += counters;
  }
  return by_place;
}

}  // namespace sim
