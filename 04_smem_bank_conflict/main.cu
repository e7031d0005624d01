#include "04_smem_bank_conflict/smem.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/direct_launch.cuh"

namespace {

std::string why_not(const Problem& problem) {
  const std::int64_t most = max_shared_memory_cols();
  if (problem.shape.cols <= most) return "";
  return "the row must fit a block's shared memory as float: at most " + std::to_string(most) +
         " columns here";
}

/// The row is written and read twice, in cols / 32 wavefronts each time if no lane waits; where `ways` lanes
/// meet in a bank, in `ways` times as many. Known for rows that fill every access.
Traffic traffic(const Problem& problem, int ways) {
  Traffic traffic = whole_passes(1, 1, {.barriers = 4, .bank_conflicts = {}})(problem);
  const std::int64_t cols = problem.shape.cols;
  if (ways == 1 || cols % 256 == 0) traffic.row.bank_conflicts = 4.0 * (ways - 1) * cols / 32;
  return traffic;
}

template <class Layout>
Variant variant(const char* name, const char* idea, int ways_f32, int ways_f16) {
  const auto launch = direct_launch(
      [](auto op, auto... arguments) { launch_shared_memory_softmax<op(), Layout>(arguments...); });
  const auto traffic_of = [=](const Problem& problem) {
    return traffic(problem, problem.dtype == DType::f32 ? ways_f32 : ways_f16);
  };
  return {name, idea, launch, traffic_of, why_not};
}

}  // namespace

Stage stage() {
  return {
      "04_smem_bank_conflict",
      "the row waits in shared memory",
      {
          variant<InterleavedScalarLayout>("interleaved_scalar_layout",
                                           "[num_packs][pack], word by word: conflicts", 4, 8),
          variant<InterleavedLayout>("interleaved_layout", "the same, where nvcc may merge the words", 1, 2),
          variant<TransposedLayout>("transposed_layout", "[pack][num_packs]: no conflict", 1, 1),
          variant<VectorLayout>("vector_layout",
                                "16 bytes per shared access: no conflict, fewer instructions", 1, 1),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
