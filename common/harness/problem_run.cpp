#include "common/harness/problem_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "common/harness/ceiling.h"
#include "common/harness/errors.h"
#include "common/harness/reference.h"
#include "common/harness/simulator.h"
#include "common/harness/streams.h"

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
  if (problem.devices > 1) needed += set_bytes;  // whole tensors, for filling and verifying
  if (setup.takes_times) needed += static_cast<double>(Timer::flush_bytes(device));
  if (needed > free) {
    throw UsageError(describe(problem) + " needs " + gibibytes(needed) + " of device memory, and " +
                     gibibytes(free) + " are free; accepted: a smaller shape");
  }
  if (!setup.takes_times) return 1;
  const double share_usable = 0.95;  // the rest is left to the allocator's rounding
  const auto more_sets = static_cast<std::size_t>((free - needed) / set_bytes * share_usable);
  return std::min(buffer_sets_for(problem.least_bytes_of_a_device(), setup.l2), 1 + more_sets);
}

std::vector<FencedMemory> allocate(const std::vector<Tensor>& tensors, std::int64_t offset,
                                   std::int64_t next) {
  std::vector<FencedMemory> memory;
  for (const Tensor& tensor : tensors) {
    memory.emplace_back(tensor.bytes(), static_cast<std::size_t>(offset) * size_of(tensor.dtype),
                        tensor.device);
    offset += next;
  }
  return memory;
}

template <class Pointer>
std::vector<Pointer> pointers_to(const std::vector<FencedMemory>& memory) {
  std::vector<Pointer> pointers;
  for (const FencedMemory& one : memory) pointers.push_back(one.data());
  return pointers;
}

/// The memory of the tensors on the device.
std::vector<Bytes> bytes_on(int device, const std::vector<Tensor>& tensors,
                            const std::vector<FencedMemory>& memory) {
  std::vector<Bytes> bytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].device == device) bytes.push_back({memory[i].data(), memory[i].bytes()});
  }
  return bytes;
}

// ---- Inputs, checksums and verification of device memory: on the device; or on the host for small problems,
// because that is faster, and under the simulator, because the host is the device there.

/// Holds a tensor of any type, aligned.
using HostTensor = std::vector<std::uint64_t>;

HostTensor host_tensor(const Tensor& tensor) {
  return HostTensor(tensor.bytes() / sizeof(std::uint64_t) + 1);
}

HostTensor copy_to_host(const Tensor& tensor, const void* device) {
  HostTensor host = host_tensor(tensor);
  if (tensor.bytes() > 0) CUDA_CHECK(cudaMemcpy(host.data(), device, tensor.bytes(), cudaMemcpyDeviceToHost));
  return host;
}

/// One verdict of those of all outputs.
Verdict join(const Problem& problem, const std::vector<Verdict>& verdicts) {
  const std::vector<Tensor> outputs = problem.outputs();
  if (verdicts.size() != outputs.size()) {
    throw std::logic_error(std::string(problem.op->name) + " has not verified every output");
  }
  Verdict joined{true, "", 0};
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const double max_error = std::max(joined.max_error, verdicts[i].max_error);
    if (joined.correct && !verdicts[i].correct) {
      joined = verdicts[i];
      if (outputs.size() > 1) joined.explanation = std::string(outputs[i].name) + ": " + joined.explanation;
    }
    joined.max_error = max_error;
  }
  return joined;
}

/// See Operation::fill.
void fill_device_inputs(const Problem& problem, InputKind kind, std::uint64_t seed,
                        const std::vector<void*>& inputs) {
  if (simulator() == nullptr) return problem.op->fill(problem, kind, seed, inputs, Space::device);
  const std::vector<Tensor> tensors = problem.inputs();
  std::vector<HostTensor> host;
  std::vector<void*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(host.emplace_back(host_tensor(tensor)).data());
  problem.op->fill(problem, kind, seed, pointers, Space::host);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].bytes() == 0) continue;
    CUDA_CHECK(cudaMemcpy(inputs[i], pointers[i], tensors[i].bytes(), cudaMemcpyHostToDevice));
  }
}

