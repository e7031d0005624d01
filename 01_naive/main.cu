#include <utility>

#include "01_naive/naive.cuh"
#include "common/harness/cli/run_stage.h"

namespace {

std::size_t row_bytes(const Problem& problem) {
  return round_up(problem.shape.rows * sizeof(float), 256);
}
std::size_t matrix_bytes(const Problem& problem) {
  return round_up(problem.shape.elements() * sizeof(float), 256);
}

std::size_t workspace_bytes(const Problem& problem) {
  return 2 * matrix_bytes(problem) + 2 * row_bytes(problem);
}

NaiveWorkspace divide_workspace(const Problem& problem, void* workspace) {
  char* next = static_cast<char*>(workspace);
  const auto take = [&next](std::size_t bytes) {
    return reinterpret_cast<float*>(std::exchange(next, next + bytes));
  };
  return {take(matrix_bytes(problem)), take(matrix_bytes(problem)), take(row_bytes(problem)),
          take(row_bytes(problem))};
}

/// x twice and y once in the matrix's type; in float `shifted` and `exps` five times, and two values per row
/// written and read.
Traffic traffic(const Problem& problem, RowCosts row) {
  const auto matrix = static_cast<double>(problem.tensor_bytes());
  const double between = 4.0 * problem.shape.elements();
  const double row_values = 2 * 4.0 * problem.shape.rows;
  return {2 * matrix + 3 * between + row_values, matrix + 2 * between + row_values, row};
}

std::string why_not(const Problem& problem) {
  return problem.op == Op::softmax ? "" : "stage 01 has no log-softmax; from stage 02 on there is";
}

template <NaiveReduction reduction, Division division>
auto naive() {
  return [](auto... arguments) { naive_softmax<reduction, division>(arguments...); };
}

template <class Launcher>
Variant variant(const char* name, const char* idea, Launcher launcher, RowCosts row, bool capturable = true) {
  const auto launch = [launcher](const Problem& problem, const Buffers& buffers, cudaStream_t stream) {
    dispatch_dtype(problem.dtype, [&]<class T>() {
      launcher(static_cast<const T*>(buffers.x), static_cast<T*>(buffers.y),
               divide_workspace(problem, buffers.workspace), problem.shape, stream);
    });
  };
  const auto traffic_of = [row](const Problem& problem) { return traffic(problem, row); };
  return {name, idea, launch, traffic_of, why_not, workspace_bytes, capturable};
}

}  // namespace

Stage stage() {
  return {"01_naive",
          "one kernel per step: max, subtract, exp, sum, divide",
          {
              variant("thread_per_row", "reductions with one thread per row: uncoalesced",
                      naive<NaiveReduction::thread_per_row, Division::per_row>(),
                      {.barriers = 0, .bank_conflicts = 0}),
              variant("block_per_row", "reductions with one block per row: coalesced",
                      naive<NaiveReduction::block_per_row, Division::per_row>(),
                      {.barriers = 4, .bank_conflicts = 0}),
              variant("block_per_row_division", "the same, with an IEEE division for every element",
                      naive<NaiveReduction::block_per_row, Division::per_element>(),
                      {.barriers = 4, .bank_conflicts = 0}),
              variant(
                  "thrust_calls", "the same five steps as Thrust calls",
                  [](auto... arguments) { thrust_softmax(arguments...); }, {}, false),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
