// A stage for tests: cross-entropy as plain as can be, and wrong. The harness must say which of two outputs, of different shapes
// and types, and must see what is done to an input of labels.
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/kernel/block_merge.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"

// ---- The kernel: one block per row.
struct CrossEntropy : ReducesToMaxSum {
  static constexpr const char* name = "cross_entropy_gradient";
};

constexpr int block_size = 256;
enum class Lie {
  none,
  loss_of_the_row_before,
  no_gradient_at_the_label,
  never_writes_the_loss,
  no_label_is_ignored,
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
    const bool is_ignored = row_label == ignored_label && lie != Lie::no_label_is_ignored;
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
      const float value = static_cast<float>(row_x[col]);
      const float subtracted = col == row_label && lie != Lie::no_gradient_at_the_label ? 1.0f : 0.0f;
      const float gradient = __expf(value - state.max) / state.sum - subtracted;
      dx[row * shape.cols + col] = static_cast<T>(is_ignored ? 0.0f : gradient);
      if (lie == Lie::never_writes_the_loss || col != (is_ignored ? 0 : row_label)) continue;
      loss[lie == Lie::loss_of_the_row_before ? (row + 1) % shape.rows : row] =
          is_ignored ? 0 : logf(state.sum) + (state.max - value);
    }
  }
  if (lie == Lie::changes_a_label) __syncthreads();  // the others have read it
  if (blockIdx.x > 0 || threadIdx.x > 0) return;
  if (lie == Lie::changes_a_label) label[0] = 0;
  if (lie == Lie::writes_past_the_end) dx[shape.rows * shape.cols] = T{};
}

template <Lie lie>
Plan prepare(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return dispatch(OpList<CrossEntropy>{}, problem, [&]<class Op, class T>() {
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
           {"no_label_is_ignored", "wrong on purpose", prepare<Lie::no_label_is_ignored>, traffic},
           {"changes_a_label", "wrong on purpose", prepare<Lie::changes_a_label>, traffic},
           {"writes_past_the_end", "wrong on purpose", prepare<Lie::writes_past_the_end>, traffic}},
      .operations = {&cross_entropy_gradient_operation}};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
