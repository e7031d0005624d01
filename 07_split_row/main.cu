#include "07_split_row/row_exchange.cuh"
#include "07_split_row/split_row.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// A pair for each part, from one kernel to the next.
template <class Launcher>
Workspace pairs_of_parts(const Problem& problem, const Device& /*device*/) {
  return {.bytes = Launcher::workspace_bytes(problem.shape)};
}

/// Slots, which a launch leaves empty.
template <class Launcher>
Workspace slots_of_rows(const Problem& problem, const Device& /*device*/) {
  return {.bytes = Launcher::workspace_bytes(problem.shape), .zeroed = true};
}

template <class Launcher>
std::string too_wide(const Problem& problem, const Device& device) {
  return at_most_columns(Launcher::max_cols(), "a row must fit the registers of the GPU")(problem, device);
}

template <Dependence dependence>
Variant two_kernels(std::string name, std::string idea) {
  using Launcher = TwoKernels<dependence>;
  return {.name = std::move(name),
          .idea = std::move(idea),
          .prepare = launches_load_store_with_workspace<Launcher>,
          .traffic = whole_passes(2, 1),
          .workspace = pairs_of_parts<Launcher>};
}

template <SplitBy split_by>
Variant row_exchange(std::string name, std::string idea) {
  using Launcher = RowExchange<split_by>;
  return {.name = std::move(name),
          .idea = std::move(idea),
          .prepare = launches_load_store_with_workspace<Launcher>,
          .traffic = whole_passes(1, 1),
          .unsupported = too_wide<Launcher>,
          .workspace = slots_of_rows<Launcher>};
}

}  // namespace

Stage stage() {
  return {.name = "07_split_row",
          .idea = "few rows: many blocks share one",
          .variants = {
              two_kernels<Dependence::complete>("two_kernels", "a pair per part; then merge and write"),
              two_kernels<Dependence::programmatic>("dependent_launch",
                                                    "the same, the second kernel starts early"),
              row_exchange<SplitBy::rows_and_cols>("row_exchange",
                                                   "one kernel: blocks send each other their pairs"),
              row_exchange<SplitBy::cols>("fixed_split", "the same, parts that depend on the columns alone"),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
