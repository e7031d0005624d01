#include "common/harness/problem_run.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/harness/cli/command_line.h"
#include "common/harness/copy_ceiling.h"
#include "common/harness/device_data.h"

namespace {

std::string gibibytes(double bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f GiB", bytes / (1024. * 1024 * 1024));
  return text.data();
}

/// How many sets of input and output to allocate: as many as cold timing wants, if they fit. Throws
/// UsageError when not even one does. Computed in double up to there, because rows * cols may not fit an
/// integer.
std::size_t affordable_sets(const Problem& problem, const ProblemSetup& setup, const Device& device) {
  const auto rows = static_cast<double>(problem.shape.rows);
  const auto cols = static_cast<double>(problem.shape.cols);
  const double tensor_bytes = rows * cols * static_cast<double>(size_of(problem.dtype));
  const double set_bytes = 2 * (tensor_bytes + 2 * FencedTensor::fence_bytes);
  const auto free = static_cast<double>(free_device_memory());
  double needed = set_bytes + verification_bytes(rows, cols) +
                  static_cast<double>(setup.workspace_bytes + setup.spare_bytes);
  if (setup.takes_times) needed += static_cast<double>(Timer::flush_bytes(device));
  if (needed > free) {
    throw UsageError("--rows, --cols: " + describe(problem) + " needs " + gibibytes(needed) +
                     " of device memory, and " + gibibytes(free) + " are free; accepted: a smaller shape");
  }
  if (!setup.takes_times) return 1;
  const double share_usable = 0.95;  // the rest is left to the allocator's rounding
  const auto more_sets = static_cast<std::size_t>((free - needed) / set_bytes * share_usable);
  return std::min(buffer_sets_for(2 * problem.tensor_bytes(), setup.l2, device), 1 + more_sets);
}

}  // namespace

std::string reason_not_applicable(const Variant& variant, const Problem& problem) {
  return variant.why_not ? variant.why_not(problem) : "";
}

std::size_t largest_workspace(const std::vector<const Variant*>& variants, const Problem& problem) {
  std::size_t largest = 0;
  for (const Variant* variant : variants) {
    if (variant->workspace_bytes && reason_not_applicable(*variant, problem).empty()) {
      largest = std::max(largest, variant->workspace_bytes(problem));
    }
  }
  return largest;
}

ProblemRun::ProblemRun(const Problem& problem, const ProblemSetup& setup, const Device& device)
    : problem_(problem), setup_(setup) {
  const std::size_t sets = affordable_sets(problem, setup, device);
  for (std::size_t i = 0; i < sets; ++i) {
    sets_.x.push_back(std::make_unique<FencedTensor>(problem, setup.offset));
    sets_.y.push_back(std::make_unique<FencedTensor>(problem, setup.offset));
  }
  workspace_ = allocate_device(setup.workspace_bytes);
}

void ProblemRun::fill(InputKind input) {
  input_ = input;
  for (std::size_t set = 0; set < sets_.count(); ++set) fill_set(set);
  input_checksum_ = device_checksum(problem_, sets_.x[0]->data());
}

void ProblemRun::fill_set(std::size_t set) {
  fill_device_input(input_, setup_.seed, problem_, sets_.x[set]->data());
}

Verdict ProblemRun::verify(const std::function<void(const Buffers&)>& launch_and_wait,
                           double tolerance_factor) {
  FencedTensor& y = *sets_.y[0];
  y.poison();
  launch_and_wait(buffers(0));
  if (const std::string broken = y.broken_fence(); !broken.empty()) return {false, broken, 0};
  FencedTensor& x = *sets_.x[0];
  if (!x.broken_fence().empty() || device_checksum(problem_, x.data()) != input_checksum_) {
    x.poison();  // the next contender must not suffer for it
    fill_set(0);
    return {false, "changed its input", 0};
  }
  return compare_device_result(problem_, x.data(), y.data(), tolerance_factor);
}

void ProblemRun::launch_on_every_set(const Launch& launch, cudaStream_t stream) const {
  for (std::size_t set = 0; set < sets_.count(); ++set) launch(buffers(set), stream);
}

TimedWork ProblemRun::work(std::function<void(std::size_t, cudaStream_t)> launch, bool capturable) const {
  const auto copy_set = [this](std::size_t set, cudaStream_t stream) { copy(set, stream); };
  return {sets_.count(), 2 * problem_.tensor_bytes(), launch ? std::move(launch) : copy_set, copy_set,
          capturable};
}

TimedVariant ProblemRun::time(const Launch& launch, bool capturable, Timer& timer, const Sampling& sampling) {
  const auto launch_set = [&](std::size_t set, cudaStream_t stream) { launch(buffers(set), stream); };
  return timer.time(work(launch_set, capturable), sampling);
}

TimedVariant ProblemRun::time_copy(Timer& timer, const Sampling& sampling) {
  return timer.time(work({}, true), sampling);
}

/// What lies of the input in whole aligned packs, to the output: the ceiling is that of aligned accesses.
void ProblemRun::copy(std::size_t set, cudaStream_t stream) const {
  auto* const x = static_cast<char*>(sets_.x[set]->data());
  auto* const y = static_cast<char*>(sets_.y[set]->data());  // has the same offset
  const std::size_t skipped = -reinterpret_cast<std::uintptr_t>(x) % 16;
  const std::size_t bytes = problem_.tensor_bytes();
  launch_copy(x + skipped, y + skipped, bytes - std::min(bytes, skipped), stream);
}

Buffers ProblemRun::buffers(std::size_t set) const {
  return {sets_.x[set]->data(), sets_.y[set]->data(), workspace_.get()};
}
