#include "common/harness/problem_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/harness/errors.h"
#include "common/harness/reference.h"

namespace {

std::string gibibytes(double bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f GiB", bytes / (1024. * 1024 * 1024));
  return text.data();
}

/// In double, because rows * cols may not fit an integer.
double bytes_of(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) {
    bytes += static_cast<double>(tensor.shape.rows) * static_cast<double>(tensor.shape.cols) *
                 static_cast<double>(size_of(tensor.dtype)) +
             2 * FencedMemory::fence_bytes;
  }
  return bytes;
}

/// How many sets of inputs and outputs to allocate: as many as cold timing wants, if they fit. Throws
/// UsageError when not even one does.
std::size_t affordable_sets(const Problem& problem, const ProblemSetup& setup, const Device& device) {
  const double set_bytes = bytes_of(problem.inputs()) + bytes_of(problem.outputs());
  const double chunks_per_row =
      std::ceil(static_cast<double>(problem.shape.cols) / static_cast<double>(reference_chunk_cols));
  const auto free = static_cast<double>(free_device_memory());
  double needed = set_bytes +
                  static_cast<double>(problem.shape.rows) * (chunks_per_row + 1) * sizeof(ReferenceRow) +
                  static_cast<double>(setup.workspace_bytes + setup.spare_bytes);
  if (setup.takes_times) needed += static_cast<double>(Timer::flush_bytes(device));
  if (needed > free) {
    throw UsageError(describe(problem) + " needs " + gibibytes(needed) + " of device memory, and " +
                     gibibytes(free) + " are free; accepted: a smaller shape");
  }
  if (!setup.takes_times) return 1;
  const double share_usable = 0.95;  // the rest is left to the allocator's rounding
  const auto more_sets = static_cast<std::size_t>((free - needed) / set_bytes * share_usable);
  return std::min(buffer_sets_for(problem.least_bytes(), setup.l2, device), 1 + more_sets);
}

std::vector<std::unique_ptr<FencedMemory>> allocate(const std::vector<Tensor>& tensors, std::int64_t offset) {
  std::vector<std::unique_ptr<FencedMemory>> memory;
  for (const Tensor& tensor : tensors) {
    const std::size_t offset_bytes = static_cast<std::size_t>(offset) * size_of(tensor.dtype);
    memory.push_back(std::make_unique<FencedMemory>(tensor.bytes(), offset_bytes));
  }
  return memory;
}

/// Their pointers, as void* or const void*.
template <class Pointer>
std::vector<Pointer> data_of(const std::vector<std::unique_ptr<FencedMemory>>& memory) {
  std::vector<Pointer> pointers;
  for (const auto& one : memory) pointers.push_back(one->data());
  return pointers;
}

std::vector<Bytes> bytes_in(const std::vector<std::unique_ptr<FencedMemory>>& memory) {
  std::vector<Bytes> bytes;
  for (const auto& one : memory) bytes.push_back({one->data(), one->bytes()});
  return bytes;
}

bool is_zero(const void* device, std::size_t bytes) {
  std::vector<char> copy(bytes);
  CUDA_CHECK(cudaMemcpy(copy.data(), device, bytes, cudaMemcpyDeviceToHost));
  return std::all_of(copy.begin(), copy.end(), [](char byte) { return byte == 0; });
}

}  // namespace

std::size_t largest_workspace(const std::vector<const Variant*>& variants, const Problem& problem,
                              const Machine& machine) {
  std::size_t largest = 0;
  for (const Variant* variant : variants) {
    if (!why_unsupported(*variant, problem, machine).empty()) continue;
    largest = std::max(largest, workspace_of(*variant, problem, machine).bytes);
  }
  return largest;
}

ProblemRun::ProblemRun(const Problem& problem, const ProblemSetup& setup, const Machine& machine)
    : problem_(problem),
      setup_(setup),
      machine_(machine),
      sets_(affordable_sets(problem, setup, machine.devices[0])),
      workspace_(setup.workspace_bytes) {
  for (BufferSet& set : sets_) {
    set = {allocate(problem.inputs(), setup.offsets.input),
           allocate(problem.outputs(), setup.offsets.output)};
  }
}

DeviceTensors ProblemRun::tensors(const BufferSet& set) {
  return {data_of<void*>(set.inputs), data_of<void*>(set.outputs)};
}

void ProblemRun::fill_set(const BufferSet& set) const {
  fill_device_inputs(problem_, input_, setup_.seed, tensors(set));
}

void ProblemRun::fill(InputKind input) {
  input_ = input;
  for (const BufferSet& set : sets_) fill_set(set);
  input_checksums_.clear();
  const std::vector<Tensor> inputs = problem_.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    input_checksums_.push_back(device_checksum(inputs[i], sets_[0].inputs[i]->data()));
  }
}

