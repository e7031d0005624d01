// What a variant says it does: the traffic model, in the unit of the lessons, passes over the data; and what
// a row costs a block beside it.
#pragma once

#include <functional>
#include <optional>

#include "common/harness/problem.h"

/// What one row costs a block, as the lesson derives it; nothing where it derives none.
struct RowCosts {
  std::optional<double> barriers;        ///< times that the block passes a barrier
  std::optional<double> bank_conflicts;  ///< wavefronts of shared memory beyond the least possible
};

/// Bytes requested from memory by all threads together. Each access counts once, whatever cache answers it;
/// lanes of a warp that ask for the same address in one instruction count as one.
struct Traffic {
  double bytes_read = 0;
  double bytes_written = 0;
  RowCosts row{};
};

/// Bytes requested / bytes of the matrix: for softmax 2 is the least possible, one read and one write of
/// every element. 0 for an empty problem.
double passes(const Traffic& traffic, const Problem& problem);

/// The passes of the ceiling: each input read once, each output written once.
double least_passes(const Problem& problem);

/// Bytes of all inputs and outputs / time, in GB/s (1e9): the "effective bandwidth" of the published tables.
/// It counts only what the operation needs, so a kernel that makes more passes shows less.
double effective_bandwidth_gb_s(const Problem& problem, double microseconds);

/// Traffic of a variant that reads the whole matrix `reads` times and writes it `writes` times.
std::function<Traffic(const Problem&)> whole_passes(double reads, double writes, RowCosts row = {});
