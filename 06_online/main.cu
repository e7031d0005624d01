#include "05_uncached/uncached.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/forward/online.cuh"

namespace {

constexpr RowCosts two_reductions{.barriers = 4, .bank_conflicts = 0};

/// How the pairs' two floats are read is up to ptxas: bank conflicts are not declared.
constexpr RowCosts one_merge{.barriers = 2, .bank_conflicts = {}};

Traffic fused_passes(const Problem& problem) {
  const double barriers = rowwise::FusedRegisterSoftmax::barriers(problem.shape.cols);
  return whole_passes(1, 1, {.barriers = barriers, .bank_conflicts = {}})(problem);
}

}  // namespace

Stage stage() {
  using enum Direction;
  return {.name = "06_online",
          .idea = "maximum and sum in one pass",
          .variants = {
              variant<rowwise::FusedRegisterSoftmax>(
                  "fused", "one read: the row stays in the registers of a block", fused_passes),
              variant<FromXToY<rowwise::FusedRegisterSoftmax, EvictLastLoad>>(
                  "fused_evict_last", "the row in registers; reads stay in the L2 longer than writes",
                  fused_passes),
              variant<UncachedSoftmax<1024, forward>>(
                  "three_pass_tile", "one pass each for maximum, sum and result: stage 05's kernel",
                  whole_passes(3, 1, two_reductions)),
              variant<UncachedSoftmax<1024, backward>>(
                  "three_pass_tile_reversed", "stage 05's three passes; the one for the sum walks backwards",
                  whole_passes(3, 1, two_reductions)),
              variant<rowwise::OnlineSoftmax<rowwise::Rescale::per_element, forward>>(
                  "online_per_element", "online: the sum is rescaled for every element",
                  whole_passes(2, 1, one_merge)),
              variant<rowwise::OnlineSoftmax<rowwise::Rescale::per_chunk, forward>>(
                  "online", "online: the sum is rescaled once per chunk", whole_passes(2, 1, one_merge)),
              variant<rowwise::OnlineSoftmax<rowwise::Rescale::per_chunk, backward>>(
                  "online_reversed", "online, per chunk; the pass for the result walks backwards",
                  whole_passes(2, 1, one_merge)),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
