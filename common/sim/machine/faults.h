// The mistakes of kernels, and their messages.
#pragma once

#include <cstdint>
#include <string>

#include "common/sim/ptx/program.h"

namespace sim {

class Block;
class Warp;

/// Each is returned to the program as the CUDA error that a device would return; see runtime_errors.cpp.
enum class FaultKind : std::uint8_t {
  illegal_address,
  misaligned_address,
  not_written,  ///< read of bytes that were never written
  race,
  shuffle,
  barrier,
  assertion,
  trap,
  endless,  ///< a loop or a wait that nothing can end
  unknown_instruction,
};

/// Ends a launch. Thrown by the handlers, caught where the launch began.
struct Fault {
  FaultKind kind = FaultKind::trap;
  std::string text;    ///< several lines, as printed
  std::string line{};  ///< where, with the calls that were inlined; the instruction where no line is known
  bool is_suspicion = false;  ///< need not be a mistake; see Check
};

/// The reaction to reports that are not always mistakes (SIM_CHECK): reads of unwritten bytes, races, and
/// masks of shuffles and barriers, for which the rules are stricter than the hardware.
enum class Check : std::uint8_t { stop, warn, off };

/// Throws the fault of a lane of the warp that is being executed, at its current instruction.
[[noreturn]] void fault(const Warp& warp, int lane, FaultKind kind, const std::string& what);
/// The same for an instruction and a thread of the block, which is not that of the current warp.
[[noreturn]] void fault_of_thread(const Block& block, std::size_t pc, std::uint32_t thread, FaultKind kind,
                                  const std::string& what);

/// For reports that are not always mistakes: throws, or adds a warning to the launch, or does nothing; see Check.
void suspect(const Warp& warp, int lane, FaultKind kind, const std::string& what);
void suspect_thread(const Block& block, std::size_t pc, std::uint32_t thread, FaultKind kind,
                    const std::string& what);
/// False where suspect() would do nothing: a report is worth composing only where it is said.
bool is_said(const Warp& warp, FaultKind kind);

struct Dim3;
/// "(3, 0, 0)"
std::string describe_point(const Dim3& point);
/// "thread (3, 0, 0)"
std::string describe_thread(const Block& block, std::uint32_t thread);
/// "lanes 0-15, 20"
std::string describe_lanes(LaneMask lanes);

}  // namespace sim
