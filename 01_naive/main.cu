#include "01_naive/naive.cuh"
#include "01_naive/thrust_calls.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// x twice and y once in the matrix's type; in float `shifted` and `exps` five times, and two values per row
/// written and read.
std::function<Traffic(const Problem&)> eight_passes(RowCosts row) {
  return [row](const Problem& problem) {
    const auto matrix = static_cast<double>(problem.matrix_bytes());
    const double between = 4.0 * problem.shape.elements();
    const double row_values = 2 * 4.0 * problem.shape.rows;
    return Traffic{2 * matrix + 3 * between + row_values, matrix + 2 * between + row_values, row};
  };
}

}  // namespace

Stage stage() {
  using enum NaiveReduction;
  return {
      .name = "01_naive",
      .idea = "one kernel per step: max, subtract, exp, sum, divide",
      .changes = Number::load_sectors,
      .variants = {
          variant<FiveKernels<thread_per_row, Division::per_row>>(
              "thread_per_row", "one thread reduces each row: its reads are uncoalesced",
              eight_passes({.barriers = 0, .bank_conflicts = 0})),
          variant<FiveKernels<block_per_row, Division::per_row>>(
              "block_per_row", "one block reduces each row: its reads are coalesced",
              eight_passes({.barriers = 4, .bank_conflicts = 0})),
          variant<FiveKernels<block_per_row, Division::per_element>>(
              "block_per_row_division", "one block per row, and an IEEE division for every element",
              eight_passes({.barriers = 4, .bank_conflicts = 0})),
          variant<ThrustCalls>("thrust_calls", "the five steps of softmax as Thrust calls", eight_passes({})),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
