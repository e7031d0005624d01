// A stream of each GPU that a problem lies on: what a launch is enqueued on, and what is waited for.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "common/kernel/cuda_check.h"

/// Where there is one GPU, as in all stages but one, its stream is all there is: it turns into one, and one into it.
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

/// Waits until everything on all streams is done. Throws CudaError. Where there are several GPUs, one that waits for another
/// may wait for ever: after most_seconds_together it says which ones are not done, and ends the program, because to free
/// anything would be to wait, too.
void synchronize(const Streams& streams);
