#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/forward/warp_reduce.cuh"

namespace {

/// No shared memory, and nobody to wait for.
constexpr RowCosts warps_alone{.barriers = 0, .bank_conflicts = 0};

}  // namespace

Stage stage() {
  return {
      .name = "03_warp_reduce",
      .idea = "the row lives in registers, lanes exchange by shuffles",
      .variants = {
          variant<rowwise::ScalarLoads>("scalar_loads", "32 lanes a row, one element per access",
                                        whole_passes(1, 1, warps_alone)),
          variant<rowwise::Packs<false>>("packs",
                                         "32 lanes a row, 16 bytes per access, the row fills every lane",
                                         whole_passes(1, 1, warps_alone)),
          variant<rowwise::Packs<true>>("padded_packs",
                                        "the same for any width: the row is padded to the next tile",
                                        whole_passes(1, 1, warps_alone)),
          variant<rowwise::NarrowGroups<1, 1>>("narrow_groups",
                                               "1 to 32 lanes a row, one pack each: several rows a warp",
                                               whole_passes(1, 1, warps_alone)),
          variant<rowwise::NarrowGroups<2, 1>>("two_packs_per_lane",
                                               "narrow groups of half as many lanes, two packs each",
                                               whole_passes(1, 1, warps_alone)),
          variant<rowwise::NarrowGroups<1, 2>>("two_rows_per_access",
                                               "narrow groups that load two rows at once",
                                               whole_passes(1, 1, warps_alone)),
          variant<FromXToY<rowwise::NarrowGroups<1, 2>, EvictLastLoad>>(
              "two_rows_evict_last", "the same, what is read stays in the L2 longer than what is written",
              whole_passes(1, 1, warps_alone)),
          variant<rowwise::NarrowGroups<2, 2>>("two_packs_two_rows", "both: two packs of each of two rows",
                                               whole_passes(1, 1, warps_alone)),
          variant<FromXToY<rowwise::TwoOrThreePacks, EvictLastLoad>>(
              "two_or_three_packs", "also three packs of each, so that fewer lanes have none; evict_last",
              whole_passes(1, 1, warps_alone)),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
