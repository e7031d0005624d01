// The GPU that everything runs on: device 0 of the CUDA runtime (choose with CUDA_VISIBLE_DEVICES).
#pragma once

#include <cstddef>
#include <string>

struct Device {
  std::string gpu;                 ///< "NVIDIA H200"
  std::string compute_capability;  ///< "9.0"
  int multiprocessors = 0;
  std::size_t l2_bytes = 0;
  std::size_t memory_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  ///< the most that a block may request
  std::string cuda_driver;                 ///< newest CUDA version that the driver supports, "13.0"
  std::string cuda_runtime;                ///< of the runtime library that is loaded, "13.0"
  bool simulated = false;                  ///< the CPU simulator: it counts, and never gives a time
};

/// Makes device 0 current and describes it. Throws NoDeviceError when there is none, the driver is too old
/// for the runtime, or the device is one that this executable was not compiled for.
Device open_device();

/// How many there are: 0 to count - 1.
int count_devices();

/// Bytes that can still be allocated.
std::size_t free_device_memory();
