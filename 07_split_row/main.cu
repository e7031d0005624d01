#include "07_split_row/split_row.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

Stage stage() {
  return {.name = "07_split_row",
          .idea = "few rows: many blocks share each row",
          .variants = {
              variant<TwoKernels<Dependence::complete>>(
                  "two_kernels", "one kernel computes a pair per part; another merges and writes",
                  whole_passes(2, 1)),
              variant<TwoKernels<Dependence::programmatic>>(
                  "dependent_launch", "two kernels, the second of which starts before the first is done",
                  whole_passes(2, 1)),
              variant<RowExchange>("row_exchange", "one kernel, whose blocks send each other their pairs",
                                   whole_passes(1, 1)),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
