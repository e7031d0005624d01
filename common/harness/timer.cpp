#include "common/harness/timer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "common/harness/ceiling.h"

namespace {

constexpr std::size_t sink_bytes = 256;  // see launch_read

/// So many that a sample is long against the event's resolution, but no more where it moves a lot anyway.
std::size_t launches_per_sample(std::size_t bytes_per_launch) {
  constexpr std::size_t bytes_per_sample = std::size_t{1} << 30U;
  return std::clamp(bytes_per_sample / std::max<std::size_t>(bytes_per_launch, 1), std::size_t{2},
                    std::size_t{32});
}

/// To touch this much leaves nothing of before in the L2.
std::size_t cold_bytes(std::size_t l2_bytes) {
  return 3 * l2_bytes + 1;
}

/// A graph for each device: those of several launch theirs one after the other, and they run side by side.
std::vector<GraphExec> capture(const Streams& streams, const std::function<void(const Streams&)>& enqueue) {
  for (int device = 0; device < streams.devices(); ++device) {
    CUDA_CHECK(cudaStreamBeginCapture(streams[device], cudaStreamCaptureModeThreadLocal));
  }
  const auto end_capture = [&](int device) {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(streams[device], &graph);
    return std::pair{Graph(graph), error};
  };
  try {
    enqueue(streams);
  } catch (...) {
    for (int device = 0; device < streams.devices(); ++device) (void)end_capture(device);
    (void)cudaGetLastError();
    throw;
  }
  // None is made ready while another one's capture goes on: that is an error on a GPU.
  std::vector<std::pair<Graph, cudaError_t>> captured;
  for (int device = 0; device < streams.devices(); ++device) captured.push_back(end_capture(device));
  std::vector<GraphExec> execs;
  for (int device = 0; device < streams.devices(); ++device) {
    const auto& [graph, error] = captured[static_cast<std::size_t>(device)];
    CUDA_CHECK(error);
    const CurrentDevice current(device);
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph.get(), 0));
    execs.emplace_back(exec);
  }
  return execs;
}

std::vector<cudaStream_t> streams_of(const auto& of_devices) {
  std::vector<cudaStream_t> streams;
  for (const auto& one : of_devices) streams.push_back(one.stream.get());
  return streams;
}

int attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace

bool wants_another_sample(const Sampling& sampling, int taken, std::chrono::nanoseconds elapsed) {
  return taken < sampling.repeats && (taken < Sampling::least_samples || elapsed < sampling.limit);
}

Timing summarize(std::vector<double> microseconds) {
  std::sort(microseconds.begin(), microseconds.end());
  const auto quantile = [&](double fraction) {
    const double position = fraction * static_cast<double>(microseconds.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, microseconds.size() - 1);
    const double weight = position - static_cast<double>(below);
    return microseconds[below] * (1 - weight) + microseconds[above] * weight;
  };
  const double median = quantile(0.5);
  return {median, 100 * (quantile(0.75) - quantile(0.25)) / median};
}

std::string doubts(const TimedVariant& timed) {
  // nvbench's default. Clocks above it are ordinary, between the base clock and the highest; below it,
  // something holds the device down.
  const double least_share = 0.75;
  // The error of a median is about 0.9 spread / sqrt(samples), 1 % at 25 samples with this spread. Among 1823
  // medians recorded on an H200, seven had a larger spread, and five of these were 4 % to 21 % off in another
  // round.
  const double most_spread_percent = 5;

  const auto& [variant, copy, clock] = timed;
  const auto whole = [](double number) { return std::to_string(std::llround(number)); };
  std::string text;
  if (clock.mhz > 0 && clock.mhz < least_share * clock.highest_mhz) {
    text = "throttled: SM clock " + whole(clock.mhz) + " of " + whole(clock.highest_mhz) + " MHz";
  }
  const double spread_percent = std::max(variant.spread_percent, copy.spread_percent);
  if (spread_percent > most_spread_percent) {
    text += text.empty() ? "" : "; ";
    text += std::string("did not settle: ") +
            (copy.spread_percent > variant.spread_percent ? "the copy's " : "") + "spread " +
            whole(spread_percent) + " %";
  }
  return text;
}

