#include "common/harness/compare.cuh"
#include "common/harness/operation.h"
#include "common/harness/reference.cuh"
#include "common/harness/reference.h"

namespace {

std::vector<Tensor> x_alone(const Problem& problem) {
  return {{"x", problem.dtype, problem.shape}};
}

std::vector<Tensor> y_alone(const Problem& problem) {
  return {{"y", problem.dtype, problem.shape}};
}

void fill_x(const Problem& problem, InputKind kind, std::uint64_t seed, std::span<void* const> inputs,
            Space space) {
  fill_input(kind, seed, problem.dtype, problem.shape, inputs[0], space);
}

struct SoftmaxOf {
  __host__ __device__ double operator()(double x, ReferenceRow row) const { return row.softmax(x); }
};

struct LogSoftmaxOf {
  __host__ __device__ double operator()(double x, ReferenceRow row) const {
    return x - row.max - log(row.sum);
  }
};

template <class Function, class T>
struct Reference {
  const T* x;
  std::int64_t cols;
  const ReferenceRow* rows;
  __host__ __device__ Expected operator()(std::int64_t index) const {
    const double y = Function{}(as_double(x[index]), rows[index / cols]);
    return {y, fabs(y)};
  }
};

template <class Function>
std::vector<Verdict> verify_y(const Problem& problem, const Memory& memory, Space space, Tolerance allowed,
                              double tolerance_factor) {
  return dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    const T* x = static_cast<const T*>(memory.inputs[0]);
    const auto rows = reference_rows<Where>(x, problem.shape);
    const Reference<Function, T> reference{x, problem.shape.cols, rows.data()};
    const T* y = static_cast<const T*>(memory.outputs[0]);
    return std::vector<Verdict>{
        compare_elements<Where>(y, problem.shape, reference, allowed, tolerance_factor)};
  });
}

std::vector<Verdict> verify_softmax(const Problem& problem, const Memory& memory, Space space,
                                    double tolerance_factor) {
  return verify_y<SoftmaxOf>(problem, memory, space, tolerance(problem.dtype), tolerance_factor);
}

/// The error of log(sum) is absolute, and as large as the relative error of the sum.
std::vector<Verdict> verify_log_softmax(const Problem& problem, const Memory& memory, Space space,
                                        double tolerance_factor) {
  const Tolerance allowed{tolerance(DType::f32).relative, tolerance(problem.dtype).relative};
  return verify_y<LogSoftmaxOf>(problem, memory, space, allowed, tolerance_factor);
}

}  // namespace

ReferenceRow reference_row(const float* x, std::int64_t cols) {
  return reference_rows<OnHost>(x, {1, cols})[0];
}

const Operation softmax_operation{"softmax", x_alone, y_alone, fill_x, verify_softmax};
const Operation log_softmax_operation{"log_softmax", x_alone, y_alone, fill_x, verify_log_softmax};

const std::vector<const Operation*>& softmax_operations() {
  static const std::vector<const Operation*> all{&softmax_operation, &log_softmax_operation};
  return all;
}
