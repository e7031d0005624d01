// Kernels that are wrong on purpose, as a stage: the harness must catch every one of them. The names say what
// each does; the tests say with which message it must be caught.
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/reduce_op.cuh"

namespace {

enum class Lie {
  none,
  never_runs,
  skips_last_column,
  writes_nan,
  one_percent_off,
  maximum_starts_at_zero,  // AITemplate's idle lanes, FastSoftmax
  ignores_its_input,       // the minimal FasterTransformer kernel: right on constant inputs
  reads_past_the_row,
  changes_input_writes_past_end,
  reads_what_another_left,
  writes_past_its_workspace,
  leaves_its_counter,
};

/// One thread per row, as plain as can be.
template <class Op, class T>
__global__ void softmax_with(Lie lie, T* x, T* y, Shape shape) {
  const auto [rows, cols] = shape;
  const std::int64_t row = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (row >= rows) return;
  const auto element = [&](std::int64_t col) {
    return lie == Lie::ignores_its_input ? 1.0f : static_cast<float>(x[row * cols + col]);
  };
  float max = lie == Lie::maximum_starts_at_zero ? 0.0f : MaxOp::identity;
  float sum = 0;
  const std::int64_t end_col = lie == Lie::reads_past_the_row ? cols + 1 : cols;
  for (std::int64_t col = 0; col < end_col; ++col) max = fmaxf(max, element(col));
  for (std::int64_t col = 0; col < end_col; ++col) sum += expf(element(col) - max);

  const RowResult<Op> result(max, sum);
  for (std::int64_t col = 0; col < cols; ++col) {
    float value = result(element(col));
    if (lie == Lie::one_percent_off) value *= 1.01f;
    if (lie == Lie::writes_nan && row == rows - 1 && col == cols / 2) value = NAN;
    if (lie == Lie::skips_last_column && col == cols - 1) continue;
    y[row * cols + col] = static_cast<T>(value);
  }
  if (row != rows - 1) return;
  if (lie == Lie::changes_input_writes_past_end) {
    x[(rows - 1) * cols] = static_cast<T>(0.5f);
    y[rows * cols] = static_cast<T>(0.0f);
  }
}

/// The contents of a workspace decide on the result.
template <class T>
__global__ void use_workspace(Lie lie, float* workspace, T* y) {
  if (lie == Lie::none) workspace[0] = 1;
  if (lie == Lie::reads_what_another_left && workspace[0] != 1) y[0] = static_cast<T>(2.0f);
  if (lie == Lie::writes_past_its_workspace) workspace[1] = 1;
  if (lie == Lie::leaves_its_counter) workspace[0] += 1;
}

// ---- launch<Op>(tensors, stream)
struct Lies {
  Lie lie;
  template <class Op, class T>
  void launch(const Tensors<T>& tensors, cudaStream_t stream) const {
    const Shape shape = tensors.shape;
    if (lie == Lie::never_runs || shape.rows == 0) return;
    softmax_with<Op><<<grid_for(divide_up(shape.rows, 64)), 64, 0, stream>>>(lie, const_cast<T*>(tensors.x),
                                                                             tensors.y, shape);
    CUDA_CHECK(cudaGetLastError());
  }
};

struct LiesByWorkspace {
  Lie lie;
  template <class Op, class T>
  void launch(const Tensors<T>& tensors, cudaStream_t stream) const {
    Lies{Lie::none}.launch<Op>(tensors, stream);
    use_workspace<<<1, 1, 0, stream>>>(lie, static_cast<float*>(tensors.workspace), tensors.y);
    CUDA_CHECK(cudaGetLastError());
  }
};

/// Right where x and y begin at multiples of 16 bytes.
struct AssumesAlignment {
  template <class Op, class T>
  void launch(const Tensors<T>& tensors, cudaStream_t stream) const {
    const auto down = [](auto* pointer) {
      return reinterpret_cast<decltype(pointer)>(reinterpret_cast<std::uintptr_t>(pointer) / 16 * 16);
    };
    Tensors<T> aligned = tensors;
    aligned.x = down(tensors.x);
    aligned.y = down(tensors.y);
    Lies{Lie::none}.launch<Op>(aligned, stream);
  }
};

/// A kernel that was right when it was verified.
struct WrongFromTheThirdLaunchOn {
  template <class Op, class T>
  void launch(const Tensors<T>& tensors, cudaStream_t stream) const {
    static int launches = 0;
    const Lie lie = ++launches <= 2 ? Lie::none : Lie::one_percent_off;
    Lies{lie}.launch<Op>(tensors, stream);
  }
};

template <class Launcher>
Variant lying(const char* name, Launcher launcher, Workspace workspace = {}) {
  const auto prepare = [launcher](const Problem& problem, const Device&, const Memory& memory) {
    return plan_of<SoftmaxOperations>(problem, memory,
                                      [launcher]<class Op>(const auto& tensors, cudaStream_t stream) {
                                        launcher.template launch<Op>(tensors, stream);
                                      });
  };
  return {.name = name,
          .idea = "wrong on purpose",
          .prepare = prepare,
          .traffic = whole_passes(3, 1),
          .workspace = [workspace](const Problem&, const Device&) { return workspace; }};
}

}  // namespace

Stage stage() {
  constexpr Workspace one_float{.bytes = sizeof(float)};
  constexpr Workspace one_counter{.bytes = sizeof(float), .zeroed = true};
  return {.name = "liars",
          .idea = "kernels that are wrong on purpose",
          .variants = {
              lying("honest", Lies{Lie::none}),
              lying("never_runs", Lies{Lie::never_runs}),
              lying("skips_last_column", Lies{Lie::skips_last_column}),
              lying("writes_nan", Lies{Lie::writes_nan}),
              lying("one_percent_off", Lies{Lie::one_percent_off}),
              lying("maximum_starts_at_zero", Lies{Lie::maximum_starts_at_zero}),
              lying("ignores_its_input", Lies{Lie::ignores_its_input}),
              lying("reads_past_the_row", Lies{Lie::reads_past_the_row}),
              lying("changes_input_writes_past_end", Lies{Lie::changes_input_writes_past_end}),
              lying("honest_after_that", Lies{Lie::none}),
              lying("assumes_alignment", AssumesAlignment{}),
              lying("wrong_from_the_third_launch_on", WrongFromTheThirdLaunchOn{}),
              lying("honest_with_workspace", LiesByWorkspace{Lie::none}, one_float),
              lying("reads_what_another_left", LiesByWorkspace{Lie::reads_what_another_left}, one_float),
              lying("writes_past_its_workspace", LiesByWorkspace{Lie::writes_past_its_workspace}, one_float),
              lying("leaves_its_counter", LiesByWorkspace{Lie::leaves_its_counter}, one_counter),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
