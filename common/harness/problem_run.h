// The device memory of one problem, and the work done on it: filling the inputs, verifying a launch, timing
// it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/harness/fenced_memory.h"
#include "common/harness/timer.h"
#include "common/harness/variant.h"

/// Bytes of workspace that suffice for each of the variants that can do the problem.
std::size_t largest_workspace(const std::vector<const Variant*>& variants, const Problem& problem,
                              const Device& device);

struct ProblemSetup {
  L2 l2 = L2::cold;         ///< cold: one buffer set per launch of a sample, if memory suffices
  bool takes_times = true;  ///< false: one buffer set is enough
  std::size_t workspace_bytes = 0;
  std::size_t spare_bytes = 0;  ///< free memory to leave to others
};

class ProblemRun {
 public:
  /// Allocates. Throws UsageError if the device does not have enough free memory; the message has both sizes.
  ProblemRun(const Problem& problem, const ProblemSetup& setup, const Device& device);

  /// Makes the inputs of every buffer set. To be called before the functions below.
  void fill(InputKind input);

  /// Checks one launch: every element of every output, the memory around it and around the workspace, and
  /// that the inputs are as they were. `run` runs the plan that it is given, and returns when the work is
  /// done. `tolerance_factor`: see Operation::verify.
  Verdict verify(const Variant& variant, const std::function<void(const Plan&)>& run,
                 double tolerance_factor = 1);

  /// One launch on each buffer set.
  void launch_on_every_set(const Variant& variant, const Streams& streams) const;

  struct Timed {
    TimedVariant timing;
    Verdict verdict;  ///< the checks of verify(), repeated on every buffer set after its last launch
  };
  /// Times a variant that was verified before.
  Timed time(const Variant& variant, Timer& timer, const Sampling& sampling, double tolerance_factor = 1);

  /// The ceiling, timed like a variant: its deviation from 100 percent of itself is the noise of the machine.
  TimedVariant time_copy(Timer& timer, const Sampling& sampling) const;
  void copy(std::size_t set, const Streams& streams) const;

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] std::size_t workspace_bytes() const { return setup_.workspace_bytes; }

 private:
  struct BufferSet {
    std::vector<FencedMemory> inputs;
    std::vector<FencedMemory> outputs;
  };

  void fill(const BufferSet& set) const;
  [[nodiscard]] Memory memory(const BufferSet& set) const;
  [[nodiscard]] std::vector<Plan> prepare_every_set(const Variant& variant) const;
  [[nodiscard]] TimedWork work(std::function<void(std::size_t, const Streams&)> launch,
                               bool capturable) const;
  void clear_workspace(const Workspace& wanted);
  [[nodiscard]] bool inputs_are_unchanged(const BufferSet& set) const;
  /// Damage that the launches did to any memory except the outputs' elements: "", or a description.
  [[nodiscard]] std::string damage(BufferSet& set, const Workspace& used) const;
  [[nodiscard]] Verdict check(BufferSet& set, const Workspace& used, double tolerance_factor) const;

  Problem problem_;
  ProblemSetup setup_;
  Device device_;
  std::vector<BufferSet> sets_;
  std::vector<FencedMemory> workspaces_;  ///< one on each device
  InputKind input_ = InputKind::normal;
  std::vector<std::uint64_t> input_checksums_;
};
