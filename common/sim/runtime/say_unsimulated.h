#pragma once

namespace sim {

/// Says once that the function of this name is not simulated. Returns cudaErrorNotSupported, which has the number of
/// the driver's CUDA_ERROR_NOT_SUPPORTED.
__attribute__((visibility("hidden"))) int say_unsimulated(const char* name);

}  // namespace sim
