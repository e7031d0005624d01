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

/// The table's variants with what all of them have in common.
std::vector<Variant> softmax_only(std::vector<Variant> variants) {
  for (Variant& variant : variants) {
    variant.workspace = [](const Problem& problem, const Device&) {
      return Workspace{.bytes = NaiveWorkspace::bytes(problem.shape)};
    };
    variant.unsupported = [](const Problem& problem, const Device&) {
      return is_one_of(Operations<Softmax>{}, problem.op)
                 ? ""
                 : "stage 01 has no log-softmax; from stage 02 on there is";
    };
  }
  return variants;
}

template <class Launcher>
constexpr auto launches_softmax = launches_with_workspace<Launcher, Operations<Softmax>>;

}  // namespace

Stage stage() {
  using enum NaiveReduction;
  return {.name = "01_naive",
          .idea = "one kernel per step: max, subtract, exp, sum, divide",
          .changes = Number::load_sectors,
          .variants = softmax_only({
              {.name = "thread_per_row",
               .idea = "reductions with one thread per row: uncoalesced",
               .prepare = launches_softmax<FiveKernels<thread_per_row, Division::per_row>>,
               .traffic = eight_passes({.barriers = 0, .bank_conflicts = 0})},
              {.name = "block_per_row",
               .idea = "reductions with one block per row: coalesced",
               .prepare = launches_softmax<FiveKernels<block_per_row, Division::per_row>>,
               .traffic = eight_passes({.barriers = 4, .bank_conflicts = 0})},
              {.name = "block_per_row_division",
               .idea = "the same, with an IEEE division for every element",
               .prepare = launches_softmax<FiveKernels<block_per_row, Division::per_element>>,
               .traffic = eight_passes({.barriers = 4, .bank_conflicts = 0})},
              {.name = "thrust_calls",
               .idea = "the same five steps as Thrust calls",
               .prepare = launches_softmax<ThrustCalls>,
               .traffic = eight_passes({}),
               .capturable = false},
          })};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