JsonMembers json_members(const TimedVariant& timed) {
  return {{"time_us", json_number(timed.variant.median_us)},
          {"spread_percent", json_number(timed.variant.spread_percent)},
          {"copy_us", json_number(timed.copy.median_us)},
          {"copy_spread_percent", json_number(timed.copy.spread_percent)},
          {"note", json_quoted(doubts(timed))}};
}

std::size_t buffer_sets_for(std::size_t bytes_per_set, L2 l2) {
  return l2 == L2::warm ? 1 : launches_per_sample(bytes_per_set);
}

TimedVariant time_in_turn(TimedDevice& device, const TimedWork& work, const Sampling& sampling, L2 l2) {
  const std::size_t launches = l2 == L2::warm ? launches_per_sample(work.bytes_per_set) : work.sets;

  const auto prepare = [&](const std::function<void(std::size_t, const Streams&)>& one, bool capturable) {
    const auto enqueue_all = [&one, launches, sets = work.sets](const Streams& streams) {
      for (std::size_t i = 0; i < launches; ++i) one(i % sets, streams);
    };
    return device.prepare(enqueue_all, capturable);
  };
  const auto sample = [&](const TimedDevice::Run& run) {
    if (l2 == L2::cold) device.flush_l2();
    return device.microseconds(run) / static_cast<double>(launches);
  };
  // Before the capture, which inherits the attributes of the stream.
  device.forget_persisting_l2();
  const TimedDevice::Run run_copy = prepare(work.copy, true);
  const TimedDevice::Run run_variant = prepare(work.launch, work.capturable);

  const auto begin = device.now();
  do {
    sample(run_copy);
  } while (device.now() - begin < sampling.warm_up);
  sample(run_variant);

  std::vector<double> copy_us;
  std::vector<double> variant_us;
  const auto first_sample = device.now();
  for (int taken = 0; wants_another_sample(sampling, taken, device.now() - first_sample); ++taken) {
    copy_us.push_back(sample(run_copy));
    variant_us.push_back(sample(run_variant));
  }
  // During the copy: a variant that waits in between would leave the kernel that reads the clock alone on the
  // device.
  const SmClock clock = device.clock_during(run_copy);
  // The variant runs last, so that every buffer holds its result, which is verified again.
  sample(run_variant);
  return {summarize(std::move(variant_us)), summarize(std::move(copy_us)), clock};
}

std::size_t Timer::flush_bytes(const Device& device) {
  return cold_bytes(device.l2_bytes) + sink_bytes;
}

Timer::Timer(const Device& device, L2 l2, int devices)
    : cold_bytes_(cold_bytes(device.l2_bytes)),
      multiprocessors_(device.multiprocessors),
      l2_(l2),
      of_devices_([devices] {
        std::vector<OfDevice> made;
        for (int ordinal = 0; ordinal < devices; ++ordinal) {
          const CurrentDevice current(ordinal);
          made.push_back({make_stream(), make_event(), make_event()});
        }
        return made;
      }()),
      streams_(streams_of(of_devices_)),
      readings_(allocate_device(2 * sizeof(ClockReading))) {}

TimedVariant Timer::time(const TimedWork& work, const Sampling& sampling) {
  return time_in_turn(*this, work, sampling, l2_);
}

TimedDevice::Run Timer::prepare(const std::function<void(const Streams&)>& enqueue, bool capturable) {
  if (!capturable) return [this, enqueue] { enqueue(streams_); };
  const auto graphs = std::make_shared<std::vector<GraphExec>>(capture(streams_, enqueue));
  return [this, graphs] {
    for (int device = 0; device < streams_.devices(); ++device) {
      const CurrentDevice current(device);
      CUDA_CHECK(cudaGraphLaunch((*graphs)[static_cast<std::size_t>(device)].get(), streams_[device]));
    }
  };
}

