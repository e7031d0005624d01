#include "06_online/traffic.h"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// How the pairs' two floats are read is up to ptxas: bank conflicts are not declared.
constexpr RowCosts one_merge{.barriers = 2, .bank_conflicts = {}};

Traffic fused_passes(const Problem& problem) {
  const double barriers = fused_barriers(problem.shape.cols);
  return whole_passes(1, 1, {.barriers = barriers, .bank_conflicts = {}})(problem);
}

}  // namespace

Stage stage() {
  return {
      .name = "06_online",
      .idea = "maximum and sum in one pass",
      .variants = {
          variant<OnlineSoftmax<Rescale::per_element>>("online_per_element",
                                                       "online: the sum is rescaled for every element",
                                                       whole_passes(2, 1, one_merge)),
          variant<OnlineSoftmax<Rescale::per_pack>>("online", "online: the sum is rescaled once per pack",
                                                    whole_passes(2, 1, one_merge)),
          variant<FusedSoftmax>("fused", "one read: the row stays in the registers of a block", fused_passes),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
