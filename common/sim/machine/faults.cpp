#include "common/sim/machine/faults.h"

#include <filesystem>
#include <sstream>

#include "common/sim/machine/block.h"
#include "common/sim/machine/lanes.h"

namespace sim {
namespace {

Dim3 thread_index(const Dim3& block, std::uint32_t thread) {
  return {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
}

/// Without "..", and below the current folder without the way to it.
std::string short_path(const std::string& written) {
  std::error_code error;
  // Each line of each recorded launch comes here, and most paths are short already.
  const bool is_normal = written.find("/.") == std::string::npos && written.find("//") == std::string::npos &&
                         written.rfind("./", 0) != 0;
  const std::string path = is_normal ? written : std::filesystem::path(written).lexically_normal().string();
  const std::string here = std::filesystem::current_path(error).string() + "/";
  return !error && path.rfind(here, 0) == 0 ? path.substr(here.size()) : path;
}

}  // namespace

std::string Program::describe_location(std::uint32_t location, const char* separator) const {
  std::string text;
  for (std::uint32_t index = location; index != 0; index = locations[index].called_from) {
    const auto file = files.find(locations[index].file);
    if (index != location) text += separator;
    text += file == files.end() ? "?" : short_path(file->second);
    text += ':' + std::to_string(locations[index].line);
  }
  return text;
}

std::string describe_point(const Dim3& point) {
  std::ostringstream text;
  text << '(' << point.x << ", " << point.y << ", " << point.z << ')';
  return text.str();
}

std::string describe_thread(const Block& block, std::uint32_t thread) {
  return "thread " + describe_point(thread_index(block.launch.configuration.block, thread));
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

namespace {

Fault make_fault(const Block& block, std::size_t pc, std::uint32_t thread, FaultKind kind,
                 const std::string& what) {
  const Program& program = block.launch.program;
  const std::string location = program.describe_location(program.location_of[pc]);
  std::string text = what + "\n    in " + program.demangled;
  if (!location.empty()) text += "\n    at " + location;
  text += "\n    by " + describe_thread(block, thread) + " of block " + describe_point(block.index);
  if (block.launch.order.has_several_devices())
    text += " on device " + std::to_string(block.launch.configuration.device);
  return {kind, text, location.empty() ? program.name + " instruction " + std::to_string(pc) : location};
}

bool is_said_at(const Block& block, std::size_t pc, FaultKind kind) {
  const Launch& launch = block.launch;
  const Check check = launch.configuration.check;
  return check == Check::stop || (check == Check::warn && !launch.warned.contains({kind, pc}));
}

}  // namespace

void fault_of_thread(const Block& block, std::size_t pc, std::uint32_t thread, FaultKind kind,
                     const std::string& what) {
  throw make_fault(block, pc, thread, kind, what);
}

void suspect_thread(const Block& block, std::size_t pc, std::uint32_t thread, FaultKind kind,
                    const std::string& what) {
  if (!is_said_at(block, pc, kind)) return;
  Launch& launch = block.launch;
  const auto suspicion = [&] {
    Fault fault = make_fault(block, pc, thread, kind, what);
    fault.is_suspicion = true;
    return fault;
  };
  if (launch.configuration.check == Check::stop) throw suspicion();
  launch.warned.insert({kind, pc});
  launch.warnings.push_back(suspicion());
}

void suspect(const Warp& warp, int lane, FaultKind kind, const std::string& what) {
  suspect_thread(warp.block, warp.pc, warp.first_thread + static_cast<std::uint32_t>(lane), kind, what);
}

bool is_said(const Warp& warp, FaultKind kind) {
  return is_said_at(warp.block, warp.pc, kind);
}

void fault(const Warp& warp, int lane, FaultKind kind, const std::string& what) {
  fault_of_thread(warp.block, warp.pc, warp.first_thread + static_cast<std::uint32_t>(lane), kind, what);
}

}  // namespace sim
