// Timing: CUDA events around a graph of launches, each on a buffer set of its own, with a cold L2; the median
// of samples counts. Samples of the variant alternate with samples of the copy ceiling, so that both see the
// same machine. This code knows neither the contents of the buffers nor whether the result is right.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/harness/cuda_handles.h"
#include "common/harness/device.h"
#include "common/harness/json.h"
#include "common/harness/streams.h"

enum class L2 { cold, warm };
inline const char* name(L2 l2) {
  return l2 == L2::cold ? "cold" : "warm";
}

struct Timing {
  double median_us = 0;       ///< of one launch
  double spread_percent = 0;  ///< (third quartile - first quartile) / median
};

/// The clock of the multiprocessors; 0 if it is unknown.
struct SmClock {
  double mhz = 0;
  double highest_mhz = 0;
};

struct TimedVariant {
  Timing variant;
  Timing copy;
  SmClock clock{};  ///< right after the last sample
};

/// Reasons to distrust the numbers, in words: "throttled: SM clock 1200 of 1980 MHz" if the clock was far
/// below the highest, whatever the reason (heat, power, a lock); "did not settle: spread 12 %" if the samples
/// disagree too much for the median to be good to about one percent; both, or "".
std::string doubts(const TimedVariant& timed);

/// Times, clock and the text of doubts() as members of a JSON object.
JsonMembers json_members(const TimedVariant& timed);

/// How long to measure.
struct Sampling {
  int repeats = 25;  ///< samples, of which the median is taken
  /// Time for which copies run before the first sample. After gigabytes were freed, copies ran 12 % slow for
  /// more than 32 launches (seen on an H200).
  std::chrono::milliseconds warm_up{40};
  /// No sample begins after this time, once there are least_samples: kernels far slower than the copy need
  /// it.
  std::chrono::milliseconds limit = std::chrono::hours(1);
  static constexpr int least_samples = 5;
};

/// Whether to take another sample, after `taken` samples, the first of which began `elapsed` ago.
bool wants_another_sample(const Sampling& sampling, int taken, std::chrono::nanoseconds elapsed);

/// Median and quartile spread of the samples, which must not be empty.
Timing summarize(std::vector<double> microseconds);

/// The timed work: the same launch on each of `sets` sets of buffers, and the copy of the same number of
/// bytes to compare it with.
struct TimedWork {
  std::size_t sets = 1;
  std::size_t bytes_per_set = 0;  ///< bytes that a launch, and a copy, read and write on a device
  std::function<void(std::size_t set, const Streams&)> launch;  ///< enqueues one launch on set i
  std::function<void(std::size_t set, const Streams&)> copy;    ///< the ceiling on set i
  bool capturable = true;                                       ///< launch can go into a graph
};

/// Cold: one set per launch of a sample, so that the L2 holds none of its inputs and has to write most of its outputs back to DRAM.
/// With reads hinted to be evicted first (evict_first) on an H200, the losses of 200 MB stayed in the L2: ncu saw no byte written
/// to DRAM, instead of 0.2 MB and more. Two alternating sets took 3 % less time, one set per launch 1 %, and 64 sets hardly any.
std::size_t buffer_sets_for(std::size_t bytes_per_set, L2 l2);

/// The device, or the devices, as the timing sees them: a test replaces it by one whose times are known.
class TimedDevice {
 public:
  using Run = std::function<void()>;  ///< enqueues everything that one sample times

  TimedDevice() = default;
  TimedDevice(const TimedDevice&) = delete;
  TimedDevice& operator=(const TimedDevice&) = delete;
  virtual ~TimedDevice() = default;

  /// Turns the work that `enqueue` enqueues into one Run: a graph launch if it is `capturable`.
  virtual Run prepare(const std::function<void(const Streams&)>& enqueue, bool capturable) = 0;
  /// Device time of one run; on several devices, the time of the slowest.
  virtual double microseconds(const Run& run) = 0;
  virtual void flush_l2() = 0;
  /// Ends all preferences in the L2: no earlier access keeps its lines longer than others, and no lines are
  /// set aside.
  virtual void forget_persisting_l2() = 0;
  virtual SmClock clock_during(const Run& run) = 0;
  virtual std::chrono::nanoseconds now() = 0;
};

/// Times the work and the copy alternately. Cold: a sample launches once on each set, after a flush. Warm:
/// several times on the only set.
TimedVariant time_in_turn(TimedDevice& device, const TimedWork& work, const Sampling& sampling, L2 l2);

class Timer : private TimedDevice {
 public:
  /// Bytes of device memory that a Timer takes for itself when shapes are small.
  static std::size_t flush_bytes(const Device& device);

  /// Times on `devices` devices like this one.
  Timer(const Device& device, L2 l2, int devices = 1);

  /// The streams that everything is timed on, one on each device.
  [[nodiscard]] const Streams& stream() const { return streams_; }

  virtual TimedVariant time(const TimedWork& work, const Sampling& sampling);

 private:
  Run prepare(const std::function<void(const Streams&)>& enqueue, bool capturable) override;
  double microseconds(const Run& run) override;
  void begin_together();
  void flush_l2() override;
  void forget_persisting_l2() override;
  SmClock clock_during(const Run& run) override;
  std::chrono::nanoseconds now() override;

  std::size_t cold_bytes_;
  int multiprocessors_;
  L2 l2_;
  struct OfDevice {
    Stream stream;
    Event start;
    Event stop;
    DeviceMemory flush_buffer{};
  };
  std::vector<OfDevice> of_devices_;
  Streams streams_;
  DeviceMemory readings_;  ///< of the first device's clock
};
