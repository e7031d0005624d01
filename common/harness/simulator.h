// Running without a GPU: the same executable, started again with the simulator's CUDA runtime in place of
// NVIDIA's. See common/sim/README.md.
#pragma once

#include <functional>

#include "common/sim/counters.h"

/// The simulator's interface if this process runs under it, otherwise null.
const SimApi* simulator();

/// Runs `launch` and sums the counts of all its kernels. Only where simulator() is not null.
SimCounters count_launch(const std::function<void()>& launch);

/// False when there is no GPU, or no driver, that the CUDA runtime could use.
bool gpu_is_present();

/// Starts this program again, with the same arguments, under the simulator. Returns only where the simulator
/// was not built, or the program runs under it already. Throws NoDeviceError when the program was started
/// again and still does not run under it.
void restart_under_simulator(const char* const* argv);
