#include "06_online/online.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

constexpr RowCosts two_reductions{.barriers = 4, .bank_conflicts = 0};

/// How the pairs' two floats are read is up to ptxas: bank conflicts are not declared.
constexpr RowCosts one_merge{.barriers = 2, .bank_conflicts = {}};

Traffic fused_passes(const Problem& problem) {
  const double barriers = FusedRegisterSoftmax::barriers(problem.shape.cols);
  return whole_passes(1, 1, {.barriers = barriers, .bank_conflicts = {}})(problem);
}

const auto too_wide = at_most_columns(widest_tile.cols(), "the row must fit the registers of a block");

}  // namespace

Stage stage() {
  using enum Direction;
  return {.name = "06_online",
          .idea = "maximum and sum in one pass",
          .variants = {
              {.name = "fused",
               .idea = "the row stays in the registers of a block",
               .prepare = launches_load_store<FusedRegisterSoftmax>,
               .traffic = fused_passes,
               .unsupported = too_wide},
              {.name = "fused_evict_last",
               .idea = "the same, what is read stays in the L2 longer than what is written",
               .prepare = launches_load_store<FusedRegisterSoftmax, EvictLastLoad>,
               .traffic = fused_passes,
               .unsupported = too_wide},
              {.name = "three_pass_tile",
               .idea = "maximum, sum, result: stage 05's kernel",
               .prepare = launches_load_store<UncachedSoftmax<1024, forward>>,
               .traffic = whole_passes(3, 1, two_reductions)},
              {.name = "three_pass_tile_reversed",
               .idea = "the same, the sum walks backwards",
               .prepare = launches_load_store<UncachedSoftmax<1024, backward>>,
               .traffic = whole_passes(3, 1, two_reductions)},
              {.name = "online_per_element",
               .idea = "online, the sum rescaled for every element",
               .prepare = launches_load_store<OnlineSoftmax<Rescale::per_element, forward>>,
               .traffic = whole_passes(2, 1, one_merge)},
              {.name = "online",
               .idea = "online, the sum rescaled once per chunk",
               .prepare = launches_load_store<OnlineSoftmax<Rescale::per_chunk, forward>>,
               .traffic = whole_passes(2, 1, one_merge)},
              {.name = "online_reversed",
               .idea = "the same, the result walks backwards",
               .prepare = launches_load_store<OnlineSoftmax<Rescale::per_chunk, backward>>,
               .traffic = whole_passes(2, 1, one_merge)},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
