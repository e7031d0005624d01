// A stage for tests: gradients that are wrong on purpose, and one that is right. The checks of the
// harness for these operations must find every wrong one.
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/row_gradient.cuh"

constexpr int block_size = 256;
enum class Lie {
  none,
  one_percent_off,
  forgets_the_sum,
  sum_of_the_row_before,
  sum_without_the_last_column,
  changes_dy
};

template <class Op, Lie lie, class T>
__global__ void __launch_bounds__(block_size) naive_gradient(const T* y, T* dy, T* dx, Shape shape) {
  __shared__ typename Op::State storage[32];
  typename Op::State before{};
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t first = row * shape.cols;
    const std::int64_t summed = lie == Lie::sum_without_the_last_column ? shape.cols - 1 : shape.cols;
    typename Op::State sum{};
    for (std::int64_t col = threadIdx.x; col < summed; col += block_size) {
      add_packs<Op>(sum, load_pack<1>(y + first + col), load_pack<1>(dy + first + col));
    }
    sum = block_merge<Op>(sum, storage);
    const float own = sum;
    if (lie == Lie::forgets_the_sum) sum = 0;
    if (lie == Lie::sum_of_the_row_before) sum = before;
    before = own;
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
      const auto of_y = static_cast<float>(y[first + col]);
      const auto of_dy = static_cast<float>(dy[first + col]);
      float value = Op::finish(sum, of_y, of_dy);
      if (lie == Lie::one_percent_off) value *= 1.01f;
      if (lie == Lie::changes_dy) dy[first + col] = T{};
      dx[first + col] = static_cast<T>(value);
    }
  }
}

template <Lie lie>
Plan prepare(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return dispatch(OpList<SoftmaxBackward, LogSoftmaxBackward>{}, problem, [&]<class Op, class T>() {
    const T* y = static_cast<const T*>(memory.inputs[0]);
    T* dy = static_cast<T*>(const_cast<void*>(memory.inputs[1]));
    T* dx = static_cast<T*>(memory.outputs[0]);
    return [=, shape = problem.shape](cudaStream_t stream) {
      if (shape.rows == 0) return;
      naive_gradient<Op, lie><<<1, block_size, 0, stream>>>(y, dy, dx, shape);
      CUDA_CHECK(cudaGetLastError());
    };
  });
}

template <Lie lie>
Variant wrong(std::string name) {
  return {std::move(name), "wrong on purpose", prepare<lie>, whole_passes(4, 1)};
}

Stage stage() {
  return {.name = "softmax_backward",
          .idea = "gradients for tests",
          .variants = {{"naive", "one block for all rows", prepare<Lie::none>, whole_passes(4, 1)},
                       wrong<Lie::one_percent_off>("one_percent_off"),
                       wrong<Lie::forgets_the_sum>("forgets_the_sum"),
                       wrong<Lie::sum_of_the_row_before>("sum_of_the_row_before"),
                       wrong<Lie::sum_without_the_last_column>("sum_without_the_last_column"),
                       wrong<Lie::changes_dy>("changes_dy")},
          .operations = backward_operations()};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
