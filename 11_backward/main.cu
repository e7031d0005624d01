#include "11_backward/traffic.h"
#include "common/harness/cli/run_stage.h"
#include "common/rowwise/kernels/backward/exchange_gradient.cuh"
#include "common/rowwise/kernels/backward/flat_span.cuh"
#include "common/rowwise/kernels/backward/head_and_tail.cuh"
#include "common/rowwise/kernels/backward/in_cluster.cuh"
#include "common/rowwise/kernels/backward/in_registers.cuh"
#include "common/rowwise/kernels/backward/in_shared_memory.cuh"
#include "common/rowwise/kernels/backward/split_gradient.cuh"

Stage stage() {
  std::vector<const Operation*> operations = backward_operations();
  operations.push_back(&recomputed_softmax_backward_operation);
  return {
      .name = "11_backward",
      .idea = "the gradient: two rows in, one sum, one row out",
      .variants =
          {
              variant<rowwise::WarpRegisters>("warp_registers",
                                              "1 to 32 lanes per row, both rows in their registers",
                                              whole_passes(2, 1, {.barriers = 0, .bank_conflicts = 0})),
              variant<rowwise::BlockRegisters>("block_registers",
                                               "one block per row, both rows in its registers",
                                               whole_passes(2, 1, {.barriers = 2, .bank_conflicts = 0})),
              variant<rowwise::BlockRegistersInTwoFloats>(
                  "two_floats", "one block per row; a sum in two floats loses no digits",
                  whole_passes(2, 1, {.barriers = 2, .bank_conflicts = {}})),
              variant<rowwise::SharedMemory>("shared_memory",
                                             "both rows in shared memory, in the matrix's own type",
                                             whole_passes(2, 1, {.barriers = 2, .bank_conflicts = 0})),
              variant<rowwise::Cluster>("cluster",
                                        "2 to 16 blocks share both rows and send each other their sums",
                                        whole_passes(2, 1)),
              variant<rowwise::HeadAndTailOfTwoRows>(
                  "head_and_tail", "any width: packs and single elements, in registers", whole_passes(2, 1)),
              variant<rowwise::SpanOfTwoRows>(
                  "flat_span", "narrow rows of any width: one aligned span of many, via shared memory",
                  whole_passes(2, 1)),
              variant<rowwise::Unaligned>("unaligned",
                                          "any width, any address: rows go through shared memory in packs",
                                          unaligned_passes),
              variant<rowwise::UnalignedCluster>("unaligned_cluster",
                                                 "any width, any address: 2 to 16 blocks keep the whole row",
                                                 whole_passes(2, 1)),
              variant<rowwise::SplitInTwoKernels>(
                  "two_kernels", "few rows: one kernel sums parts of rows; another adds and writes",
                  reads_for_the_sum_and_again),
              variant<rowwise::SplitWithExchange>(
                  "row_exchange", "few rows: one kernel, whose blocks send each other their sums",
                  whole_passes(2, 1)),
              variant<Recomputed>("recomputed", "y is recomputed from x and each row's pair",
                                  recomputed_passes),
          },
      .operations = operations};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
