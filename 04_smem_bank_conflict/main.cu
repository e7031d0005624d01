#include "04_smem_bank_conflict/smem.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// The row is written and read twice, in cols / 32 wavefronts each time if no lane waits; if `ways` lanes
/// meet in a bank, it takes `ways` times as many. Known for rows that fill every access.
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
  return {
      .name = "04_smem_bank_conflict",
      .idea = "the row waits in shared memory",
      .changes = Number::bank_conflicts,
      .variants = {
          variant<SharedMemorySoftmax<InterleavedScalarLayout>>(
              "interleaved_scalar_layout", "[num_packs][pack_size], word by word: conflicts",
              two_passes(4, 8)),
          variant<SharedMemorySoftmax<InterleavedLayout>>(
              "interleaved_layout", "[num_packs][pack_size], but nvcc may merge the words", two_passes(1, 2)),
          variant<SharedMemorySoftmax<TransposedLayout>>(
              "transposed_layout", "[pack_size][num_packs]: no conflicts", two_passes(1, 1)),
          variant<SharedMemorySoftmax<VectorLayout>>(
              "vector_layout", "16 bytes per shared access: no conflicts, fewer instructions",
              two_passes(1, 1)),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
