#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/forward/warp_reduce.cuh"

namespace {

/// No shared memory, and no other warp to wait for.
constexpr RowCosts warps_alone{.barriers = 0, .bank_conflicts = 0};

}  // namespace

Stage stage() {
  return {.name = "03_warp_reduce",
          .idea = "the row lives in registers, and lanes exchange values by shuffles",
          .variants = {
              variant<rowwise::ScalarLoads>("scalar_loads", "32 lanes per row, one element per access",
                                            whole_passes(1, 1, warps_alone)),
              variant<rowwise::Packs<false>>(
                  "packs", "32 lanes per row, 16 bytes per access; the row must fill every lane",
                  whole_passes(1, 1, warps_alone)),
              variant<rowwise::Packs<true>>(
                  "padded_packs", "32 lanes per row, 16 bytes per access; rows are padded to the next tile",
                  whole_passes(1, 1, warps_alone)),
              variant<rowwise::NarrowGroups<1>>("narrow_groups",
                                                "1 to 32 lanes per row, one pack each: several rows per warp",
                                                whole_passes(1, 1, warps_alone)),
              variant<FromXToY<rowwise::NarrowGroups<2>, EvictLastLoad>>(
                  "two_rows_evict_last", "two rows at once; reads stay in the L2 longer than writes",
                  whole_passes(1, 1, warps_alone)),
              variant<FromXToY<rowwise::TwoOrThreePacks, EvictLastLoad>>(
                  "two_or_three_packs", "1 to 32 lanes per row, up to three packs each; reads stay in the L2",
                  whole_passes(1, 1, warps_alone)),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
