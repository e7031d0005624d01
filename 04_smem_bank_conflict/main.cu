#include "04_smem_bank_conflict/smem.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

std::string too_wide(const Problem& problem, const Device& device) {
  const std::int64_t most = max_shared_memory_cols(device.shared_bytes_per_block);
  if (problem.shape.cols <= most) return "";
  return "the row must fit a block's shared memory as float: at most " + std::to_string(most) +
         " columns here";
}

/// The row is written and read twice, in cols / 32 wavefronts each time if no lane waits; where `ways` lanes
/// meet in a bank, in `ways` times as many. Known for rows that fill every access.
std::function<Traffic(const Problem&)> two_passes(int ways_f32, int ways_f16) {
  return [=](const Problem& problem) {
    Traffic traffic = whole_passes(1, 1, {.barriers = 4, .bank_conflicts = {}})(problem);
    const std::int64_t cols = problem.shape.cols;
    const int ways = problem.dtype == DType::f32 ? ways_f32 : ways_f16;
    if (ways == 1 || cols % 256 == 0) traffic.row.bank_conflicts = 4.0 * (ways - 1) * cols / 32;
    return traffic;
  };
}

}  // namespace

Stage stage() {
  return {.name = "04_smem_bank_conflict",
          .idea = "the row waits in shared memory",
          .changes = Number::bank_conflicts,
          .variants = {
              {.name = "interleaved_scalar_layout",
               .idea = "[num_packs][pack], word by word: conflicts",
               .prepare = launches_load_store<SharedMemorySoftmax<InterleavedScalarLayout>>,
               .traffic = two_passes(4, 8),
               .unsupported = too_wide},
              {.name = "interleaved_layout",
               .idea = "the same, where nvcc may merge the words",
               .prepare = launches_load_store<SharedMemorySoftmax<InterleavedLayout>>,
               .traffic = two_passes(1, 2),
               .unsupported = too_wide},
              {.name = "transposed_layout",
               .idea = "[pack][num_packs]: no conflict",
               .prepare = launches_load_store<SharedMemorySoftmax<TransposedLayout>>,
               .traffic = two_passes(1, 1),
               .unsupported = too_wide},
              {.name = "vector_layout",
               .idea = "16 bytes per shared access: no conflict, fewer instructions",
               .prepare = launches_load_store<SharedMemorySoftmax<VectorLayout>>,
               .traffic = two_passes(1, 1),
               .unsupported = too_wide},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
