// SIM_TRACE: the requests of each warp of a launch, one instruction after the other, for people to look at.
//
// It costs nothing in a launch that is not traced. Accesses are seen by an observer that takes the place of
// the one that counts them. Shuffles, votes, barriers and copies that no observer sees are instructions of a
// copy of the kernel, whose handlers inform the trace and then run the original's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/sim/counters.h"
#include "common/sim/machine/launch.h"
#include "common/sim/ptx/program.h"

namespace sim {

/// Which are traced, by number: from `first` to `last`.
struct TraceRange {
  std::uint64_t first = 0;
  std::uint64_t last = ~std::uint64_t{0};
  [[nodiscard]] bool holds(std::uint64_t number) const { return number >= first && number <= last; }
};

struct TraceChoice {
  TraceRange blocks{0, 1};
  TraceRange warps;
  std::uint64_t most_events = 4000;  ///< of a launch
};

/// A kernel as it is traced. Its blocks run in order, on one thread.
struct TracedProgram : Program {
  explicit TracedProgram(const Program& of);
  std::vector<Handler> handlers;  ///< the original's
};

/// The trace of a launch of a TracedProgram.
class Trace : public AccessObserver {
 public:
  /// Takes the place of the observer that counts, the last one of the launch.
  static void attach(Launch& launch, const TraceChoice& choice);
  /// That of a launch; null where it is not traced.
  static const Trace* of(const Launch& launch);

  void see(const Access& access) override;
  /// An instruction of which no observer hears: calls the handler of the original, too.
  void execute(Warp& warp, const Instruction& instruction, LaneMask lanes);
  /// One object of JSON, without a line break: see common/sim/README.md.
  [[nodiscard]] std::string json(const Launch& launch, const Fault* fault) const;

 private:
  Trace(std::unique_ptr<AccessObserver> counting, const TraceChoice& choice)
      : counting_(std::move(counting)), choice_(choice) {}

  /// `text`: the description of one event, as members of an object. `rose`: the counters, as members of an object.
  void add(const Warp& warp, const std::string& text, const std::string& rose);
  [[nodiscard]] bool is_chosen(const Warp& warp) const;
  std::size_t place_of(const Program& program, std::uint32_t pc);
  /// The allocation that holds the address, by its number in the trace; -1: none.
  int allocation_at(const Warp& warp, std::uint64_t address, std::uint64_t& begin);
  std::string describe_bulk_copy(const Warp& warp, const Instruction& instruction, LaneMask lanes,
                                 bool stores);

  struct Event {
    std::string text;
    std::string rose;
    std::uint64_t times = 1;  ///< one after the other, by a warp that polls
    std::uint32_t pc = 0;
  };
  struct Named {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
    std::string what;
  };
  struct Passed {
    Stamp when = 0;
    std::uint64_t barriers = 0;
  };

  std::unique_ptr<AccessObserver> counting_;
  const TraceChoice choice_;
  std::vector<Event> events_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> latest_;  ///< of each warp
  std::map<std::uint64_t, Passed> passed_;                                 ///< barriers, by block
  std::map<std::string, std::size_t> places_;
  std::vector<Named> allocations_;
  std::uint64_t left_out_ = 0;    ///< events, when there were most_events
  std::uint64_t not_chosen_ = 0;  ///< of other blocks and warps
};

/// The counters of a launch by source line: "file:line", and for each call that was inlined " from file:line".
std::map<std::string, SimCounters> counters_by_place(const Launch& launch);

}  // namespace sim