Plan ProblemRun::prepare(const Variant& variant, std::size_t set) const {
  const Memory memory{data_of<const void*>(sets_[set].inputs), data_of<void*>(sets_[set].outputs),
                      workspace_.data()};
  return variant.prepare(problem_, machine_, {&memory, 1});
}

void ProblemRun::clear_workspace(const Workspace& wanted) {
  workspace_.poison();
  if (!wanted.zeroed) return;
  CUDA_CHECK(cudaMemset(workspace_.data(), 0, wanted.bytes));
  CUDA_CHECK(cudaDeviceSynchronize());
}

bool ProblemRun::inputs_are_unchanged(const BufferSet& set) const {
  const std::vector<Tensor> inputs = problem_.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const FencedMemory& input = *set.inputs[i];
    if (!input.broken_fence("input").empty()) return false;
    if (device_checksum(inputs[i], input.data()) != input_checksums_[i]) return false;
  }
  return true;
}

Verdict ProblemRun::check(std::size_t set, const Workspace& used, double tolerance_factor) {
  const BufferSet& buffers = sets_[set];
  const auto wrong = [](std::string explanation) { return Verdict{false, std::move(explanation), 0}; };
  // Whatever else is wrong: the next variant would be blamed for changed inputs.
  const bool unchanged = inputs_are_unchanged(buffers);
  if (!unchanged) {
    for (const auto& input : buffers.inputs) input->poison();
    fill_set(buffers);
  }
  const std::vector<Tensor> outputs = problem_.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = outputs.size() == 1 ? "output" : std::string("output ") + outputs[i].name;
    if (std::string broken = buffers.outputs[i]->broken_fence(name); !broken.empty()) return wrong(broken);
  }
  if (std::string broken = workspace_.broken_fence("workspace", used.bytes); !broken.empty())
    return wrong(broken);
  if (used.zeroed && !is_zero(workspace_.data(), used.bytes))
    return wrong("left its workspace other than zero");
  if (!unchanged) return wrong("changed its input");
  return verify_device_outputs(problem_, tensors(buffers), tolerance_factor);
}

Verdict ProblemRun::verify(const Variant& variant, const std::function<void(const Plan&)>& run,
                           double tolerance_factor) {
  const Workspace workspace = workspace_of(variant, problem_, machine_);
  for (const auto& output : sets_[0].outputs) output->poison();
  clear_workspace(workspace);
  run(prepare(variant, 0));
  return check(0, workspace, tolerance_factor);
}

void ProblemRun::launch_on_every_set(const Variant& variant, cudaStream_t stream) const {
  for (std::size_t set = 0; set < sets_.size(); ++set) prepare(variant, set)({&stream, 1});
}

TimedWork ProblemRun::work(std::function<void(std::size_t, cudaStream_t)> launch, bool capturable) const {
  const auto copy_of = [this](std::size_t set, cudaStream_t stream) { copy(set, stream); };
  return {sets_.size(), problem_.least_bytes(), std::move(launch), copy_of, capturable};
}

TimedVariant ProblemRun::time(const Variant& variant, Timer& timer, const Sampling& sampling,
                              Verdict& verdict, double tolerance_factor) {
  const Workspace workspace = workspace_of(variant, problem_, machine_);
  clear_workspace(workspace);
  // Their fences: what another variant broke must not be blamed on this one.
  for (const BufferSet& set : sets_) {
    for (const auto& output : set.outputs) output->poison();
  }
  std::vector<Plan> plans;
  for (std::size_t set = 0; set < sets_.size(); ++set) plans.push_back(prepare(variant, set));
  const auto launch = [&](std::size_t set, cudaStream_t stream) { plans[set]({&stream, 1}); };
  const TimedVariant timed = timer.time(work(launch, variant.capturable), sampling);
  // The variant has the last word in every buffer set: a sample of it follows each of the copy.
  verdict = {true, "", 0};
  for (std::size_t set = 0; set < sets_.size(); ++set) {
    Verdict found = check(set, workspace, tolerance_factor);
    if (verdict.correct) verdict = std::move(found);
  }
  if (!verdict.correct) verdict.explanation = "right before timing, not after: " + verdict.explanation;
  return timed;
}

TimedVariant ProblemRun::time_copy(Timer& timer, const Sampling& sampling) const {
  return timer.time(work([this](std::size_t set, cudaStream_t stream) { copy(set, stream); }, true),
                    sampling);
}

void ProblemRun::copy(std::size_t set, cudaStream_t stream) const {
  launch_ceiling(bytes_in(sets_[set].inputs), bytes_in(sets_[set].outputs), stream);
}