double Timer::microseconds(const Run& run) {
  if (of_devices_.size() > 1) begin_together();
  for (const OfDevice& own : of_devices_) CUDA_CHECK(cudaEventRecord(own.start.get(), own.stream.get()));
  run();
  for (const OfDevice& own : of_devices_) CUDA_CHECK(cudaEventRecord(own.stop.get(), own.stream.get()));
  synchronize(streams_);
  float slowest = 0;
  for (const OfDevice& own : of_devices_) {
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, own.start.get(), own.stop.get()));
    slowest = std::max(slowest, milliseconds);
  }
  return 1e3 * slowest;
}

// The host enqueues on one device after the other, and the first would wait for the last while its clock
// runs. So all devices wait for the first one, which is kept busy for longer than the enqueuing takes.
void Timer::begin_together() {
  OfDevice& first = of_devices_.front();
  launch_wait(200 + 100 * static_cast<int>(of_devices_.size()), first.stream.get());
  CUDA_CHECK(cudaEventRecord(first.start.get(), first.stream.get()));
  for (const OfDevice& own : of_devices_) {
    if (&own != &first) CUDA_CHECK(cudaStreamWaitEvent(own.stream.get(), first.start.get(), 0));
  }
}

void Timer::flush_l2() {
  for (std::size_t i = 0; i < of_devices_.size(); ++i) {
    OfDevice& own = of_devices_[i];
    const CurrentDevice current(static_cast<int>(i));
    if (!own.flush_buffer) own.flush_buffer = allocate_device(cold_bytes_ + sink_bytes);
    char* flush = static_cast<char*>(own.flush_buffer.get());
    launch_read(flush + sink_bytes, cold_bytes_, reinterpret_cast<int*>(flush), own.stream.get());
  }
}

// A kernel can make the L2 keep a window of memory. Its lines stay when other memory is read, so flush_l2
// does not evict them: the next variant timed on the same buffers would find them warm. A window that a
// launcher set on our stream would also hold for later launches there. And all other data lack the part of
// the L2 set aside for such lines: with all of it set aside, softmax and copy of 16 MiB took twice their time
// on an H200.
void Timer::forget_persisting_l2() {
  if (attribute(cudaDevAttrMaxPersistingL2CacheSize) == 0) return;  // before compute capability 8.0
  for (int device = 0; device < streams_.devices(); ++device) {
    const CurrentDevice current(device);
    cudaStreamAttrValue no_window{};
    CUDA_CHECK(cudaStreamSetAttribute(streams_[device], cudaStreamAttributeAccessPolicyWindow, &no_window));
    CUDA_CHECK(cudaCtxResetPersistingL2Cache());
    CUDA_CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0));
  }
}

// As nvbench does. Around a run of its own, so that the samples have nothing in their way.
SmClock Timer::clock_during(const Run& run) {
  auto* const reading = static_cast<ClockReading*>(readings_.get());
  cudaStream_t stream = streams_;
  CUDA_CHECK(cudaMemsetAsync(reading, 0, 2 * sizeof(ClockReading), stream));
  launch_read_clock(reading, multiprocessors_, stream);
  run();
  launch_read_clock(reading + 1, multiprocessors_, stream);
  std::array<ClockReading, 2> read{};
  CUDA_CHECK(cudaMemcpyAsync(read.data(), reading, sizeof read, cudaMemcpyDeviceToHost, stream));
  synchronize(streams_);
  if (read[0].nanoseconds == 0 || read[1].nanoseconds <= read[0].nanoseconds) return {};
  const auto cycles = static_cast<double>(read[1].cycles - read[0].cycles);
  return {1e3 * cycles / static_cast<double>(read[1].nanoseconds - read[0].nanoseconds),
          1e-3 * attribute(cudaDevAttrClockRate)};
}

std::chrono::nanoseconds Timer::now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}
