#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/forward/row_exchange.cuh"
#include "common/rowwise/kernels/forward/split_row.cuh"

Stage stage() {
  return {.name = "07_split_row",
          .idea = "few rows: many blocks share one",
          .variants = {
              variant<rowwise::TwoKernels<rowwise::Dependence::complete>>(
                  "two_kernels", "a pair per part; then merge and write", whole_passes(2, 1)),
              variant<rowwise::TwoKernels<rowwise::Dependence::programmatic>>(
                  "dependent_launch", "the same, the second kernel starts early", whole_passes(2, 1)),
              variant<rowwise::RowExchange<rowwise::SplitBy::rows_and_cols>>(
                  "row_exchange", "one kernel: blocks send each other their pairs", whole_passes(1, 1)),
              variant<rowwise::RowExchange<rowwise::SplitBy::cols>>(
                  "fixed_split", "the same, parts that depend on the columns alone", whole_passes(1, 1)),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
