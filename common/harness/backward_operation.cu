// The gradients of softmax and log-softmax: from the forward result y (or the values to recompute y from) and
// the gradient dy of y to the gradient dx.
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

/// The two operations on a row, in double precision.
struct SoftmaxBackwardOf {
  static __host__ __device__ double forward(double x, ReferenceRow row) { return row.softmax(x); }
  static __host__ __device__ double summand(double y, double dy) { return y * dy; }
  static __host__ __device__ double dx(double y, double dy, double sum) { return y * (dy - sum); }
  /// The magnitudes of the two terms whose difference is dx: the tolerance is relative to their sum.
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

/// The recomputed y is a float in between, and 0 if it would be below the smallest normal float: that error
/// is added to its scale (2^-110, of which even 2e-5 is more than 2^-126).
struct RecomputedBackwardOf : SoftmaxBackwardOf {
  static __host__ __device__ double scale(double y, double dy, double magnitudes) {
    return SoftmaxBackwardOf::scale(fabs(y) + 0x1p-110, dy, magnitudes);
  }
};

/// y, of x and the pair (m, d) of each row.
template <class T>
struct MadeAgain {
  const T* x;
  const float* pairs;
  std::int64_t cols;
  __host__ __device__ double operator()(std::int64_t index) const {
    const float* pair = pairs + 2 * (index / cols);
    return ReferenceRow{pair[0], pair[1]}.softmax(as_double(x[index]));
  }
};

template <class Of, class Y, class T>
struct Summand {
  Y y;
  const T* dy;
  __host__ __device__ double operator()(std::int64_t index) const {
    return Of::summand(y(index), as_double(dy[index]));
  }
};

template <class Of, class Y, class T>
struct Reference {
  Y y;
  const T* dy;
  std::int64_t cols;
  const ReferenceSum* rows;
  __host__ __device__ Expected operator()(std::int64_t i) const {
    const ReferenceSum row = rows[i / cols];
    const double of_y = y(i);
    const double of_dy = as_double(dy[i]);
    return {Of::dx(of_y, of_dy, row.sum), Of::scale(of_y, of_dy, row.magnitudes)};
  }
};

/// dx is compared with the exact result for the inputs as stored, after rounding. y(index) -> double.
template <class Of, class Where, class Y, class T>
std::vector<Verdict> verify_dx_of(const Problem& problem, Y y, const T* dy, const T* dx,
                                  double tolerance_factor) {
  const auto sums = reference_sums<Where>(problem.shape, Summand<Of, Y, T>{y, dy});
  const Reference<Of, Y, T> reference{y, dy, problem.shape.cols, sums.data()};
  return {compare_elements<Where>(dx, problem.shape, reference, tolerance(problem.dtype), tolerance_factor)};
}

template <class Of>
std::vector<Verdict> verify_dx(const Problem& problem, const Memory& memory, Space space,
                               double tolerance_factor) {
  return dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    const ElementOf<T> y{static_cast<const T*>(memory.inputs[0])};
    return verify_dx_of<Of, Where>(problem, y, static_cast<const T*>(memory.inputs[1]),
                                   static_cast<const T*>(memory.outputs[0]), tolerance_factor);
  });
}

// ---- The same from x and the pair of each row.

std::vector<Tensor> x_pair_and_dy(const Problem& problem) {
  return {{"x", problem.dtype, problem.shape},
          {"pair", DType::f32, {problem.shape.rows, 2}},
          {"dy", problem.dtype, problem.shape}};
}

struct NumberOfPair {
  const ReferenceRow* rows;
  __host__ __device__ float operator()(std::int64_t index) const {
    const ReferenceRow& row = rows[index / 2];
    return static_cast<float>(index % 2 == 0 ? row.max : row.sum);
  }
};

void fill_x_pair_and_dy(const Problem& problem, InputKind kind, std::uint64_t seed,
                        std::span<void* const> inputs, Space space) {
  fill_input(kind, seed, problem.dtype, problem.shape, inputs[0], space);
  fill_input(InputKind::normal, seed + 1, problem.dtype, problem.shape, inputs[2], space);
  dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    const auto rows = reference_rows<Where>(static_cast<const T*>(inputs[0]), problem.shape);
    Where::tabulate(static_cast<float*>(inputs[1]), 2 * problem.shape.rows, NumberOfPair{rows.data()});
  });
}

std::vector<Verdict> verify_recomputed_dx(const Problem& problem, const Memory& memory, Space space,
                                          double tolerance_factor) {
  return dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    const MadeAgain<T> y{static_cast<const T*>(memory.inputs[0]), static_cast<const float*>(memory.inputs[1]),
                         problem.shape.cols};
    return verify_dx_of<RecomputedBackwardOf, Where>(problem, y, static_cast<const T*>(memory.inputs[2]),
                                                     static_cast<const T*>(memory.outputs[0]),
                                                     tolerance_factor);
  });
}

template <class Of>
constexpr Operation backward(std::string_view name) {
  return {name, y_and_dy, dx_alone, fill_y_and_dy<Of>, verify_dx<Of>};
}

}  // namespace

const Operation softmax_backward_operation = backward<SoftmaxBackwardOf>("softmax_backward");
const Operation log_softmax_backward_operation = backward<LogSoftmaxBackwardOf>("log_softmax_backward");
const Operation recomputed_softmax_backward_operation{"recomputed_softmax_backward", x_pair_and_dy, dx_alone,
                                                      fill_x_pair_and_dy, verify_recomputed_dx};

const std::vector<const Operation*>& backward_operations() {
  static const std::vector<const Operation*> all{&softmax_backward_operation,
                                                 &log_softmax_backward_operation};
  return all;
}
