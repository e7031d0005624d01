// An operation as the harness sees it: its tensors, how to make inputs that belong together, and how to check
// the outputs. Kernels know it as a type (common/kernel/row_operation.cuh).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/harness/input.h"
#include "common/harness/problem.h"
#include "common/harness/verify.h"
#include "common/kernel/constants.h"

/// The memory of one problem: a pointer to each tensor, in the order in which the operation lists them, at
/// any element offset; and the workspace that a variant needs, aligned to 256 bytes.
struct Memory {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;        ///< of the first device
  std::vector<void*> workspaces{};  ///< of each device
};

struct Operation {
  std::string_view
      name;  ///< as typed after --op; each library of a stage may have an object of its own for it
  std::vector<Tensor> (*inputs)(const Problem&);
  std::vector<Tensor> (*outputs)(const Problem&);
  /// Writes all inputs, and returns when they are written, also on the device.
  void (*fill)(const Problem&, InputKind, std::uint64_t seed, std::span<void* const> inputs, Space);
  /// Compares every element of every output with a double-precision reference: one verdict for each output.
  /// An element is wrong if its error exceeds `tolerance_factor` times the allowed error.
  std::vector<Verdict> (*verify)(const Problem&, const Memory&, Space, double tolerance_factor);
};

/// {x} -> {y}, as torch.softmax and torch.log_softmax over the last dimension.
extern const Operation softmax_operation;
extern const Operation log_softmax_operation;
/// Both operations, in the order in which they are listed to the user.
const std::vector<const Operation*>& softmax_operations();

/// {y, dy} -> {dx}: the gradients of torch.softmax and torch.log_softmax, from their result y. As in PyTorch,
/// dx = y (dy - sum of y dy), and dx = dy - exp(y) (sum of dy).
extern const Operation softmax_backward_operation;
extern const Operation log_softmax_backward_operation;
/// Both operations, in the order in which they are listed to the user.
const std::vector<const Operation*>& backward_operations();

/// {x, pair, dy} -> {dx}: the gradient of softmax, from x and each row's pair (its maximum and the sum of
/// exp(x - maximum)) in place of y. pair: f32, rows x 2.
extern const Operation recomputed_softmax_backward_operation;

/// {x, label} -> {loss}, and -> {loss, dx}: torch.nn.functional.cross_entropy with reduction="none", and its
/// gradient. loss, f32: log(sum of exp(x)) - x[label]; dx = softmax(x), minus 1 at the label. Labels are i64.
/// A row with ignored_label has loss and dx 0, whatever x is; a row whose label is out of range for any other
/// reason gets NaN in both, and nothing is read there.
extern const Operation cross_entropy_operation;
extern const Operation cross_entropy_gradient_operation;
/// Cross-entropy with a target of 1 - label_smoothing at the label and label_smoothing spread evenly over all
/// columns.
extern const Operation smoothed_cross_entropy_operation;
extern const Operation smoothed_cross_entropy_gradient_operation;
/// All four operations, in the order in which they are listed to the user.
const std::vector<const Operation*>& cross_entropy_operations();

/// {x} -> {softmax, y}: attention's softmax over scores x, scaled by attention_scale and masked; y is the
/// softmax after dropout. Row r belongs to query r % cols, and sees columns 0 to r % cols.
extern const Operation causal_softmax_operation;
/// {x, length} -> {softmax, y}: row r sees its first length[r] columns; the columns after them are padding. length: i64.
extern const Operation padded_softmax_operation;
/// {softmax, dy} and {softmax, dy, length} -> {dx}: their gradients, from the gradient dy of y.
///
/// Masked elements are 0 in all outputs, whatever else the row holds, so a row that sees nothing is 0. Dropped
/// elements are 0 as well; kept elements are divided by the probability of being kept. The dropout mask is not
/// stored, but drawn from the problem's seed: element i uses the 16-bit word i % 8 of Philox4x32-10 with key
/// `seed` and counter i / 8, and is dropped if that word is less than dropped_of_65536.
extern const Operation causal_softmax_backward_operation;
extern const Operation padded_softmax_backward_operation;
/// The length[row] that the harness fills in: all columns, some of them, or none.
__host__ __device__ constexpr std::int64_t length_of_row(std::int64_t row, std::int64_t cols) {
  const std::int64_t eighths = row % 8;
  return eighths == 2 ? 0 : eighths == 1 ? 1 : cols - cols * eighths / 8;
}
/// All four operations, in the order in which they are listed to the user.
const std::vector<const Operation*>& masked_softmax_operations();

/// Operations on a matrix whose columns are split over problem.devices GPUs (column_split.h). The tensors of each GPU follow
/// those of the GPU before: of matrices it has its own columns; of other tensors (labels, losses) it has all elements.
extern const Operation split_softmax_operation;
extern const Operation split_log_softmax_operation;
extern const Operation split_cross_entropy_operation;
/// All three operations, in the order in which they are listed to the user.
const std::vector<const Operation*>& split_operations();

inline std::string_view name(const Operation* op) {
  return op->name;
}
