// A stage for tests: the backward of softmax, dx = y * (dy - sum of y * dy), as plain as can be. It shows
// that the harness carries an operation with other tensors and another reduction than softmax.
#include <thrust/tabulate.h>

#include "common/harness/cli/run_stage.h"
#include "common/harness/cuda_check.h"
#include "common/harness/launches.cuh"
#include "common/harness/reference.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/grid.cuh"

// ---- The kernel: one block a row, two passes over y and dy.
struct SoftmaxBackward {
  using State = float;  // the sum of y * dy
  static __device__ void add(State& state, float y, float dy) { state += y * dy; }
  static __device__ State merge(State a, State b) { return a + b; }
  static __device__ float finish(State state, float y, float dy) { return y * (dy - state); }
};

constexpr int block_size = 256;
enum class Lie { none, one_percent_off, changes_dy };

template <class Op, Lie lie, class T>
__global__ void __launch_bounds__(block_size) softmax_backward(const T* y, T* dy, T* dx, Shape shape) {
  __shared__ typename Op::State storage[32];
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t first = row * shape.cols;
    typename Op::State state{};
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
      Op::add(state, static_cast<float>(y[first + col]), static_cast<float>(dy[first + col]));
    }
    state = block_merge<Op>(state, storage);
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
      float value =
          Op::finish(state, static_cast<float>(y[first + col]), static_cast<float>(dy[first + col]));
      if (lie == Lie::one_percent_off) value *= 1.01f;
      if (lie == Lie::changes_dy) dy[first + col] = T{};
      dx[first + col] = static_cast<T>(value);
    }
  }
}

// ---- The operation: {y, dy} -> {dx}. y is the softmax of an input of the wanted kind, dy is normal.
std::vector<Tensor> y_and_dy(const Problem& problem) {
  return {{"y", problem.dtype, problem.shape}, {"dy", problem.dtype, problem.shape}};
}
std::vector<Tensor> dx_alone(const Problem& problem) {
  return {{"dx", problem.dtype, problem.shape}};
}

template <class T>
struct SoftmaxOf {
  const T* x;
  const ReferenceRow* rows;
  std::int64_t cols;
  __host__ __device__ T operator()(std::int64_t index) const {
    return static_cast<T>(static_cast<float>(rows[index / cols].softmax(as_double(x[index]))));
  }
};

void fill(const Problem& problem, InputKind kind, std::uint64_t seed, std::span<void* const> inputs,
          Space space) {
  fill_input(kind, seed, problem.dtype, problem.shape, inputs[0], space);
  fill_input(InputKind::normal, seed + 1, problem.dtype, problem.shape, inputs[1], space);
  dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    T* y = static_cast<T*>(inputs[0]);  // x so far
    const auto rows = reference_rows<Where>(y, problem.shape);
    thrust::tabulate(Where::policy(), y, y + problem.shape.elements(),
                     SoftmaxOf<T>{y, thrust::raw_pointer_cast(rows.data()), problem.shape.cols});
  });
}

/// The sums of y * dy and of its magnitudes, which tell how much of the digits may be lost.
template <class T>
struct RowSums {
  const T* y;
  const T* dy;
  std::int64_t cols;
  __host__ __device__ Expected operator()(std::int64_t row) const {
    Expected sums{};
    for (std::int64_t i = row * cols; i < (row + 1) * cols; ++i) {
      sums.value += as_double(y[i]) * as_double(dy[i]);
      sums.scale += fabs(as_double(y[i]) * as_double(dy[i]));
    }
    return sums;
  }
};

template <class T>
struct Reference {
  RowSums<T> of;
  const Expected* rows;
  __host__ __device__ Expected operator()(std::int64_t i) const {
    const Expected sums = rows[i / of.cols];
    const double y = as_double(of.y[i]);
    const double dy = as_double(of.dy[i]);
    return {y * (dy - sums.value), fabs(y) * (fabs(dy) + sums.scale)};
  }
};

std::vector<Verdict> verify(const Problem& problem, const Memory& memory, Space space,
                            double tolerance_factor) {
  return dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    const RowSums<T> of{static_cast<const T*>(memory.inputs[0]), static_cast<const T*>(memory.inputs[1]),
                        problem.shape.cols};
    const auto rows = make_vector<Where>(problem.shape.rows, of);
    const Reference<T> reference{of, thrust::raw_pointer_cast(rows.data())};
    return std::vector<Verdict>{compare_elements<Where>(static_cast<const T*>(memory.outputs[0]),
                                                        problem.shape, reference, tolerance(problem.dtype),
                                                        tolerance_factor)};
  });
}

const Operation softmax_backward_operation{"softmax_backward", y_and_dy, dx_alone, fill, verify};
const Operation* operation_of(SoftmaxBackward) {
  return &softmax_backward_operation;
}

template <Lie lie>
Plan prepare(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return dispatch(Operations<SoftmaxBackward>{}, problem, [&]<class Op, class T>() {
    const T* y = static_cast<const T*>(memory.inputs[0]);
    T* dy = static_cast<T*>(const_cast<void*>(memory.inputs[1]));
    T* dx = static_cast<T*>(memory.outputs[0]);
    return [=, shape = problem.shape](cudaStream_t stream) {
      if (shape.rows == 0) return;
      softmax_backward<Op, lie><<<grid_for(shape.rows), block_size, 0, stream>>>(y, dy, dx, shape);
      CUDA_CHECK(cudaGetLastError());
    };
  });
}

Stage stage() {
  const auto traffic = whole_passes(4, 1, {.barriers = 2, .bank_conflicts = {}});
  return {.name = "softmax_backward",
          .idea = "the backward of softmax, for tests",
          .variants = {{"naive", "one block a row", prepare<Lie::none>, traffic},
                       {"one_percent_off", "wrong on purpose", prepare<Lie::one_percent_off>, traffic},
                       {"changes_dy", "wrong on purpose", prepare<Lie::changes_dy>, traffic}},
          .operations = {&softmax_backward_operation}};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
