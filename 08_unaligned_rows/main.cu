#include "08_unaligned_rows/traffic.h"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/forward/flat_span.cuh"
#include "common/rowwise/kernels/forward/head_and_tail.cuh"

Stage stage() {
  return {
      .name = "08_unaligned_rows",
      .idea = "widths that no pack divides",
      .changes = Number::load_sectors,
      .variants = {
          variant<rowwise::Scalar>("scalar", "single elements, the row in registers", whole_passes(1, 1)),
          variant<rowwise::HeadAndTail>("head_and_tail",
                                        "packs, and single elements before the first and after the last",
                                        whole_passes(1, 1)),
          variant<rowwise::FlatSpan>(
              "flat_span", "narrow rows: many as one span, packs through shared memory", whole_passes(1, 1)),
          variant<rowwise::RowInFlight>(
              "row_in_flight", "wide rows: all requested at once, into shared memory", row_in_flight_passes),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
