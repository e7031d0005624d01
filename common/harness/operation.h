// What the harness knows of an operation: its tensors, how to make inputs that belong together, and how to
// tell whether outputs are right. Kernels know it as a type (common/kernel/row_operation.cuh).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/harness/input.h"
#include "common/harness/problem.h"
#include "common/harness/verify.h"

/// Pointers to the tensors of one problem, in the order in which the operation lists them; all in `space`.
struct Tensors {
  std::span<void* const> inputs;
  std::span<void* const> outputs;
  Space space = Space::device;
};

struct Operation {
  const char* name;  ///< as typed after --op
  std::vector<Tensor> (*inputs)(const Problem&);
  std::vector<Tensor> (*outputs)(const Problem&);
  /// Writes all inputs. On the device it returns when they are written.
  void (*fill)(const Problem&, InputKind, std::uint64_t seed, const Tensors&);
  /// Compares every element of every output with a double-precision reference: one verdict for each output.
  /// An element is wrong when its error exceeds `tolerance_factor` times what is allowed.
  std::vector<Verdict> (*verify)(const Problem&, const Tensors&, double tolerance_factor);
};

/// {x} -> {y}, as torch.softmax and torch.log_softmax over the last dimension.
extern const Operation softmax_operation;
extern const Operation log_softmax_operation;
/// Both, in the order in which they are listed to the user.
const std::vector<const Operation*>& softmax_operations();

inline const char* name(const Operation* op) {
  return op ? op->name : "";
}
