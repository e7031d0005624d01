// SIM_TRACE=FILE: the requests of warps, one line of JSON per launch; README.md describes it.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "common/sim/machine/trace.h"
#include "common/sim/runtime/runtime.h"

namespace sim {
namespace {

[[noreturn]] void refuse(const char* variable, const std::string& why) {
  say(std::string(variable) + ": " + why);
  std::exit(2);
}

const char* wanted(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

/// Reads "3" or "0-7"; the range stays as it is if the variable is not set.
void read_range(const char* variable, TraceRange& range) {
  const char* text = wanted(variable);
  if (text == nullptr) return;
  const char* const end = text + std::strlen(text);
  auto [behind, error] = std::from_chars(text, end, range.first);
  range.last = range.first;
  if (error == std::errc() && behind != end && *behind == '-') {
    const auto last = std::from_chars(behind + 1, end, range.last);
    behind = last.ptr;
    error = last.ec;
  }
  if (error != std::errc() || behind != end || range.last < range.first)
    refuse(variable, "'" + std::string(text) + "' is not accepted; accepted: a number such as 3, or 0-7");
}

struct Traces {
  const char* file = wanted("SIM_TRACE");
  TraceChoice choice;
  TraceRange launches;
  std::uint64_t launched = 0;
  std::map<const Program*, std::unique_ptr<TracedProgram>> programs;

  Traces() {
    if (file == nullptr) return;
    TraceRange events{choice.most_events, choice.most_events};
    read_range("SIM_TRACE_BLOCKS", choice.blocks);
    read_range("SIM_TRACE_WARPS", choice.warps);
    read_range("SIM_TRACE_LAUNCHES", launches);
    read_range("SIM_TRACE_EVENTS", events);
    choice.most_events = events.last;
    write("w", "");
  }

  void write(const char* mode, const std::string& text) const {
    std::FILE* out = std::fopen(file, mode);
    const bool written = out != nullptr && std::fwrite(text.data(), 1, text.size(), out) == text.size();
    if (out == nullptr || std::fclose(out) != 0 || !written)
      refuse("SIM_TRACE", "cannot write " + std::string(file));
  }
};

Traces& traces() {
  static Traces& instance = *new Traces;  // NOLINT(cppcoreguidelines-owning-memory): see runtime()
  return instance;
}

}  // namespace

const Program& program_to_launch(const Program& program) {
  if (traces().file == nullptr) return program;
  std::unique_ptr<TracedProgram>& traced = traces().programs[&program];
  if (!traced) traced = std::make_unique<TracedProgram>(program);
  return *traced;
}

void begin_trace(Launch& launch) {
  if (traces().file != nullptr) Trace::attach(launch, traces().choice);
}

void record_trace(const Launch& done, const Fault* fault) {
  const Trace* trace = Trace::of(done);
  if (trace == nullptr || !traces().launches.holds(traces().launched++)) return;
  traces().write("a", trace->json(done, fault) + "\n");
}

void forget_traces() {
  if (traces().file == nullptr) return;
  traces().launched = 0;
  traces().write("w", "");
}

}  // namespace sim
