// The device memory of one problem, and what is done on it: fill the inputs, verify a launch, time it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/cuda_handles.h"
#include "common/harness/device.h"
#include "common/harness/input.h"
#include "common/harness/problem.h"
#include "common/harness/timer.h"
#include "common/harness/variant.h"
#include "common/harness/verify.h"

/// Empty when the variant can do the problem.
std::string reason_not_applicable(const Variant& variant, const Problem& problem);

/// Bytes of workspace that suffice for each of the variants that can do the problem.
std::size_t largest_workspace(const std::vector<const Variant*>& variants, const Problem& problem);

/// Inputs and outputs for the launches of one problem.
struct BufferSets {
  std::vector<std::unique_ptr<FencedTensor>> x;
  std::vector<std::unique_ptr<FencedTensor>> y;
  [[nodiscard]] std::size_t count() const { return x.size(); }
};

struct ProblemSetup {
  std::uint64_t seed = 1;   ///< of the inputs
  std::int64_t offset = 0;  ///< elements by which input and output are off their alignment
  L2 l2 = L2::cold;         ///< cold: as many buffer sets as successive launches need to find their data cold
  bool takes_times = true;  ///< false: one buffer set will do
  std::size_t workspace_bytes = 0;
  std::size_t spare_bytes = 0;  ///< free memory to leave to others
};

class ProblemRun {
 public:
  /// Enqueues one launch.
  using Launch = std::function<void(const Buffers&, cudaStream_t)>;

  /// Allocates. Throws UsageError when the device has not enough free memory: what is needed, and what there
  /// is.
  ProblemRun(const Problem& problem, const ProblemSetup& setup, const Device& device);

  /// Makes the inputs of every buffer set. To be called before the functions below.
  void fill(InputKind input);

  /// Checks one launch: every element of the result, the memory around it, and that the input is as it was.
  /// `launch_and_wait` returns when the work is done. `tolerance_factor`: see compare_with_reference.
  Verdict verify(const std::function<void(const Buffers&)>& launch_and_wait, double tolerance_factor = 1);

  /// One launch on each buffer set.
  void launch_on_every_set(const Launch& launch, cudaStream_t stream) const;

  TimedVariant time(const Launch& launch, bool capturable, Timer& timer, const Sampling& sampling);

  /// The copy ceiling, timed like a variant: what it shows of itself is the noise of the machine.
  TimedVariant time_copy(Timer& timer, const Sampling& sampling);
  void copy(std::size_t set, cudaStream_t stream) const;

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] std::size_t workspace_bytes() const { return setup_.workspace_bytes; }

 private:
  [[nodiscard]] Buffers buffers(std::size_t set) const;
  void fill_set(std::size_t set);
  [[nodiscard]] TimedWork work(std::function<void(std::size_t, cudaStream_t)> launch, bool capturable) const;

  Problem problem_;
  ProblemSetup setup_;
  BufferSets sets_;
  DeviceMemory workspace_;
  InputKind input_ = InputKind::normal;
  std::uint64_t input_checksum_ = 0;
};