/// See checksum; `data` is a device pointer.
std::uint64_t device_checksum(const Tensor& tensor, const void* data) {
  const CurrentDevice current(tensor.device);
  if (simulator() == nullptr) return checksum(tensor, data, Space::device);
  return checksum(tensor, copy_to_host(tensor, data).data(), Space::host);
}

/// See Operation::verify; joined to one verdict, that of the first output which is wrong.
Verdict verify_device_outputs(const Problem& problem, const Memory& memory, double tolerance_factor) {
  if (problem.shape.elements() == 0) return {true, "", 0};
  constexpr std::int64_t largest_on_host = 1 << 14;
  if (simulator() == nullptr && problem.shape.elements() > largest_on_host) {
    return join(problem, problem.op->verify(problem, memory, Space::device, tolerance_factor));
  }
  std::vector<HostTensor> copies;
  Memory host;
  for (const Tensor& tensor : problem.inputs()) {
    const void* const device = memory.inputs[host.inputs.size()];
    host.inputs.push_back(copies.emplace_back(copy_to_host(tensor, device)).data());
  }
  for (const Tensor& tensor : problem.outputs()) {
    const void* const device = memory.outputs[host.outputs.size()];
    host.outputs.push_back(copies.emplace_back(copy_to_host(tensor, device)).data());
  }
  return join(problem, problem.op->verify(problem, host, Space::host, tolerance_factor));
}

bool is_zero(const void* device, std::size_t bytes) {
  std::vector<char> copy(bytes);
  CUDA_CHECK(cudaMemcpy(copy.data(), device, bytes, cudaMemcpyDeviceToHost));
  return std::all_of(copy.begin(), copy.end(), [](char byte) { return byte == 0; });
}

}  // namespace

std::size_t largest_workspace(const std::vector<const Variant*>& variants, const Problem& problem,
                              const Device& device) {
  std::size_t largest = 0;
  for (const Variant* variant : variants) {
    if (!variant->unsupported(problem, device).empty()) continue;
    largest = std::max(largest, variant->workspace(problem, device).bytes);
  }
  return largest;
}

ProblemRun::ProblemRun(const Problem& problem, const ProblemSetup& setup, const Device& device)
    : problem_(problem), setup_(setup), device_(device), sets_(affordable_sets(problem, setup, device)) {
  for (int of = 0; of < problem.devices; ++of) workspaces_.emplace_back(setup.workspace_bytes, 0, of);
  for (BufferSet& set : sets_) {
    set = {allocate(problem.inputs(), problem.offsets.input, problem.offsets.next),
           allocate(problem.outputs(), problem.offsets.output, problem.offsets.next)};
  }
}

void ProblemRun::fill(const BufferSet& set) const {
  fill_device_inputs(problem_, input_, problem_.seed, pointers_to<void*>(set.inputs));
}

void ProblemRun::fill(InputKind input) {
  input_ = input;
  for (const BufferSet& set : sets_) fill(set);
  input_checksums_.clear();
  for (const Tensor& tensor : problem_.inputs()) {
    const FencedMemory& filled = sets_[0].inputs[input_checksums_.size()];
    input_checksums_.push_back(device_checksum(tensor, filled.data()));
  }
}

Memory ProblemRun::memory(const BufferSet& set) const {
  return {pointers_to<const void*>(set.inputs), pointers_to<void*>(set.outputs), workspaces_[0].data(),
          pointers_to<void*>(workspaces_)};
}

std::vector<Plan> ProblemRun::prepare_every_set(const Variant& variant) const {
  std::vector<Plan> plans;
  for (const BufferSet& set : sets_) plans.push_back(variant.prepare(problem_, device_, memory(set)));
  return plans;
}

void ProblemRun::clear_workspace(const Workspace& wanted) {
  for (int device = 0; FencedMemory & workspace : workspaces_) {
    const CurrentDevice current(device++);
    workspace.poison();
    if (!wanted.zeroed) continue;
    CUDA_CHECK(cudaMemset(workspace.data(), 0, wanted.bytes));
    CUDA_CHECK(cudaDeviceSynchronize());
  }
}

