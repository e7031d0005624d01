// What the harness knows of an operation: its tensors, how to make inputs that belong together, and how to
// tell whether outputs are right. Kernels know it as a type (common/kernel/row_operation.cuh).
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
/// any element offset; and what a variant asked for besides, aligned to 256 bytes.
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
  /// Writes all inputs. On the device it returns when they are written.
  void (*fill)(const Problem&, InputKind, std::uint64_t seed, std::span<void* const> inputs, Space);
  /// Compares every element of every output with a double-precision reference: one verdict for each output.
  /// An element is wrong when its error exceeds `tolerance_factor` times what is allowed.
  std::vector<Verdict> (*verify)(const Problem&, const Memory&, Space, double tolerance_factor);
};

/// {x} -> {y}, as torch.softmax and torch.log_softmax over the last dimension.
extern const Operation softmax_operation;
extern const Operation log_softmax_operation;
/// Both, in the order in which they are listed to the user.
const std::vector<const Operation*>& softmax_operations();

/// {y, dy} -> {dx}: the gradient of what torch.softmax and torch.log_softmax make of x, from their result y. As
/// PyTorch's: dx = y (dy - sum of y dy), and dx = dy - exp(y) (sum of dy).
extern const Operation softmax_backward_operation;
extern const Operation log_softmax_backward_operation;
/// Both, likewise.
const std::vector<const Operation*>& backward_operations();

/// {x, pair, dy} -> {dx}: that of softmax, from x and the pair of each row, its maximum and the sum of exp(x - maximum), in place of
/// y. pair: f32, rows x 2.
extern const Operation recomputed_softmax_backward_operation;

/// {x, label} -> {loss}, and -> {loss, dx}: torch.nn.functional.cross_entropy with reduction="none", and its gradient.
/// loss, f32: log(sum of exp(x)) - x[label]; dx = softmax(x), less 1 at the label. labels are i64. A row with ignored_label
/// has loss and dx 0, whatever x is; one with another label that is no column has NaN in both, and nothing is read there.
extern const Operation cross_entropy_operation;
extern const Operation cross_entropy_gradient_operation;
/// The same for a target of 1 - label_smoothing at the label and label_smoothing spread evenly over all columns.
extern const Operation smoothed_cross_entropy_operation;
extern const Operation smoothed_cross_entropy_gradient_operation;
/// All four, likewise.
const std::vector<const Operation*>& cross_entropy_operations();

/// {x} -> {softmax, y}: attention's softmax over scores x, scaled by attention_scale and masked, and y, which is dropout of it.
/// Row r belongs to query r % cols, and sees columns 0 to r % cols.
extern const Operation causal_softmax_operation;
/// {x, length} -> {softmax, y}: the same where row r sees its first length[r] columns: what follows them is padding. i64.
extern const Operation padded_softmax_operation;
/// {softmax, dy} and {softmax, dy, length} -> {dx}: their gradients, from that of y.
///
/// What is masked is 0, in all outputs and whatever else the row holds, so a row that sees nothing is 0. What is dropped is 0,
/// too; what is kept is divided by the probability to be kept. It is not stored, but drawn from the problem's seed: of element
/// i word i % 8, of 16 bits, of Philox4x32-10 with key `seed` and counter i / 8; it is dropped where that is less than
/// dropped_of_65536.
extern const Operation causal_softmax_backward_operation;
extern const Operation padded_softmax_backward_operation;
/// Of what the harness fills in as length[row]: all, some, nothing.
__host__ __device__ constexpr std::int64_t length_of_row(std::int64_t row, std::int64_t cols) {
  const std::int64_t eighths = row % 8;
  return eighths == 2 ? 0 : eighths == 1 ? 1 : cols - cols * eighths / 8;
}
/// All four, likewise.
const std::vector<const Operation*>& masked_softmax_operations();

/// Of a matrix whose columns are split over problem.devices GPUs (column_split.h): each has the tensors of the operation in
/// turn, of those that are matrices its own columns, of the others (labels, losses) all.
extern const Operation split_softmax_operation;
extern const Operation split_log_softmax_operation;
extern const Operation split_cross_entropy_operation;
/// All three, likewise.
const std::vector<const Operation*>& split_operations();

inline std::string_view name(const Operation* op) {
  return op->name;
}
