#include "02_fused_block/cub_block_reduce.cuh"
#include "02_fused_block/fused_block.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// Each with two barriers: before the warps' results are read, and before they may be overwritten.
constexpr RowCosts two_reductions{.barriers = 4, .bank_conflicts = 0};
/// Each with 8 halvings, and a barrier before and behind them.
constexpr RowCosts two_trees{.barriers = 2 * (8 + 2), .bank_conflicts = 0};

}  // namespace

Stage stage() {
  return {.name = "02_fused_block",
          .idea = "one kernel, one block per row",
          .variants = {
              variant<FusedSoftmax<SharedMemoryTree<256>, 256>>(
                  "shared_memory_tree", "block of 256 reduces by halving in shared memory",
                  whole_passes(3, 1, two_trees)),
              variant<FusedSoftmax<WarpThenShared, 256>>("warp_then_shared",
                                                         "block of 256: warps in registers, then one warp",
                                                         whole_passes(3, 1, two_reductions)),
              variant<FusedSoftmax<WarpThenShared, 112>>("warp_then_shared_112",
                                                         "the same with 112 threads, three and a half warps",
                                                         whole_passes(3, 1, two_reductions)),
              variant<FusedSoftmax<CubBlockReduce<256>, 256>>(
                  "cub_block_reduce", "block of 256, reduction by CUB", whole_passes(3, 1, two_reductions)),
              variant<ThreadPerColumn<LaunchShape::block_per_head>>(
                  "fastertransformer_block_per_head", "a thread per column, a block loops over a head's rows",
                  whole_passes(1, 1, two_reductions)),
              variant<ThreadPerColumn<LaunchShape::block_per_row>>("fastertransformer_block_per_row",
                                                                   "a thread per column, a block per row",
                                                                   whole_passes(1, 1, two_reductions)),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
