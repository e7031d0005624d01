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
          variant<rowwise::Scalar>("scalar", "every access is a single element; the row stays in registers",
                                   whole_passes(1, 1)),
          variant<rowwise::HeadAndTail>("head_and_tail",
                                        "packs, with single elements before the first and after the last",
                                        whole_passes(1, 1)),
          variant<rowwise::FlatSpan>("flat_span",
                                     "narrow rows: many form one span, copied in packs via shared memory",
                                     whole_passes(1, 1)),
          variant<rowwise::RowInFlight>("row_in_flight",
                                        "wide rows: the whole row is requested at once, into shared memory",
                                        row_in_flight_passes),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
