#include "common/sim/faults.h"

#include <filesystem>
#include <sstream>

#include "common/sim/execution.h"
#include "common/sim/lanes.h"

namespace sim {
namespace {

Dim3 thread_index(const Dim3& block, std::uint32_t thread) {
  return {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
}

/// Below the current folder without the way to it.
std::string short_path(const std::string& path) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string() + "/";
  return !error && path.rfind(here, 0) == 0 ? path.substr(here.size()) : path;
}

}  // namespace

std::string Program::describe_location(std::size_t pc) const {
  if (pc >= locations.size() || locations[pc].line == 0) return "";
  std::ostringstream text;
  const auto append = [&](const SourceLocation& location) {
    const auto file = files.find(location.file);
    text << (file == files.end() ? "?" : short_path(file->second)) << ':' << location.line;
  };
  SourceLocation location = locations[pc];
  append(location);
  for (int depth = 0; depth < 64; ++depth) {
    const auto outer = inlined_at.find(location);
    if (outer == inlined_at.end() || outer->second == location) break;
    location = outer->second;
    text << "\n    called from ";
    append(location);
  }
  return text.str();
}

std::string describe_point(const Dim3& point) {
  std::ostringstream text;
  text << '(' << point.x << ", " << point.y << ", " << point.z << ')';
  return text.str();
}

std::string describe_thread(const Execution& execution, std::uint32_t thread) {
  return "thread " + describe_point(thread_index(execution.configuration.block, thread));
}

std::string describe_lanes(LaneMask lanes) {
  std::ostringstream text;
  text << (std::popcount(lanes) == 1 ? "lane" : "lanes");
  const char* separator = " ";
  for (int first = 0; first < warp_size; ++first) {
    if (!contains(lanes, first)) continue;
    int last = first;
    while (last + 1 < warp_size && contains(lanes, last + 1)) ++last;
    text << separator << first;
    if (last > first) text << '-' << last;
    separator = ", ";
    first = last;
  }
  return text.str();
}

void fault_of_thread(const Execution& execution, std::size_t pc, std::uint32_t thread, FaultKind kind,
                     const std::string& what) {
  const Program& program = execution.program;
  const std::string location = program.describe_location(pc);
  std::string text = what + "\n    in " + program.demangled;
  if (!location.empty()) text += "\n    at " + location;
  text +=
      "\n    by " + describe_thread(execution, thread) + " of block " + describe_point(execution.block_index);
  throw Fault{kind, text};
}

void fault(const Execution& execution, int lane, FaultKind kind, const std::string& what) {
  fault_of_thread(execution, execution.pc, execution.warp->first_thread + static_cast<std::uint32_t>(lane),
                  kind, what);
}

}  // namespace sim
