// Inputs, checksums and verification of what lies in device memory: done by Thrust on the device, or on the
// host for small problems, where that is faster, and under the simulator, where the host is the device.
#pragma once

#include <cstdint>
#include <vector>

#include "common/harness/operation.h"

/// See Operation::fill.
void fill_device_inputs(const Problem& problem, InputKind kind, std::uint64_t seed,
                        const std::vector<void*>& inputs);

/// See checksum; `data` is a device pointer.
std::uint64_t device_checksum(const Tensor& tensor, const void* data);

/// See Operation::verify; joined to one verdict, that of the first output which is wrong.
Verdict verify_device_outputs(const Problem& problem, const Memory& memory, double tolerance_factor = 1);
