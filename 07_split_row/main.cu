#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/forward/row_exchange.cuh"
#include "common/rowwise/kernels/forward/split_row.cuh"

Stage stage() {
  return {.name = "07_split_row",
          .idea = "few rows: many blocks share each row",
          .variants = {
              variant<rowwise::TwoKernels<rowwise::Dependence::complete>>(
                  "two_kernels", "one kernel computes a pair per part; another merges and writes",
                  whole_passes(2, 1)),
              variant<rowwise::TwoKernels<rowwise::Dependence::programmatic>>(
                  "dependent_launch", "two kernels, the second of which starts before the first is done",
                  whole_passes(2, 1)),
              variant<rowwise::RowExchange<rowwise::SplitBy::rows_and_cols>>(
                  "row_exchange", "one kernel, whose blocks send each other their pairs", whole_passes(1, 1)),
              variant<rowwise::RowExchange<rowwise::SplitBy::cols>>(
                  "fixed_split", "one kernel; the number of columns alone decides on the parts",
                  whole_passes(1, 1)),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
