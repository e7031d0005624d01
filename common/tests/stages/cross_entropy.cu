// A stage for tests: cross-entropy, the loss of each row and its gradient, as plain as can be. It shows that
// the harness carries an operation with two outputs, of different shapes and types, and an input of labels.
#include "common/harness/cli/run_stage.h"
#include "common/harness/cuda_check.h"
#include "common/harness/launches.cuh"
#include "common/harness/reference.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/grid.cuh"

// ---- The kernel: one block a row; loss = log(sum of exp(x - max)) + max - x[label], dx = softmax(x), less 1
// at the label.
struct CrossEntropy : ReducesToMaxSum {};

constexpr int block_size = 256;
enum class Lie {
  none,
  loss_of_the_row_before,
  no_gradient_at_the_label,
  never_writes_the_loss,
  changes_a_label,
  writes_past_the_end
};

template <class Op, Lie lie, class T>
__global__ void __launch_bounds__(block_size)
    cross_entropy(const T* x, std::int64_t* label, float* loss, T* dx, Shape shape) {
  __shared__ typename Op::State storage[32];
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const T* row_x = x + row * shape.cols;
    typename Op::State state{};
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
      const float value[1] = {static_cast<float>(row_x[col])};
      Op::add(state, value);
    }
    state = block_merge<Op>(state, storage);
    const std::int64_t row_label = label[row];
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
      const float value = static_cast<float>(row_x[col]);
      const float subtracted = col == row_label && lie != Lie::no_gradient_at_the_label ? 1.0f : 0.0f;
      dx[row * shape.cols + col] = static_cast<T>(__expf(value - state.max) / state.sum - subtracted);
      if (col != row_label || lie == Lie::never_writes_the_loss) continue;
      loss[lie == Lie::loss_of_the_row_before ? (row + 1) % shape.rows : row] =
          logf(state.sum) + (state.max - value);
    }
  }
  if (lie == Lie::changes_a_label) __syncthreads();  // the others have read it
  if (blockIdx.x > 0 || threadIdx.x > 0) return;
  if (lie == Lie::changes_a_label) label[0] = 0;
  if (lie == Lie::writes_past_the_end) dx[shape.rows * shape.cols] = T{};
}

// ---- The operation: {x, label} -> {loss, dx}.
std::vector<Tensor> x_and_label(const Problem& problem) {
  return {{"x", problem.dtype, problem.shape}, {"label", DType::i64, {problem.shape.rows, 1}}};
}
std::vector<Tensor> loss_and_dx(const Problem& problem) {
  return {{"loss", DType::f32, {problem.shape.rows, 1}}, {"dx", problem.dtype, problem.shape}};
}

struct Label {
  std::int64_t cols;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const { return (row * 7919 + 1) % cols; }
};

void fill(const Problem& problem, InputKind kind, std::uint64_t seed, std::span<void* const> inputs,
          Space space) {
  fill_input(kind, seed, problem.dtype, problem.shape, inputs[0], space);
  dispatch_space(space, [&]<class Where>() {
    auto* label = static_cast<std::int64_t*>(inputs[1]);
    Where::tabulate(label, problem.shape.rows, Label{problem.shape.cols});
  });
}

template <class T>
struct Row {
  const T* x;
  const std::int64_t* label;
  const ReferenceRow* rows;
  std::int64_t cols;
};

/// Its error is that of the logarithm of the sum: absolute where the loss is small.
template <class T>
struct ReferenceLoss : Row<T> {
  __host__ __device__ Expected operator()(std::int64_t row) const {
    const ReferenceRow pair = this->rows[row];
    const double loss = log(pair.sum) + (pair.max - as_double(this->x[row * this->cols + this->label[row]]));
    return {loss, fabs(loss) + 1};
  }
};

template <class T>
struct ReferenceGradient : Row<T> {
  __host__ __device__ Expected operator()(std::int64_t index) const {
    const std::int64_t row = index / this->cols;
    const double subtracted = index % this->cols == this->label[row] ? 1 : 0;
    const double y = this->rows[row].softmax(as_double(this->x[index]));
    return {y - subtracted, y + subtracted};
  }
};

std::vector<Verdict> verify(const Problem& problem, const Memory& memory, Space space,
                            double tolerance_factor) {
  return dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    const T* x = static_cast<const T*>(memory.inputs[0]);
    const auto rows = reference_rows<Where>(x, problem.shape);
    const Row<T> row{x, static_cast<const std::int64_t*>(memory.inputs[1]), rows.data(), problem.shape.cols};
    return std::vector<Verdict>{
        compare_elements<Where>(static_cast<const float*>(memory.outputs[0]), {problem.shape.rows, 1},
                                ReferenceLoss<T>{row}, tolerance(DType::f32), tolerance_factor),
        compare_elements<Where>(static_cast<const T*>(memory.outputs[1]), problem.shape,
                                ReferenceGradient<T>{row}, tolerance(problem.dtype), tolerance_factor)};
  });
}

const Operation cross_entropy_operation{"cross_entropy", x_and_label, loss_and_dx, fill, verify};
const Operation* operation_of(CrossEntropy) {
  return &cross_entropy_operation;
}

template <Lie lie>
Plan prepare(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return dispatch(Operations<CrossEntropy>{}, problem, [&]<class Op, class T>() {
    const T* x = static_cast<const T*>(memory.inputs[0]);
    auto* label = static_cast<std::int64_t*>(const_cast<void*>(memory.inputs[1]));
    auto* loss = static_cast<float*>(memory.outputs[0]);
    T* dx = static_cast<T*>(memory.outputs[1]);
    return [=, shape = problem.shape](cudaStream_t stream) {
      if (shape.rows == 0) return;
      cross_entropy<Op, lie><<<grid_for(shape.rows), block_size, 0, stream>>>(x, label, loss, dx, shape);
      CUDA_CHECK(cudaGetLastError());
    };
  });
}

/// x twice, dx once, and each row's loss; each of 8 warps reads the label.
Traffic traffic(const Problem& problem) {
  const auto rows = static_cast<double>(problem.shape.rows);
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  return {2 * matrix + 8 * 8 * rows, matrix + 4 * rows, {.barriers = 2, .bank_conflicts = {}}};
}

Stage stage() {
  return {
      .name = "cross_entropy",
      .idea = "the loss of each row and its gradient, for tests",
      .variants =
          {{"naive", "one block a row", prepare<Lie::none>, traffic},
           {"loss_of_the_row_before", "wrong on purpose", prepare<Lie::loss_of_the_row_before>, traffic},
           {"no_gradient_at_the_label", "wrong on purpose", prepare<Lie::no_gradient_at_the_label>, traffic},
           {"never_writes_the_loss", "wrong on purpose", prepare<Lie::never_writes_the_loss>, traffic},
           {"changes_a_label", "wrong on purpose", prepare<Lie::changes_a_label>, traffic},
           {"writes_past_the_end", "wrong on purpose", prepare<Lie::writes_past_the_end>, traffic}},
      .operations = {&cross_entropy_operation}};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
