#include "04_smem_bank_conflict/smem.cuh"
#include "common/direct_launch.cuh"
#include "common/harness.h"

namespace {

std::string why_not(const Problem& problem) {
  const std::int64_t most = max_shared_memory_cols();
  if (problem.shape.cols <= most) return "";
  return "the row must fit a block's shared memory as float: at most " + std::to_string(most) +
         " columns here";
}

template <class Layout>
Variant variant(const char* name, const char* idea) {
  const auto launch = direct_launch(
      [](auto op, auto... arguments) { launch_shared_memory_softmax<op(), Layout>(arguments...); });
  return {name, idea, launch, whole_passes(1, 1), why_not};
}

}  // namespace

Stage stage() {
  return {"04_smem_bank_conflict",
          "the row waits in shared memory",
          {
              variant<InterleavedScalarLayout>("interleaved_scalar_layout",
                                               "[num_packs][pack], word by word: conflicts"),
              variant<InterleavedLayout>("interleaved_layout", "the same, where nvcc may merge the words"),
              variant<TransposedLayout>("transposed_layout", "[pack][num_packs]: no conflict"),
              variant<VectorLayout>("vector_layout",
                                    "16 bytes per shared access: no conflict, fewer instructions"),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
