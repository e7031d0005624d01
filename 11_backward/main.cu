#include "11_backward/in_registers.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

using BackwardOperations = Operations<SoftmaxBackward, LogSoftmaxBackward>;

/// Of a launcher with launch<Op>(y, dy, dx, Shape, stream).
template <class Launcher, class Ops = BackwardOperations>
Plan gradient_launches(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return dispatch(Ops{}, problem, [&]<class Op, class T>() {
    const T* y = static_cast<const T*>(memory.inputs[0]);
    const T* dy = static_cast<const T*>(memory.inputs[1]);
    T* dx = static_cast<T*>(memory.outputs[0]);
    return [=, shape = problem.shape](cudaStream_t stream) {
      Launcher::template launch<Op>(y, dy, dx, shape, stream);
    };
  });
}

std::int64_t bytes_of(const Problem& problem, std::int64_t elements) {
  return elements * static_cast<std::int64_t>(size_of(problem.dtype));
}

std::string not_whole_packs(const Problem& problem) {
  const bool whole = bytes_of(problem, problem.shape.cols) % 16 == 0 &&
                     bytes_of(problem, problem.offsets.input) % 16 == 0 &&
                     bytes_of(problem, problem.offsets.output) % 16 == 0;
  return whole ? "" : "rows must begin at packs of 16 bytes and be made of them";
}

const auto too_wide_for_a_warp =
    at_most_columns(max_warp_reduce_cols, "the rows must fit the registers of a warp");

std::string does_not_fit_a_block(const Problem& problem, const Device& device) {
  const std::string reason = not_whole_packs(problem);
  if (!reason.empty()) return reason;
  return at_most_columns(widest_gradient_tile.cols(), "the rows must fit the registers of a block")(problem,
                                                                                                    device);
}

}  // namespace

Stage stage() {
  return {.name = "11_backward",
          .idea = "the gradient: two rows in, one sum, one row out",
          .variants =
              {
                  {.name = "warp_registers",
                   .idea = "4 to 32 lanes a row, both rows in their registers",
                   .prepare = gradient_launches<WarpRegisters>,
                   .traffic = whole_passes(2, 1, {.barriers = 0, .bank_conflicts = 0}),
                   .unsupported = too_wide_for_a_warp},
                  {.name = "block_registers",
                   .idea = "a block a row, both rows in its registers",
                   .prepare = gradient_launches<BlockRegisters>,
                   .traffic = whole_passes(2, 1, {.barriers = 2, .bank_conflicts = 0}),
                   .unsupported = does_not_fit_a_block},
              },
          .operations = backward_operations()};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