bool ProblemRun::inputs_are_unchanged(const BufferSet& set) const {
  const std::vector<Tensor> inputs = problem_.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!set.inputs[i].broken_fence("input").empty()) return false;
    if (device_checksum(inputs[i], set.inputs[i].data()) != input_checksums_[i]) return false;
  }
  return true;
}

std::string ProblemRun::damage(BufferSet& set, const Workspace& used) const {
  // Whatever else is wrong: the next variant would be blamed for changed inputs.
  const bool unchanged = inputs_are_unchanged(set);
  if (!unchanged) {
    for (FencedMemory& input : set.inputs) input.poison();
    fill(set);
  }
  const std::vector<Tensor> outputs = problem_.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = outputs.size() == 1 ? "output" : std::string("output ") + outputs[i].name;
    if (std::string broken = set.outputs[i].broken_fence(name); !broken.empty()) return broken;
  }
  for (const FencedMemory& workspace : workspaces_) {
    if (std::string broken = workspace.broken_fence("workspace", used.bytes); !broken.empty()) return broken;
    if (used.zeroed && !is_zero(workspace.data(), used.bytes)) return "left its workspace other than zero";
  }
  return unchanged ? "" : "changed its input";
}

Verdict ProblemRun::check(BufferSet& set, const Workspace& used, double tolerance_factor) const {
  if (const std::string damaged = damage(set, used); !damaged.empty()) return {false, damaged};
  return verify_device_outputs(problem_, memory(set), tolerance_factor);
}

Verdict ProblemRun::verify(const Variant& variant, const std::function<void(const Plan&)>& run,
                           double tolerance_factor) {
  const Workspace workspace = variant.workspace(problem_, device_);
  for (FencedMemory& output : sets_[0].outputs) output.poison();
  clear_workspace(workspace);
  run(variant.prepare(problem_, device_, memory(sets_[0])));
  return check(sets_[0], workspace, tolerance_factor);
}

void ProblemRun::launch_on_every_set(const Variant& variant, const Streams& streams) const {
  for (const Plan& plan : prepare_every_set(variant)) plan(streams);
}

TimedWork ProblemRun::work(std::function<void(std::size_t, const Streams&)> launch, bool capturable) const {
  const auto copy_of = [this](std::size_t set, const Streams& streams) { copy(set, streams); };
  return {sets_.size(), problem_.least_bytes_of_a_device(), std::move(launch), copy_of, capturable};
}

ProblemRun::Timed ProblemRun::time(const Variant& variant, Timer& timer, const Sampling& sampling,
                                   double tolerance_factor) {
  const Workspace workspace = variant.workspace(problem_, device_);
  clear_workspace(workspace);
  // Renews their fences, so that this variant is not blamed for the damage of another.
  for (BufferSet& set : sets_) {
    for (FencedMemory& output : set.outputs) output.poison();
  }
  const std::vector<Plan> plans = prepare_every_set(variant);
  const auto launch = [&](std::size_t set, const Streams& streams) { plans[set](streams); };
  Timed timed{timer.time(work(launch, variant.capturable), sampling), {true}};
  // The variant has the last word in every buffer set: a sample of it follows each of the copy.
  for (BufferSet& set : sets_) {
    Verdict found = check(set, workspace, tolerance_factor);
    if (timed.verdict.correct) timed.verdict = std::move(found);
  }
  if (!timed.verdict.correct) {
    timed.verdict.explanation = "right before timing, not after: " + timed.verdict.explanation;
  }
  return timed;
}

TimedVariant ProblemRun::time_copy(Timer& timer, const Sampling& sampling) const {
  return timer.time(work([this](std::size_t set, const Streams& streams) { copy(set, streams); }, true),
                    sampling);
}

void ProblemRun::copy(std::size_t set, const Streams& streams) const {
  const std::vector<Tensor> inputs = problem_.inputs();
  const std::vector<Tensor> outputs = problem_.outputs();
  for (int device = 0; device < problem_.devices; ++device) {
    const CurrentDevice current(device);
    launch_ceiling(bytes_on(device, inputs, sets_[set].inputs), bytes_on(device, outputs, sets_[set].outputs),
                   streams[device]);
  }
}
