#include "common/harness/timer.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/harness/ceiling.h"

namespace {

constexpr std::size_t max_buffer_sets = 32;
constexpr std::size_t sink_bytes = 256;  // see launch_read
constexpr std::size_t launches_per_sample =
    16;  // so that a sample is long against the event's resolution ...
constexpr std::size_t bytes_per_sample = std::size_t{1} << 30U;  // ... unless it moves this much anyway

std::size_t cold_bytes(std::size_t l2_bytes) {
  return 3 * l2_bytes + 1;
}

GraphExec capture(cudaStream_t stream, const std::function<void()>& enqueue) {
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t raw_graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    (void)cudaStreamEndCapture(stream, &raw_graph);
    const Graph abandoned(raw_graph);
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream, &raw_graph));
  const Graph graph(raw_graph);
  cudaGraphExec_t exec = nullptr;
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph.get(), 0));
  return GraphExec(exec);
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

std::size_t buffer_sets_for(std::size_t bytes_per_set, L2 l2, const Device& device) {
  if (l2 == L2::warm) return 1;
  const std::size_t set_bytes = std::max<std::size_t>(bytes_per_set, 1);
  return std::clamp(cold_bytes(device.l2_bytes) / set_bytes + 1, std::size_t{2}, max_buffer_sets);
}

std::size_t Timer::flush_bytes(const Device& device) {
  return cold_bytes(device.l2_bytes) + sink_bytes;
}

Timer::Timer(const Device& device, L2 l2)
    : cold_bytes_(cold_bytes(device.l2_bytes)),
      l2_(l2),
      stream_(make_stream()),
      start_(make_event()),
      stop_(make_event()) {}

double Timer::sample(const Run& run, std::size_t bytes_touched) {
  if (l2_ == L2::cold && bytes_touched < cold_bytes_) {
    if (!flush_buffer_) flush_buffer_ = allocate_device(cold_bytes_ + sink_bytes);
    char* flush = static_cast<char*>(flush_buffer_.get());
    launch_read(flush + sink_bytes, cold_bytes_, reinterpret_cast<int*>(flush), stream_.get());
  }
  CUDA_CHECK(cudaEventRecord(start_.get(), stream_.get()));
  run();
  CUDA_CHECK(cudaEventRecord(stop_.get(), stream_.get()));
  CUDA_CHECK(cudaEventSynchronize(stop_.get()));
  float milliseconds = 0;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()));
  return 1e3 * milliseconds;
}

TimedVariant Timer::time(const TimedWork& work, const Sampling& sampling) {
  const std::size_t round_bytes = work.bytes_per_set * work.sets;
  // A second round over the sets finds the first set cold only if all of them together exceed the L2.
  const bool rounds_stay_cold = l2_ == L2::warm || round_bytes >= cold_bytes_;
  std::size_t rounds = 1;
  while (rounds_stay_cold && rounds * work.sets < launches_per_sample &&
         rounds * round_bytes < bytes_per_sample) {
    ++rounds;
  }
  const std::size_t launches = rounds * work.sets;

  const auto enqueue_all = [&](const std::function<void(std::size_t, cudaStream_t)>& one) {
    for (std::size_t i = 0; i < launches; ++i) one(i % work.sets, stream_.get());
  };
  const auto as_run = [&](const std::function<void(std::size_t, cudaStream_t)>& one, bool as_graph) -> Run {
    if (!as_graph) return [&enqueue_all, one] { enqueue_all(one); };
    const std::shared_ptr<GraphExec> graph =
        std::make_shared<GraphExec>(capture(stream_.get(), [&] { enqueue_all(one); }));
    return [this, graph] { CUDA_CHECK(cudaGraphLaunch(graph->get(), stream_.get())); };
  };
  const Run run_copy = as_run(work.copy, true);
  const Run run_variant = as_run(work.launch, work.capturable);

  const auto begin = std::chrono::steady_clock::now();
  do {
    sample(run_copy, round_bytes);
  } while (std::chrono::steady_clock::now() - begin < sampling.warm_up);
  sample(run_variant, round_bytes);

  std::vector<double> copy_us;
  std::vector<double> variant_us;
  const auto first_sample = std::chrono::steady_clock::now();
  for (int taken = 0; wants_another_sample(sampling, taken, std::chrono::steady_clock::now() - first_sample);
       ++taken) {
    copy_us.push_back(sample(run_copy, round_bytes) / static_cast<double>(launches));
    variant_us.push_back(sample(run_variant, round_bytes) / static_cast<double>(launches));
  }
  return {summarize(std::move(variant_us)), summarize(std::move(copy_us))};
}
