// The loss of each row against its label, alone and with the gradient, as torch.nn.functional.cross_entropy with
// reduction="none".
#include "common/harness/compare.cuh"
#include "common/harness/input_element.cuh"
#include "common/harness/operation.h"
#include "common/harness/reference.cuh"

namespace {

std::vector<Tensor> x_and_label(const Problem& problem) {
  return {{"x", problem.dtype, problem.shape}, {"label", DType::i64, {problem.shape.rows, 1}}};
}

Tensor loss_of(const Problem& problem) {
  return {"loss", DType::f32, {problem.shape.rows, 1}};
}
std::vector<Tensor> loss_alone(const Problem& problem) {
  return {loss_of(problem)};
}
std::vector<Tensor> loss_and_dx(const Problem& problem) {
  return {loss_of(problem), {"dx", problem.dtype, problem.shape}};
}

/// The labels of eight rows are the first column, none (ignored), the last column, the column that the kind
/// of input has chosen, and any columns. The ignored rows include rows whose values make everything NaN.
/// Instead of the first two, neg_inf_prefix has the labels next to the columns, which are out of range: no
/// value of it makes the rows next to them NaN.
struct LabelOfRow {
  std::uint64_t seed;
  std::int64_t cols;
  bool has_labels_out_of_range;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const {
    switch (row % 8) {
      case 1:
        return has_labels_out_of_range ? -1 : 0;
      case 2:
        return has_labels_out_of_range ? cols : ignored_label;
      case 3:
        return cols - 1;
      case 4:
        return chosen_col(seed, row, cols);
      default:
        return chosen_col(seed + 1, row, cols);
    }
  }
};

void fill_x_and_label(const Problem& problem, InputKind kind, std::uint64_t seed,
                      std::span<void* const> inputs, Space space) {
  fill_input(kind, seed, problem.dtype, problem.shape, inputs[0], space);
  dispatch_space(space, [&]<class Where>() {
    auto* label = static_cast<std::int64_t*>(inputs[1]);
    Where::tabulate(label, problem.shape.rows,
                    LabelOfRow{seed, problem.shape.cols, kind == InputKind::neg_inf_prefix});
  });
}

/// The reference's data on a row. A label that is out of range is never used as an index; it makes everything
/// NaN.
struct LossRow {
  ReferenceRow pair;
  ReferenceSum of_x;  ///< if labels are smoothed
  double x_label = NAN;
  std::int64_t label = ignored_label;
};

template <class T>
struct MakeLossRow {
  const T* x;
  const std::int64_t* label;
  const ReferenceRow* pairs;
  const ReferenceSum* sums;  ///< nullptr: labels are not smoothed
  std::int64_t cols;
  __host__ __device__ LossRow operator()(std::int64_t row) const {
    LossRow made{pairs[row], sums == nullptr ? ReferenceSum{} : sums[row]};
    made.label = label[row];
    if (0 <= made.label && made.label < cols) made.x_label = as_double(x[row * cols + made.label]);
    return made;
  }
};

struct ReferenceLoss {
  const LossRow* rows;
  std::int64_t cols;
  double smoothing;
  /// The error of the logarithm is absolute, that of the mean relative to the elements.
  __host__ __device__ Expected operator()(std::int64_t index) const {
    const LossRow& row = rows[index];
    if (row.label == ignored_label) return {0, 0};
    const double over_label = row.pair.max - row.x_label;
    const auto count = static_cast<double>(cols);
    double loss = log(row.pair.sum);
    double scale = 1 + fabs(over_label);
    if (smoothing > 0) {
      loss += (1 - smoothing) * over_label + smoothing * (row.pair.max - row.of_x.sum / count);
      scale += fabs(loss);
    } else {
      loss += over_label;
    }
    return {loss, scale};
  }
};

template <class T>
struct ReferenceGradient {
  const T* x;
  const LossRow* rows;
  std::int64_t cols;
  double smoothing;
  __host__ __device__ Expected operator()(std::int64_t index) const {
    const LossRow& row = rows[index / cols];
    if (row.label == ignored_label) return {0, 0};
    if (row.label < 0 || row.label >= cols) return {NAN, 0};
    const double at_label = index % cols == row.label ? 1 - smoothing : 0;
    const double wanted = at_label + smoothing / static_cast<double>(cols);
    const double y = row.pair.softmax(as_double(x[index]));
    return {y - wanted, y + wanted};
  }
};

template <bool smoothed>
std::vector<Verdict> verify_loss(const Problem& problem, const Memory& memory, Space space,
                                 double tolerance_factor) {
  constexpr double smoothing = smoothed ? label_smoothing : 0;
  return dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    const auto [num_rows, cols] = problem.shape;
    const T* x = static_cast<const T*>(memory.inputs[0]);
    const auto* label = static_cast<const std::int64_t*>(memory.inputs[1]);
    const auto pairs = reference_rows<Where>(x, problem.shape);
    const auto sums = reference_sums<Where>(smoothed ? problem.shape : Shape{0, 1}, ElementOf<T>{x});
    const auto rows = make_vector<Where>(
        num_rows, MakeLossRow<T>{x, label, pairs.data(), smoothed ? sums.data() : nullptr, cols});
    const LossRow* row = rows.data();
    std::vector<Verdict> verdicts{compare_elements<Where>(static_cast<const float*>(memory.outputs[0]),
                                                          {num_rows, 1}, ReferenceLoss{row, cols, smoothing},
                                                          tolerance(DType::f32), tolerance_factor)};
    if (memory.outputs.size() > 1) {
      verdicts.push_back(compare_elements<Where>(static_cast<const T*>(memory.outputs[1]), problem.shape,
                                                 ReferenceGradient<T>{x, row, cols, smoothing},
                                                 tolerance(problem.dtype), tolerance_factor));
    }
    return verdicts;
  });
}

}  // namespace

const Operation cross_entropy_operation{"cross_entropy", x_and_label, loss_alone, fill_x_and_label,
                                        verify_loss<false>};
const Operation smoothed_cross_entropy_operation{"smoothed_cross_entropy", x_and_label, loss_alone,
                                                 fill_x_and_label, verify_loss<true>};
const Operation cross_entropy_gradient_operation{"cross_entropy_gradient", x_and_label, loss_and_dx,
                                                 fill_x_and_label, verify_loss<false>};
const Operation smoothed_cross_entropy_gradient_operation{"smoothed_cross_entropy_gradient", x_and_label,
                                                          loss_and_dx, fill_x_and_label, verify_loss<true>};

const std::vector<const Operation*>& cross_entropy_operations() {
  static const std::vector<const Operation*> all{&cross_entropy_operation, &cross_entropy_gradient_operation,
                                                 &smoothed_cross_entropy_operation,
                                                 &smoothed_cross_entropy_gradient_operation};
  return all;
}
