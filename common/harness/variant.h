// Everything the harness knows about a kernel: its name, the problems that it cannot do, its traffic in
// passes over the data (the unit of the lessons), and how to launch it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/harness/device.h"
#include "common/harness/operation.h"
#include "common/harness/streams.h"
#include "common/kernel/limits.h"

/// The cost of one row for a block, as the lesson derives it; empty if the lesson derives none.
struct RowCosts {
  std::optional<double> barriers;        ///< barriers that the block goes through
  std::optional<double> bank_conflicts;  ///< wavefronts of shared memory beyond the least possible
};

/// Bytes requested from memory by all threads together. Each access counts once, whatever cache answers it;
/// lanes of a warp that request the same address in one instruction count as one.
struct Traffic {
  double bytes_read = 0;
  double bytes_written = 0;
  RowCosts row{};
};

/// Bytes requested / bytes of the matrix: for softmax 2 is the least possible, one read and one write of
/// every element. 0 for an empty problem.
double passes(const Traffic& traffic, const Problem& problem);

/// Traffic of a variant that reads the whole matrix `reads` times and writes it `writes` times.
std::function<Traffic(const Problem&)> whole_passes(double reads, double writes, RowCosts row = {});

/// Traffic of the ceiling: each input read once, each output written once.
Traffic least_traffic(const Problem& problem);

/// Bytes of all inputs and outputs / time, in GB/s (1e9): the "effective bandwidth" of the published tables. It
/// counts only the bytes that the operation needs, so a kernel that makes more passes shows a lower bandwidth.
double effective_bandwidth_gb_s(const Problem& problem, double microseconds);

/// Memory of its own that a variant needs.
struct Workspace {
  std::size_t bytes = 0;
  /// True: the memory is zero before the first launch, and each launch leaves it zero. False: it may hold
  /// anything.
  bool zeroed = false;
};

/// Enqueues one launch and nothing else: it can go into a CUDA graph. Checks every launch; throws CudaError.
/// On several GPUs it enqueues its part on each, and leaves the first one current. Its captures keep the
/// prepared objects alive.
using Plan = std::function<void(const Streams&)>;

struct Variant {
  std::string name;  ///< named after its idea, as typed after --variant
  std::string idea;  ///< one line for --list
  /// Prepares launches on this memory: may allocate and wait. rows = 0 does nothing. Preferences that it sets
  /// in the L2 are reset before a timing.
  std::function<Plan(const Problem&, const Device&, const Memory&)> prepare;
  /// Bytes that the kernels request from memory, and the cost of a row for a block, by the lesson's
  /// arithmetic.
  std::function<Traffic(const Problem&)> traffic;
  /// Why the variant cannot do this problem on this device; empty when it can.
  std::function<std::string(const Problem&, const Device&)> unsupported = [](const Problem&, const Device&) {
    return std::string();
  };
  std::function<Workspace(const Problem&, const Device&)> workspace = [](const Problem&, const Device&) {
    return Workspace{};
  };
  /// False for a variant whose plan waits for the device: it cannot go into a CUDA graph, and is timed by
  /// plain launches instead.
  bool capturable = true;
};

/// All matrices of the problem, which are aligned except for its offsets.
Matrix matrix_of(const Problem& problem);

/// A number of the table.
enum class Number { passes, load_sectors, bank_conflicts, time };

struct Stage {
  std::string name;  ///< the folder, e.g. "03_warp_reduce"
  std::string idea;
  Number changes = Number::passes;  ///< the number that the stage sets out to change
  std::vector<Variant> variants;
  std::vector<const Operation*> operations =
      softmax_operations();  ///< choices of --op; the first is the default
  bool on_all_gpus = false;  ///< its operations' tensors are on all GPUs, not only on the first
  /// An explanation of a failure that its kernels have left behind: added to the message that ends the run.
  std::function<std::string()> why_failed = [] { return std::string(); };
};
