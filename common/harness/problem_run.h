// The device memory of one problem, and what is done on it: fill the inputs, verify a launch, time it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/harness/ceiling.h"
#include "common/harness/device_data.h"
#include "common/harness/fenced_memory.h"
#include "common/harness/timer.h"
#include "common/harness/variant.h"

/// Bytes of workspace that suffice for each of the variants that can do the problem.
std::size_t largest_workspace(const std::vector<const Variant*>& variants, const Problem& problem,
                              const Machine& machine);

/// Elements by which tensors are off their alignment.
struct Offsets {
  static constexpr std::int64_t most = 1024;
  std::int64_t input = 0;
  std::int64_t output = 0;
};

struct ProblemSetup {
  std::uint64_t seed = 1;  ///< of the inputs
  Offsets offsets{};
  L2 l2 = L2::cold;         ///< cold: as many buffer sets as successive launches need to find their data cold
  bool takes_times = true;  ///< false: one buffer set will do
  std::size_t workspace_bytes = 0;
  std::size_t spare_bytes = 0;  ///< free memory to leave to others
};

class ProblemRun {
 public:
  /// Allocates. Throws UsageError when the device has not enough free memory: what is needed, and what there
  /// is.
  ProblemRun(const Problem& problem, const ProblemSetup& setup, const Machine& machine);

  /// Makes the inputs of every buffer set. To be called before the functions below.
  void fill(InputKind input);

  /// Checks one launch: every element of every output, the memory around it and around the workspace, and that
  /// the inputs are as they were. `run` runs the plan that it is given, and returns when the work is done.
  /// `tolerance_factor`: see Operation::verify.
  Verdict verify(const Variant& variant, const std::function<void(const Plan&)>& run,
                 double tolerance_factor = 1);

  /// One launch on each buffer set.
  void launch_on_every_set(const Variant& variant, cudaStream_t stream) const;

  /// Of a variant that was verified. `verdict`: the same checks again, of what the last launches left in every
  /// buffer set.
  TimedVariant time(const Variant& variant, Timer& timer, const Sampling& sampling, Verdict& verdict,
                    double tolerance_factor = 1);

  /// The ceiling, timed like a variant: what it shows of itself is the noise of the machine.
  TimedVariant time_copy(Timer& timer, const Sampling& sampling) const;
  void copy(std::size_t set, cudaStream_t stream) const;

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] std::size_t workspace_bytes() const { return setup_.workspace_bytes; }

 private:
  using Buffers = std::vector<std::unique_ptr<FencedMemory>>;
  struct BufferSet {
    Buffers inputs;
    Buffers outputs;
  };

  [[nodiscard]] Plan prepare(const Variant& variant, std::size_t set) const;
  [[nodiscard]] static DeviceTensors tensors(const BufferSet& set);
  [[nodiscard]] TimedWork work(std::function<void(std::size_t, cudaStream_t)> launch, bool capturable) const;
  void clear_workspace(const Workspace& wanted);
  [[nodiscard]] bool inputs_are_unchanged(const BufferSet& set) const;
  [[nodiscard]] Verdict check(std::size_t set, const Workspace& used, double tolerance_factor);
  void fill_set(const BufferSet& set) const;

  Problem problem_;
  ProblemSetup setup_;
  Machine machine_;
  std::vector<BufferSet> sets_;
  FencedMemory workspace_;
  InputKind input_ = InputKind::normal;
  std::vector<std::uint64_t> input_checksums_;
};
