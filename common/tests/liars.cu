// Kernels that are wrong on purpose, as a stage: the harness must catch every one of them. The names say what
// each does; the tests say with which message it must be caught.
#include "common/harness/cli/run_stage.h"
#include "common/harness/cuda_check.h"
#include "common/harness/launches.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/reduce_op.cuh"

namespace {

enum class Lie {
  none,
  never_runs,
  skips_last_column,
  writes_nan,
  writes_the_row_above,
  one_percent_off,
  maximum_starts_at_zero,  // AITemplate's idle lanes, FastSoftmax
  ignores_its_input,       // the minimal FasterTransformer kernel: right on constant inputs
  reads_past_the_row,
  writes_past_the_end,
  writes_before_the_start,
  writes_half_a_row_past_the_end,
  changes_its_input,
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
  const std::int64_t written_row = lie == Lie::writes_the_row_above ? (row + 1) % rows : row;
  for (std::int64_t col = 0; col < cols; ++col) {
    float value = result(element(col));
    if (lie == Lie::one_percent_off) value *= 1.01f;
    if (lie == Lie::writes_nan && row == rows - 1 && col == cols / 2) value = NAN;
    if (lie == Lie::skips_last_column && col == cols - 1) continue;
    y[written_row * cols + col] = static_cast<T>(value);
  }
  if (row != rows - 1) return;
  if (lie == Lie::writes_past_the_end) y[rows * cols] = static_cast<T>(0.0f);
  if (lie == Lie::writes_before_the_start) y[-1] = static_cast<T>(0.0f);
  if (lie == Lie::writes_half_a_row_past_the_end) y[rows * cols + cols / 2] = static_cast<T>(0.0f);
  if (lie == Lie::changes_its_input) x[(rows - 1) * cols] = static_cast<T>(0.5f);
  if (lie == Lie::changes_input_writes_past_end) {
    x[(rows - 1) * cols] = static_cast<T>(0.5f);
    y[rows * cols] = static_cast<T>(0.0f);
  }
}

template <Lie lie>
struct Lies {
  template <class Op, class T>
  static void launch(const T* x, T* y, Shape shape, cudaStream_t stream) {
    if (lie == Lie::never_runs || shape.rows == 0) return;
    softmax_with<Op>
        <<<grid_for(divide_up(shape.rows, 64)), 64, 0, stream>>>(lie, const_cast<T*>(x), y, shape);
    CUDA_CHECK(cudaGetLastError());
  }
};

template <Lie lie>
Variant variant(const char* name) {
  return {.name = name,
          .idea = "wrong on purpose",
          .prepare = launches<Lies<lie>>,
          .traffic = whole_passes(3, 1)};
}

/// Right where x and y begin at multiples of 16 bytes.
struct AssumesAlignment {
  template <class Op, class T>
  static void launch(const T* x, T* y, Shape shape, cudaStream_t stream) {
    const auto down = [](auto* pointer) {
      return reinterpret_cast<decltype(pointer)>(reinterpret_cast<std::uintptr_t>(pointer) / 16 * 16);
    };
    Lies<Lie::none>::launch<Op>(down(x), down(y), shape, stream);
  }
};

/// What a workspace holds decides on the result.
template <Lie lie, class T>
__global__ void use_workspace(float* workspace, T* y) {
  if (lie == Lie::none) workspace[0] = 1;
  if (lie == Lie::reads_what_another_left && workspace[0] != 1) y[0] = static_cast<T>(2.0f);
  if (lie == Lie::writes_past_its_workspace) workspace[1] = 1;
  if (lie == Lie::leaves_its_counter) workspace[0] += 1;
}

/// A kernel that was right when it was verified.
struct WrongFromTheThirdLaunchOn {
  template <class Op, class T>
  static void launch(const T* x, T* y, Shape shape, cudaStream_t stream) {
    static int launches = 0;
    if (++launches <= 2) {
      Lies<Lie::none>::launch<Op>(x, y, shape, stream);
    } else {
      Lies<Lie::one_percent_off>::launch<Op>(x, y, shape, stream);
    }
  }
};

template <Lie lie>
struct UsesWorkspace {
  template <class Op, class T>
  static void launch(const T* x, T* y, void* workspace, Shape shape, cudaStream_t stream) {
    Lies<Lie::none>::launch<Op>(x, y, shape, stream);
    use_workspace<lie><<<1, 1, 0, stream>>>(static_cast<float*>(workspace), y);
    CUDA_CHECK(cudaGetLastError());
  }
};

template <Lie lie>
Variant with_workspace(const char* name, bool zeroed) {
  return {.name = name,
          .idea = "wrong on purpose, by its workspace",
          .prepare = launches_with_workspace<UsesWorkspace<lie>>,
          .traffic = whole_passes(3, 1),
          .workspace = [zeroed](const Problem&, const Device&) {
            return Workspace{.bytes = sizeof(float), .zeroed = zeroed};
          }};
}

}  // namespace

Stage stage() {
  return {.name = "liars",
          .idea = "kernels that are wrong on purpose",
          .variants = {
              variant<Lie::none>("honest"),
              variant<Lie::never_runs>("never_runs"),
              variant<Lie::skips_last_column>("skips_last_column"),
              variant<Lie::writes_nan>("writes_nan"),
              variant<Lie::writes_the_row_above>("writes_the_row_above"),
              variant<Lie::one_percent_off>("one_percent_off"),
              variant<Lie::maximum_starts_at_zero>("maximum_starts_at_zero"),
              variant<Lie::ignores_its_input>("ignores_its_input"),
              variant<Lie::reads_past_the_row>("reads_past_the_row"),
              variant<Lie::writes_past_the_end>("writes_past_the_end"),
              variant<Lie::writes_before_the_start>("writes_before_the_start"),
              variant<Lie::writes_half_a_row_past_the_end>("writes_half_a_row_past_the_end"),
              variant<Lie::changes_input_writes_past_end>("changes_input_writes_past_end"),
              variant<Lie::none>("honest_after_that"),
              variant<Lie::changes_its_input>("changes_its_input"),
              {.name = "assumes_alignment",
               .idea = "wrong on purpose",
               .prepare = launches<AssumesAlignment>,
               .traffic = whole_passes(3, 1)},
              {.name = "wrong_from_the_third_launch_on",
               .idea = "wrong on purpose",
               .prepare = launches<WrongFromTheThirdLaunchOn>,
               .traffic = whole_passes(3, 1)},
              with_workspace<Lie::none>("honest_with_workspace", false),
              with_workspace<Lie::reads_what_another_left>("reads_what_another_left", false),
              with_workspace<Lie::writes_past_its_workspace>("writes_past_its_workspace", false),
              with_workspace<Lie::leaves_its_counter>("leaves_its_counter", true),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
