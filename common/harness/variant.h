// All that the harness knows of a kernel: its name, what it cannot do, what it moves, and how to launch it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/harness/device.h"
#include "common/harness/operation.h"
#include "common/harness/traffic.h"

/// The device memory of one problem on one device: a pointer to each tensor, at any element offset, and to the
/// workspace that the variant asked for, aligned to 256 bytes.
struct Memory {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
};

/// Memory of its own that a variant needs.
struct Workspace {
  std::size_t bytes = 0;
  /// Zero before the first launch, and left so by each launch; otherwise it holds anything before a launch.
  bool zeroed = false;
};

/// Enqueues one launch, on one stream for each device of the machine, and nothing else: it can go into a CUDA
/// graph. Checks every launch; throws CudaError. What was prepared is kept alive by what it captured.
using Plan = std::function<void(std::span<const cudaStream_t>)>;

struct Variant {
  std::string name;  ///< named after its idea, as typed after --variant
  std::string idea;  ///< one line for --list
  /// Prepares launches on this memory (one Memory for each device): may allocate and wait. rows = 0 does
  /// nothing. What it asks the L2 to keep is forgotten before a timing.
  std::function<Plan(const Problem&, const Machine&, std::span<const Memory>)> prepare;
  /// Bytes that the kernels request from memory, and what a row costs a block: what the lesson's arithmetic
  /// says.
  std::function<Traffic(const Problem&)> traffic;
  /// Why the variant cannot do this problem on this machine; empty when it can. Not set: it does every problem.
  std::function<std::string(const Problem&, const Machine&)> unsupported = {};
  /// Not set: none needed.
  std::function<Workspace(const Problem&, const Machine&)> workspace = {};
  /// False for a variant whose plan waits for the device: it cannot go into a CUDA graph, and is timed by plain
  /// launches instead.
  bool capturable = true;
};

struct Stage {
  std::string name;  ///< the folder, e.g. "03_warp_reduce"
  std::string idea;
  std::vector<Variant> variants;
  std::vector<const Operation*> operations = softmax_operations();  ///< what --op accepts; the first is usual
};

/// Variant::unsupported, empty where it is not set.
std::string why_unsupported(const Variant& variant, const Problem& problem, const Machine& machine);

/// Variant::workspace, nothing where it is not set.
Workspace workspace_of(const Variant& variant, const Problem& problem, const Machine& machine);
