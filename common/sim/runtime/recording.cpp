// The counts that counters.h exposes, and the reports of SIM_REPORT=1 and SIM_REPORT=lines.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "common/sim/counter_sums.h"
#include "common/sim/counters.h"
#include "common/sim/machine/trace.h"
#include "common/sim/runtime/runtime.h"

namespace sim {
namespace {

struct RecordedLaunch {
  std::string kernel;
  SimLaunch summary{};
  std::map<std::string, SimCounters> by_place;
  std::vector<SimLine> lines;
};

struct Recording {
  bool on = false;
  std::vector<std::unique_ptr<RecordedLaunch>> launches;
  std::uint64_t faults = 0;
  std::string last_fault;
};

Recording& recording() {
  static Recording& instance = *new Recording;  // NOLINT(cppcoreguidelines-owning-memory): see runtime()
  return instance;
}

/// `place`: "" or at which line.
void print_accesses(const char* what, const SimAccesses& accesses, bool shared, const std::string& place) {
  if (accesses.requests == 0) return;
  if (shared) {
    std::fprintf(stderr, "    shared %-6s %10llu requests %10llu wavefronts %10llu bank conflicts%s\n", what,
                 static_cast<unsigned long long>(accesses.requests),
                 static_cast<unsigned long long>(accesses.wavefronts),
                 static_cast<unsigned long long>(accesses.bank_conflicts), place.c_str());
  } else {
    std::fprintf(stderr, "    global %-6s %10llu requests %10llu sectors    %10llu bytes%s\n", what,
                 static_cast<unsigned long long>(accesses.requests),
                 static_cast<unsigned long long>(accesses.sectors),
                 static_cast<unsigned long long>(accesses.bytes), place.c_str());
  }
}

void print_accesses(const SimCounters& c, const std::string& place) {
  print_accesses("loads", c.global_loads, false, place);
  print_accesses("stores", c.global_stores, false, place);
  print_accesses("loads", c.shared_loads, true, place);
  print_accesses("stores", c.shared_stores, true, place);
}

struct NamedCount {
  std::string name;
  unsigned long long count;
};
/// The counters, without those of accesses, that are not 0.
std::vector<NamedCount> counts_of(const SimCounters& counters) {
  std::vector<NamedCount> counts;
  const auto put = [&counts](std::string name, std::uint64_t count) {
    std::replace(name.begin(), name.end(), '_', ' ');
    if (count > 0) counts.push_back({std::move(name), count});
  };
#define PUT(counter, what) put(#counter, counters.counter);
  SIM_COUNTERS(PUT)
#undef PUT
  return counts;
}

/// Prints the requests of one source line to the memory system and to other lanes; nothing for a line that
/// only computes.
void print(const SimLine& line) {
  const std::string place = std::string("  at ") + (*line.place == '\0' ? "an unknown line" : line.place);
  print_accesses(line.counters, place);
  for (const NamedCount& counter : counts_of(line.counters)) {
    if (counter.name == "warp instructions" || counter.name == "exp2 lanes") continue;
    std::fprintf(stderr, "    %-22s %10llu%s\n", counter.name.c_str(), counter.count, place.c_str());
  }
}

const char* wanted_report() {
  static const char* const wanted = std::getenv("SIM_REPORT");
  return wanted;
}
bool prints_report() {
  return wanted_report() != nullptr;
}
bool prints_lines() {
  return prints_report() && std::strcmp(wanted_report(), "lines") == 0;
}

void print(const RecordedLaunch& launch) {
  const SimCounters& c = launch.summary.counters;
  std::fflush(stdout);
  std::fprintf(stderr, "counted: %s <<<(%u, %u, %u), (%u, %u, %u), %llu bytes shared>>>\n",
               launch.kernel.c_str(), launch.summary.grid[0], launch.summary.grid[1], launch.summary.grid[2],
               launch.summary.block[0], launch.summary.block[1], launch.summary.block[2],
               static_cast<unsigned long long>(launch.summary.shared_bytes));
  print_accesses(c, "");
  const char* before = "    ";
  for (const NamedCount& counter : counts_of(c)) {
    std::fprintf(stderr, "%s%llu %s", before, counter.count, counter.name.c_str());
    before = ", ";
  }
  std::fputs("\n", stderr);
  if (!prints_lines()) return;
  std::fprintf(stderr, "  by source line:\n");
  for (const SimLine& line : launch.lines) print(line);
}

void begin() {
  const std::lock_guard lock(runtime().mutex);
  recording().launches.clear();
  recording().on = true;
  forget_traces();
}
void end() {
  const std::lock_guard lock(runtime().mutex);
  recording().on = false;
}
std::size_t launches() {
  return recording().launches.size();
}
const SimLaunch* launch_at(std::size_t index) {
  return index < launches() ? &recording().launches[index]->summary : nullptr;
}
const SimLine* line_at(std::size_t launch, std::size_t index) {
  if (launch >= launches() || index >= recording().launches[launch]->lines.size()) return nullptr;
  return &recording().launches[launch]->lines[index];
}
void forget(void* pointer, std::size_t bytes) {
  const std::lock_guard lock(runtime().mutex);
  runtime().memory.forget(reinterpret_cast<std::uint64_t>(pointer), bytes);
}
std::uint64_t faults() {
  return recording().faults;
}
const char* last_fault() {
  return recording().last_fault.c_str();
}

}  // namespace

void record_launch(const Launch& done) {
  if (!recording().on && !prints_report()) return;
  auto launch = std::make_unique<RecordedLaunch>();
  const Program& program = done.program;
  const LaunchConfiguration& configuration = done.configuration;
  launch->kernel = program.demangled;
  launch->summary.kernel = launch->kernel.c_str();
  const auto put = [](std::uint32_t* to, const Dim3& size) {
    to[0] = size.x;
    to[1] = size.y;
    to[2] = size.z;
  };
  put(launch->summary.grid, configuration.grid);
  put(launch->summary.block, configuration.block);
  launch->summary.shared_bytes = done.shared_bytes();
  launch->by_place = counters_by_place(done);
  for (const auto& [place, counters] : launch->by_place) launch->summary.counters += counters;
  for (const auto& [place, counters] : launch->by_place) launch->lines.push_back({place.c_str(), counters});
  launch->summary.lines = launch->lines.size();
  if (prints_report()) print(*launch);
  if (recording().on) recording().launches.push_back(std::move(launch));
}

void record_fault(const Fault& fault) {
  ++recording().faults;
  recording().last_fault = fault.text;
}

}  // namespace sim

extern "C" const SimApi* simulator_api() {
  static constexpr SimApi api{SIM_API_VERSION, sim::device::name, &sim::begin,   &sim::end,
                              &sim::launches,  &sim::launch_at,   &sim::line_at, &sim::forget,
                              &sim::faults,    &sim::last_fault};
  return &api;
}
