// Functions of the device's runtime library that kernels call: printf and assert.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include "common/sim/machine/block.h"
#include "common/sim/machine/faults.h"
#include "common/sim/machine/map.h"
#include "common/sim/machine/memory.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

/// A value that the caller put at a parameter's place.
template <class T>
T parameter(Warp& warp, const Instruction& instruction, std::size_t index, int lane) {
  const auto offset = *warp.lanes_of<std::uint64_t>(instruction.operands.at(index));
  T value{};
  std::memcpy(&value, warp.local_of(lane) + offset, sizeof value);
  return value;
}

/// Host memory at a generic address; null if there are not `bytes` bytes.
const std::byte* at_generic(Warp& warp, std::uint64_t address, std::size_t bytes, int lane) {
  if (address - local_window < window_bytes) {
    const std::uint64_t offset = address - local_window;
    return offset + bytes <= warp.program.local_bytes ? warp.local_of(lane) + offset : nullptr;
  }
  if (address - shared_window < window_bytes) {
    const std::uint64_t offset = address - shared_window;
    return offset + bytes <= warp.block.shared.size() ? warp.block.shared.data() + offset : nullptr;
  }
  Allocation* allocation = warp.block.launch.memory.find(address);
  return allocation != nullptr && allocation->holds(address, bytes) ? allocation->at(address) : nullptr;
}

std::string string_at(Warp& warp, std::uint64_t address, int lane) {
  std::string text;
  for (;; ++address) {
    const std::byte* byte = at_generic(warp, address, 1, lane);
    if (byte == nullptr || *byte == std::byte{0}) return text;
    text += static_cast<char>(*byte);
  }
}

/// The arguments of a printf, which lie one after the other, each aligned to its size.
class Arguments {
 public:
  Arguments(Warp& warp, std::uint64_t address, int lane) : warp_(warp), address_(address), lane_(lane) {}

  template <class T>
  T take() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    const std::byte* from = at_generic(warp_, address_ + at_, sizeof(T), lane_);
    at_ += sizeof(T);
    T value{};
    if (from != nullptr) std::memcpy(&value, from, sizeof value);
    return value;
  }

 private:
  Warp& warp_;
  std::uint64_t address_;
  int lane_;
  std::uint64_t at_ = 0;
};

template <class T>
std::string formatted(const std::string& specification, T value) {
  std::array<char, 512> text{};
  // NOLINTNEXTLINE: the format is the kernel's, checked to be one conversion for this type
  std::snprintf(text.data(), text.size(), specification.c_str(), value);
  return text.data();
}

/// One conversion, "%-8.3f": takes its arguments.
std::string convert(Warp& warp, std::string specification, Arguments& arguments, int lane) {
  for (std::size_t star = specification.find('*'); star != std::string::npos;
       star = specification.find('*')) {
    specification.replace(star, 1, std::to_string(arguments.take<int>()));
  }
  const char conversion = specification.back();
  const bool is_long = specification.find_first_of("ljzt") != std::string::npos;
  if (conversion == 's') {
    return formatted(specification, string_at(warp, arguments.take<std::uint64_t>(), lane).c_str());
  }
  if (conversion == 'p') return formatted("0x%" PRIx64, arguments.take<std::uint64_t>());
  if (std::strchr("aAeEfFgG", conversion) != nullptr)
    return formatted(specification, arguments.take<double>());
  if (std::strchr("diouxXc", conversion) == nullptr) return specification;
  if (!is_long) return formatted(specification, arguments.take<int>());
  specification.erase(specification.find_first_of("ljzt"));  // all of these have 64 bits
  return formatted(specification + "ll" + conversion, arguments.take<long long>());
}

/// `taken`: how many arguments the format has taken.
std::string print(Warp& warp, const std::string& format, Arguments arguments, int lane, int& taken) {
  std::string text;
  for (std::size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      text += format[at++];
      continue;
    }
    const std::size_t end = format.find_first_of("diouxXcsaAeEfFgGpn%", at + 1);
    if (end == std::string::npos) return text + format.substr(at);
    if (format[end] == '%') {
      text += '%';
    } else {
      const std::string specification = format.substr(at, end - at + 1);
      taken += 1 + static_cast<int>(std::count(specification.begin(), specification.end(), '*'));
      text += convert(warp, specification, arguments, lane);
    }
    at = end + 1;
  }
  return text;
}

// Operands: format, arguments, result.
void call_vprintf(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  for_each_lane(lanes, [&](int lane) {
    const std::string format = string_at(warp, parameter<std::uint64_t>(warp, instruction, 0, lane), lane);
    const Arguments arguments(warp, parameter<std::uint64_t>(warp, instruction, 1, lane), lane);
    int result = 0;  // the number of arguments, as on a GPU, and not of characters
    const std::string text = print(warp, format, arguments, lane, result);
    std::fputs(text.c_str(), stdout);
    const auto offset = *warp.lanes_of<std::uint64_t>(instruction.operands[2]);
    std::memcpy(warp.local_of(lane) + offset, &result, sizeof result);
  });
  std::fflush(stdout);
}

// Operands: message, file, line, function, size of a character.
void call_assertfail(Warp& warp, const Instruction& instruction, LaneMask lanes) {
  const int lane = first_lane(lanes);
  const auto text = [&](std::size_t index) {
    return string_at(warp, parameter<std::uint64_t>(warp, instruction, index, lane), lane);
  };
  const auto line = parameter<std::uint32_t>(warp, instruction, 2, lane);
  fault(
      warp, lane, FaultKind::assertion,
      "assertion failed: " + text(0) + "\n    at " + text(1) + ":" + std::to_string(line) + " in " + text(3));
}

struct Builtin {
  std::string_view name;
  Handler handler;
};
constexpr std::array builtins{Builtin{"vprintf", &call_vprintf}, Builtin{"__assertfail", &call_assertfail}};

}  // namespace

Handler find_builtin(std::string_view name) {
  for (const Builtin& builtin : builtins) {
    if (builtin.name == name) return builtin.handler;
  }
  return nullptr;
}

}  // namespace sim
