#pragma once

namespace sim {

/// Says so once, and returns cudaErrorNotSupported.
int say_unsimulated(const char* name);

}  // namespace sim
