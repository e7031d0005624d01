#include "12_cross_entropy/separate.cuh"
#include "12_cross_entropy/traffic.h"
#include "common/harness/cli/run_stage.h"

Stage stage() {
  return {
      .name = "12_cross_entropy",
      .idea = "cross-entropy, alone or with its gradient, in one kernel",
      .variants =
          {
              variant<SeparateKernels<OpList<CrossEntropy>>>(
                  "unfused", "the loss: log-softmax writes a matrix, another kernel picks a column",
                  unfused_passes),
              variant<OneRead>("one_read", "the loss: one block per row reads it once and keeps none of it",
                               one_read_passes),
              variant<SeparateKernels<OpList<CrossEntropyGradient>>>(
                  "unfused_gradient", "loss and gradient: three kernels, which hand on log-probabilities",
                  unfused_passes),
              variant<InSharedMemory>("in_shared_memory", "loss and gradient: the row stays in shared memory",
                                      in_shared_memory_passes),
          },
      .operations = {&cross_entropy_operation, &cross_entropy_gradient_operation}};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
