#include "11_backward/in_registers.cuh"
#include "11_backward/traffic.h"
#include "common/harness/cli/run_stage.h"

Stage stage() {
  std::vector<const Operation*> operations = backward_operations();
  operations.push_back(&recomputed_softmax_backward_operation);
  return {.name = "11_backward",
          .idea = "the gradient: two rows in, one sum, one row out",
          .variants =
              {
                  variant<WarpRegisters>("warp_registers", "a warp per row, both rows in its registers",
                                         whole_passes(2, 1, {.barriers = 0, .bank_conflicts = 0})),
                  variant<BlockRegisters>("block_registers", "a block per row, both rows in its registers",
                                          whole_passes(2, 1, {.barriers = 2, .bank_conflicts = 0})),
                  variant<Recomputed>("recomputed", "y is recomputed from x and each row's pair",
                                      recomputed_passes),
              },
          .operations = operations};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
