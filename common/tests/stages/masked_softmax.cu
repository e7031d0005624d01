// A stage for tests: softmax of visible elements, and dropout, very plain, and wrong. A thread for each row.
#include "13_masked_softmax/masked_load_store.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/reduce_op.cuh"

namespace {

enum class Lie {
  none,
  does_not_see_itself,  // columns before r % cols alone
  sees_everything,
  nothing_seen_is_nan,
  forgets_the_scale,
  drops_by_another_seed,
  drops_by_row,  // every row alike
  forgets_the_factor,
  never_writes_the_softmax,
  changes_a_length,
};

template <class T>
__global__ void masked_softmax(Lie lie, const T* x, std::int64_t* lengths, T* softmax, T* y, Dropout dropout,
                               Shape shape) {
  const std::int64_t row = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (row >= shape.rows) return;
  const Mask mask{lengths, shape.cols};
  const int last = lie == Lie::does_not_see_itself ? 1 : 0;
  const int seen = lie == Lie::sees_everything ? static_cast<int>(shape.cols) : mask.seen_from(row, 0) - last;
  const T* row_x = x + row * shape.cols;
  const float scale = lie == Lie::forgets_the_scale ? 1 : attention_scale;
  float max = MaxOp::identity;
  float sum = 0;
  for (int col = 0; col < seen; ++col) max = fmaxf(max, static_cast<float>(row_x[col]) * scale);
  for (int col = 0; col < seen; ++col) sum += expf(static_cast<float>(row_x[col]) * scale - max);
  for (int col = 0; col < shape.cols; ++col) {
    const bool is_nan = lie == Lie::nothing_seen_is_nan && seen <= 0;
    float value[1] = {col < seen ? expf(static_cast<float>(row_x[col]) * scale - max) / sum
                                 : (is_nan ? sum / sum : 0)};
    const std::int64_t index = row * shape.cols + col;
    if (lie != Lie::never_writes_the_softmax) softmax[index] = static_cast<T>(value[0]);
    const unsigned kept = dropout.kept<1>(lie == Lie::drops_by_row ? 0 : row, col);
    Dropout::drop(value, kept, lie == Lie::forgets_the_factor ? 1 : Dropout::factor, value);
    y[index] = static_cast<T>(value[0]);
  }
  if (lie == Lie::changes_a_length && lengths != nullptr && row == 0) lengths[0] = 0;
}

template <Lie lie>
Plan prepare(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return dispatch_dtype(problem.dtype, [&]<class T>() -> Plan {
    const T* x = static_cast<const T*>(memory.inputs[0]);
    const void* const lengths = memory.inputs.size() > 1 ? memory.inputs[1] : nullptr;
    T* softmax = static_cast<T*>(memory.outputs[0]);
    T* y = static_cast<T*>(memory.outputs[1]);
    const Dropout dropout{problem.seed + (lie == Lie::drops_by_another_seed ? 1 : 0), problem.shape.cols};
    return [=, shape = problem.shape](cudaStream_t stream) {
      if (shape.rows == 0) return;
      auto* const length = static_cast<std::int64_t*>(const_cast<void*>(lengths));
      masked_softmax<<<grid_for(divide_up(shape.rows, 64)), 64, 0, stream>>>(lie, x, length, softmax, y,
                                                                             dropout, shape);
      CUDA_CHECK(cudaGetLastError());
    };
  });
}

template <Lie lie>
Variant variant(const char* name) {
  return {.name = name, .idea = "wrong on purpose", .prepare = prepare<lie>, .traffic = whole_passes(3, 2)};
}

}  // namespace

Stage stage() {
  return {.name = "masked_softmax",
          .idea = "softmax of the visible columns, for tests",
          .variants = {variant<Lie::none>("naive"), variant<Lie::does_not_see_itself>("does_not_see_itself"),
                       variant<Lie::sees_everything>("sees_everything"),
                       variant<Lie::nothing_seen_is_nan>("nothing_seen_is_nan"),
                       variant<Lie::forgets_the_scale>("forgets_the_scale"),
                       variant<Lie::drops_by_another_seed>("drops_by_another_seed"),
                       variant<Lie::drops_by_row>("drops_by_row"),
                       variant<Lie::forgets_the_factor>("forgets_the_factor"),
                       variant<Lie::never_writes_the_softmax>("never_writes_the_softmax"),
                       variant<Lie::changes_a_length>("changes_a_length")},
          .operations = {&causal_softmax_operation, &padded_softmax_operation}};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
