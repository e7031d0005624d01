#include "13_masked_softmax/separate_masked.cuh"
#include "13_masked_softmax/traffic.h"
#include "common/harness/cli/run_stage.h"
#include "common/rowwise/kernels/forward/warp_reduce.cuh"

Stage stage() {
  return {
      .name = "13_masked_softmax",
      .idea = "attention's softmax: scale, mask and dropout come with what loads and stores",
      .variants =
          {
              variant<SeparateMaskedSoftmax>(
                  "four_kernels", "attention's softmax: scale, mask, softmax and dropout, a kernel each",
                  passes_of_four),
              variant<MaskedSoftmax<rowwise::Packs<true>>>(
                  "masked_in_a_warp",
                  "stage 03's kernel: it masks what it loads, and stores softmax and dropout",
                  fused_passes(1, 2, {.barriers = 0, .bank_conflicts = 0})),
              variant<MaskedSoftmax<rowwise::FusedRegisterSoftmax>>(
                  "masked_in_a_block",
                  "the same by stage 06's kernel, with the row in the registers of a block",
                  passes_in_a_block),
              variant<MaskedSoftmax<rowwise::OnlineSoftmax<rowwise::Rescale::per_chunk, Direction::forward>>>(
                  "masked_online", "any width: what is seen is read twice",
                  fused_passes(2, 2, {.barriers = 2, .bank_conflicts = {}})),
              variant<SeparateMaskedBackward>(
                  "three_kernels",
                  "its gradient: dropout, softmax's gradient, and scale and mask, a kernel each",
                  passes_of_three),
              variant<MaskedBackward>("masked_backward",
                                      "its gradient in one kernel: what was dropped is drawn again",
                                      fused_passes(2, 1, {})),
          },
      .operations = masked_softmax_operations()};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
