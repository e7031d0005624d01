#include "02_fused_block/cub_block_reduce.cuh"
#include "02_fused_block/fused_block.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// Each with two barriers: before the warps' results are read, and before they may be overwritten.
constexpr RowCosts two_reductions{.barriers = 4, .bank_conflicts = 0};
/// Each with 8 halvings, and a barrier before and after them.
constexpr RowCosts two_trees{.barriers = 2 * (8 + 2), .bank_conflicts = 0};

}  // namespace

Stage stage() {
  return {.name = "02_fused_block",
          .idea = "one kernel, one block per row",
          .variants = {
              variant<OneKernelSoftmax<SharedMemoryTree<256>, 256>>(
                  "shared_memory_tree", "a block of 256 threads reduces by halving in shared memory",
                  whole_passes(3, 1, two_trees)),
              variant<OneKernelSoftmax<WarpThenShared, 256>>(
                  "warp_then_shared", "256 threads: every warp reduces in registers, then one warp merges",
                  whole_passes(3, 1, two_reductions)),
              variant<OneKernelSoftmax<WarpThenShared, 112>>(
                  "warp_then_shared_112", "112 threads: three and a half warps reduce, then one warp merges",
                  whole_passes(3, 1, two_reductions)),
              variant<OneKernelSoftmax<CubBlockReduce<256>, 256>>(
                  "cub_block_reduce", "a block of 256 threads reduces by CUB's BlockReduce",
                  whole_passes(3, 1, two_reductions)),
              variant<ThreadPerColumn<LaunchShape::block_per_head>>(
                  "fastertransformer_block_per_head",
                  "one thread per column; one block loops over the rows of a head",
                  whole_passes(1, 1, two_reductions)),
              variant<ThreadPerColumn<LaunchShape::block_per_row>>("fastertransformer_block_per_row",
                                                                   "one thread per column, one block per row",
                                                                   whole_passes(1, 1, two_reductions)),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
