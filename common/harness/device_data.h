// Inputs, checksums and verification of what lies in device memory: done by Thrust on the device, or on the
// host for small problems, where that is faster, and under the simulator, where the host is the device.
#pragma once

#include <cstdint>

#include "common/harness/input.h"
#include "common/harness/problem.h"
#include "common/harness/verify.h"

/// See fill_input; x is a device pointer.
void fill_device_input(InputKind kind, std::uint64_t seed, const Problem& problem, void* x);

/// See checksum; x is a device pointer.
std::uint64_t device_checksum(const Problem& problem, const void* x);

/// See compare_with_reference; x and y are device pointers.
Verdict compare_device_result(const Problem& problem, const void* x, const void* y,
                              double tolerance_factor = 1);
