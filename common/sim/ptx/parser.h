// From the PTX of one kernel to a Program.
#pragma once

#include <string>

#include "common/sim/ptx/program.h"

namespace sim {

class GlobalMemory;
class Module;

/// Functions that the kernel calls are put in its place of the call. Throws PtxError.
Program parse_kernel(Module& module, const std::string& name, GlobalMemory& memory);

}  // namespace sim
