#include "03_warp_reduce/warp_reduce.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// No shared memory, and no other warp to wait for.
constexpr RowCosts warps_alone{.barriers = 0, .bank_conflicts = 0};

}  // namespace

Stage stage() {
  return {.name = "03_warp_reduce",
          .idea = "the row lives in registers, and lanes exchange values by shuffles",
          .variants = {
              variant<ScalarLoads>("scalar_loads", "32 lanes per row, one element per access",
                                   whole_passes(1, 1, warps_alone)),
              variant<PaddedPacks>("padded_packs", "32 lanes per row, 16 bytes per access",
                                   whole_passes(1, 1, warps_alone)),
              variant<NarrowGroups>("narrow_groups",
                                    "1 to 32 lanes per row, 16 bytes each: several rows per warp",
                                    whole_passes(1, 1, warps_alone)),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
