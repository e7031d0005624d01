#include "02_fused_block/cub_block_reduce.cuh"
#include "02_fused_block/fused_block.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// Each with two barriers: before the warps' results are read, and before they may be overwritten.
constexpr RowCosts two_reductions{.barriers = 4, .bank_conflicts = 0};
/// Each with 8 halvings, and a barrier before and behind them.
constexpr RowCosts two_trees{.barriers = 2 * (8 + 2), .bank_conflicts = 0};

const auto too_many_columns = at_most_columns(max_thread_per_column_cols, "a thread per column");

}  // namespace

Stage stage() {
  return {.name = "02_fused_block",
          .idea = "one kernel, one block per row",
          .variants = {
              {.name = "shared_memory_tree",
               .idea = "block of 256 reduces by halving in shared memory",
               .prepare = launches<FusedSoftmax<SharedMemoryTree<256>, 256>>,
               .traffic = whole_passes(3, 1, two_trees)},
              {.name = "warp_then_shared",
               .idea = "block of 256: warps in registers, then one warp",
               .prepare = launches<FusedSoftmax<WarpThenShared, 256>>,
               .traffic = whole_passes(3, 1, two_reductions)},
              {.name = "warp_then_shared_112",
               .idea = "the same with 112 threads, three and a half warps",
               .prepare = launches<FusedSoftmax<WarpThenShared, 112>>,
               .traffic = whole_passes(3, 1, two_reductions)},
              {.name = "cub_block_reduce",
               .idea = "block of 256, reduction by CUB",
               .prepare = launches<FusedSoftmax<CubBlockReduce<256>, 256>>,
               .traffic = whole_passes(3, 1, two_reductions)},
              {.name = "fastertransformer_block_per_head",
               .idea = "a thread per column, a block loops over a head's rows",
               .prepare = launches<ThreadPerColumn<LaunchShape::block_per_head>>,
               .traffic = whole_passes(1, 1, two_reductions),
               .unsupported = too_many_columns},
              {.name = "fastertransformer_block_per_row",
               .idea = "a thread per column, a block per row",
               .prepare = launches<ThreadPerColumn<LaunchShape::block_per_row>>,
               .traffic = whole_passes(1, 1, two_reductions),
               .unsupported = too_many_columns},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
