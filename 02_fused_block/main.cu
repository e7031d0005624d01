#include "02_fused_block/fused_block.cuh"
#include "common/harness/cli/run_stage.h"

namespace {

template <class BlockReduce, int block_size>
auto fused() {
  return typed_launch([](auto op, const auto* x, auto* y, Shape shape, cudaStream_t stream) {
    launch_fused_softmax<BlockReduce, block_size, op>(x, y, shape, stream);
  });
}

template <LaunchShape launch_shape>
auto thread_per_column() {
  return typed_launch([](auto op, const auto* x, auto* y, Shape shape, cudaStream_t stream) {
    launch_thread_per_column<launch_shape, op>(x, y, shape, stream);
  });
}

/// Each with two barriers: before the warps' results are read, and before they may be overwritten.
constexpr RowCosts two_reductions{.barriers = 4, .bank_conflicts = 0};

std::string why_not_thread_per_column(const Problem& problem) {
  if (problem.shape.cols <= max_thread_per_column_cols) return "";
  return "a thread per column: at most " + std::to_string(max_thread_per_column_cols) + " columns";
}

}  // namespace

Stage stage() {
  return {"02_fused_block",
          "one kernel, one block per row",
          {
              {"shared_memory_tree", "block of 256 reduces by halving in shared memory",
               fused<SharedMemoryTree<256>, 256>(),
               whole_passes(3, 1, {.barriers = 2 * (8 + 2), .bank_conflicts = 0})},
              {"warp_then_shared", "block of 256: warps in registers, then one warp",
               fused<WarpThenShared, 256>(), whole_passes(3, 1, two_reductions)},
              {"warp_then_shared_112", "the same with 112 threads, three and a half warps",
               fused<WarpThenShared, 112>(), whole_passes(3, 1, two_reductions)},
              {"cub_block_reduce", "block of 256, reduction by CUB", fused<CubBlockReduce<256>, 256>(),
               whole_passes(3, 1, two_reductions)},
              {"fastertransformer_block_per_head", "a thread per column, a block loops over a head's rows",
               thread_per_column<LaunchShape::block_per_head>(), whole_passes(1, 1, two_reductions),
               why_not_thread_per_column},
              {"fastertransformer_block_per_row", "a thread per column, a block per row",
               thread_per_column<LaunchShape::block_per_row>(), whole_passes(1, 1, two_reductions),
               why_not_thread_per_column},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
