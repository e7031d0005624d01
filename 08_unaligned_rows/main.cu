#include "08_unaligned_rows/unaligned.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

Stage stage() {
  return {.name = "08_unaligned_rows",
          .idea = "widths that no pack divides",
          .changes = Number::load_sectors,
          .variants = {
              variant<Scalar>("scalar", "stage 06's kernel with single elements", whole_passes(1, 1)),
              variant<HeadAndTail>("head_and_tail",
                                   "packs, with single elements before the first and after the last",
                                   whole_passes(1, 1)),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
