// All that the harness knows of a kernel: its name, what it cannot do, what it moves, and how to launch it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/harness/device.h"
#include "common/harness/operation.h"
#include "common/harness/traffic.h"

/// Memory of its own that a variant needs.
struct Workspace {
  std::size_t bytes = 0;
  /// Zero before the first launch, and left so by each launch; otherwise it holds anything before a launch.
  bool zeroed = false;
};

/// Enqueues one launch and nothing else: it can go into a CUDA graph. Checks every launch; throws CudaError.
/// What was prepared is kept alive by what it captured.
using Plan = std::function<void(cudaStream_t)>;

struct Variant {
  std::string name;  ///< named after its idea, as typed after --variant
  std::string idea;  ///< one line for --list
  /// Prepares launches on this memory: may allocate and wait. rows = 0 does nothing. What it asks the L2 to
  /// keep is forgotten before a timing.
  std::function<Plan(const Problem&, const Device&, const Memory&)> prepare;
  /// Bytes that the kernels request from memory, and what a row costs a block: what the lesson's arithmetic
  /// says.
  std::function<Traffic(const Problem&)> traffic;
  /// Why the variant cannot do this problem on this device; empty when it can.
  std::function<std::string(const Problem&, const Device&)> unsupported = [](const Problem&, const Device&) {
    return std::string();
  };
  std::function<Workspace(const Problem&, const Device&)> workspace = [](const Problem&, const Device&) {
    return Workspace{};
  };
  /// False for a variant whose plan waits for the device: it cannot go into a CUDA graph, and is timed by plain
  /// launches instead.
  bool capturable = true;
};

/// Variant::unsupported of what does rows of at most so many columns: "REASON: at most 1024 columns".
std::function<std::string(const Problem&, const Device&)> at_most_columns(std::int64_t cols,
                                                                          const std::string& reason);

struct Stage {
  std::string name;  ///< the folder, e.g. "03_warp_reduce"
  std::string idea;
  std::vector<Variant> variants;
  std::vector<const Operation*> operations = softmax_operations();  ///< what --op accepts; the first is usual
};
