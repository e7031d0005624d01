// The gradients of softmax and log-softmax: from the result y of the forward operation and the gradient dy of what
// followed it to the gradient dx.
#include "common/harness/compare.cuh"
#include "common/harness/operation.h"
#include "common/harness/reference.cuh"

namespace {

std::vector<Tensor> y_and_dy(const Problem& problem) {
  return {{"y", problem.dtype, problem.shape}, {"dy", problem.dtype, problem.shape}};
}

std::vector<Tensor> dx_alone(const Problem& problem) {
  return {{"dx", problem.dtype, problem.shape}};
}

/// What the two operations do to a row, in double precision.
struct SoftmaxBackwardOf {
  static __host__ __device__ double forward(double x, ReferenceRow row) { return row.softmax(x); }
  static __host__ __device__ double summand(double y, double dy) { return y * dy; }
  static __host__ __device__ double dx(double y, double dy, double sum) { return y * (dy - sum); }
  /// What dx is the difference of, taken together: the tolerance is relative to it.
  static __host__ __device__ double scale(double y, double dy, double magnitudes) {
    return fabs(y) * (fabs(dy) + magnitudes);
  }
};

struct LogSoftmaxBackwardOf {
  static __host__ __device__ double forward(double x, ReferenceRow row) { return x - row.max - log(row.sum); }
  static __host__ __device__ double summand(double /*y*/, double dy) { return dy; }
  static __host__ __device__ double dx(double y, double dy, double sum) { return dy - exp(y) * sum; }
  static __host__ __device__ double scale(double y, double dy, double magnitudes) {
    return fabs(dy) + exp(y) * magnitudes;
  }
};

template <class Of, class T>
struct Forward {
  const T* x;
  const ReferenceRow* rows;
  std::int64_t cols;
  __host__ __device__ T operator()(std::int64_t index) const {
    return static_cast<T>(static_cast<float>(Of::forward(as_double(x[index]), rows[index / cols])));
  }
};

/// y is the result for an input x of the wanted kind, rounded to the dtype; dy is normal.
template <class Of>
void fill_y_and_dy(const Problem& problem, InputKind kind, std::uint64_t seed, std::span<void* const> inputs,
                   Space space) {
  fill_input(kind, seed, problem.dtype, problem.shape, inputs[0], space);
  fill_input(InputKind::normal, seed + 1, problem.dtype, problem.shape, inputs[1], space);
  dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    T* y = static_cast<T*>(inputs[0]);  // x so far
    const auto rows = reference_rows<Where>(y, problem.shape);
    Where::tabulate(y, problem.shape.elements(), Forward<Of, T>{y, rows.data(), problem.shape.cols});
  });
}

template <class Of, class T>
struct Summand {
  const T* y;
  const T* dy;
  __host__ __device__ double operator()(std::int64_t index) const {
    return Of::summand(as_double(y[index]), as_double(dy[index]));
  }
};

template <class Of, class T>
struct Reference {
  const T* y;
  const T* dy;
  std::int64_t cols;
  const ReferenceSum* rows;
  __host__ __device__ Expected operator()(std::int64_t i) const {
    const ReferenceSum row = rows[i / cols];
    const double of_y = as_double(y[i]);
    const double of_dy = as_double(dy[i]);
    return {Of::dx(of_y, of_dy, row.sum), Of::scale(of_y, of_dy, row.magnitudes)};
  }
};

/// y and dy are what they are, rounded: dx is held against the exact result for these.
template <class Of>
std::vector<Verdict> verify_dx(const Problem& problem, const Memory& memory, Space space,
                               double tolerance_factor) {
  return dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    const T* y = static_cast<const T*>(memory.inputs[0]);
    const T* dy = static_cast<const T*>(memory.inputs[1]);
    const auto sums = reference_sums<Where>(problem.shape, Summand<Of, T>{y, dy});
    const Reference<Of, T> reference{y, dy, problem.shape.cols, sums.data()};
    return std::vector<Verdict>{compare_elements<Where>(static_cast<const T*>(memory.outputs[0]),
                                                        problem.shape, reference, tolerance(problem.dtype),
                                                        tolerance_factor)};
  });
}

template <class Of>
constexpr Operation backward(std::string_view name) {
  return {name, y_and_dy, dx_alone, fill_y_and_dy<Of>, verify_dx<Of>};
}

}  // namespace

const Operation softmax_backward_operation = backward<SoftmaxBackwardOf>("softmax_backward");
const Operation log_softmax_backward_operation = backward<LogSoftmaxBackwardOf>("log_softmax_backward");

const std::vector<const Operation*>& backward_operations() {
  static const std::vector<const Operation*> all{&softmax_backward_operation,
                                                 &log_softmax_backward_operation};
  return all;
}
