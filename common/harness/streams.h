// One stream per GPU of a problem: a launch is enqueued on them, and the harness waits for them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "common/kernel/cuda_check.h"

/// With one GPU, as in all stages except one, this is just its stream, and converts to and from it.
class Streams {
 public:
  Streams(cudaStream_t only) : all_{only} {}  // NOLINT(google-explicit-constructor)
  explicit Streams(std::vector<cudaStream_t> of_devices) : all_(std::move(of_devices)) {}
  operator cudaStream_t() const { return all_.front(); }  // NOLINT(google-explicit-constructor)

  [[nodiscard]] int devices() const { return static_cast<int>(all_.size()); }
  [[nodiscard]] cudaStream_t operator[](int device) const { return all_[static_cast<std::size_t>(device)]; }

 private:
  std::vector<cudaStream_t> all_;
};

/// Makes a device current, and at the end of the scope the one that was.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    CUDA_CHECK(cudaGetDevice(&before_));
    if (device != before_) CUDA_CHECK(cudaSetDevice(device));
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() { (void)cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

/// Seconds after which GPUs that work together count as stuck: the longest timed sample takes a few of them.
inline constexpr int most_seconds_together = 60;

/// Waits until everything on all streams is done. Throws CudaError. With several GPUs, a GPU that waits for
/// another may wait for ever: after most_seconds_together the function reports which GPUs are not done, and
/// ends the program, because freeing anything would wait as well.
void synchronize(const Streams& streams);
