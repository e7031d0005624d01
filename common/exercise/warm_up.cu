#include "common/exercise/warm_up.h"
#include "common/harness/compare.cuh"

namespace {

std::vector<Tensor> x_alone(const Problem& problem) {
  return {{"x", problem.dtype, problem.shape}};
}

std::vector<Tensor> y_alone(const Problem& problem) {
  return {{"y", problem.dtype, problem.shape}};
}

std::vector<Tensor> sums_alone(const Problem& problem) {
  return {{"sums", problem.dtype, {problem.shape.rows, 1}}};
}

void fill_x(const Problem& problem, InputKind kind, std::uint64_t seed, std::span<void* const> inputs,
            Space space) {
  fill_input(kind, seed, problem.dtype, problem.shape, inputs[0], space);
}

struct CopyReference {
  const float* x;
  __host__ __device__ Expected operator()(std::int64_t index) const { return {x[index], 0}; }
};

/// Relative to the sum of absolute values: the order in which floats are added is the learner's choice.
struct RowSumReference {
  const float* x;
  std::int64_t cols;
  __host__ __device__ Expected operator()(std::int64_t row) const {
    Expected sum{0, 0};
    for (std::int64_t col = 0; col < cols; ++col) {
      const double value = x[row * cols + col];
      sum.value += value;
      sum.scale += fabs(value);
    }
    return sum;
  }
};

template <class Reference>
std::vector<Verdict> verify_floats(Shape shape, const Memory& memory, Space space, const Reference& reference,
                                   double tolerance_factor) {
  return dispatch_space(space, [&]<class Where>() {
    const auto* y = static_cast<const float*>(memory.outputs[0]);
    return std::vector<Verdict>{
        compare_elements<Where>(y, shape, reference, tolerance(DType::f32), tolerance_factor)};
  });
}

std::vector<Verdict> verify_copy(const Problem& problem, const Memory& memory, Space space,
                                 double tolerance_factor) {
  const CopyReference reference{static_cast<const float*>(memory.inputs[0])};
  return verify_floats(problem.shape, memory, space, reference, tolerance_factor);
}

std::vector<Verdict> verify_row_sums(const Problem& problem, const Memory& memory, Space space,
                                     double tolerance_factor) {
  const RowSumReference reference{static_cast<const float*>(memory.inputs[0]), problem.shape.cols};
  return verify_floats({problem.shape.rows, 1}, memory, space, reference, tolerance_factor);
}

}  // namespace

const Operation copy_operation{"copy", x_alone, y_alone, fill_x, verify_copy};
const Operation row_sums_operation{"row_sums", x_alone, sums_alone, fill_x, verify_row_sums};
