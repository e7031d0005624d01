#include "13_masked_softmax/separate_masked.cuh"
#include "13_masked_softmax/traffic.h"
#include "common/harness/cli/run_stage.h"

Stage stage() {
  return {
      .name = "13_masked_softmax",
      .idea = "attention's softmax: loads scale and mask, and stores apply dropout",
      .variants =
          {
              variant<SeparateMaskedSoftmax>(
                  "four_kernels", "one kernel each for scale, mask, softmax and dropout", passes_of_four),
              variant<MaskedSoftmax<FusedSoftmax>>(
                  "masked_in_a_block", "stage 06's kernel, with the masked row in the registers of a block",
                  passes_in_a_block),
              variant<SeparateMaskedBackward>(
                  "three_kernels", "the gradient: one kernel each for dropout, softmax, and scale and mask",
                  passes_of_three),
              variant<MaskedBackward>("masked_backward",
                                      "the gradient in one kernel, which draws the dropout mask again",
                                      fused_passes(2, 1, {})),
          },
      .operations = masked_softmax_operations()};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
