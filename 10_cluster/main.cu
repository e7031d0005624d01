#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/forward/cluster_registers.cuh"
#include "common/rowwise/kernels/forward/cluster_row.cuh"
#include "common/rowwise/kernels/forward/tickets.cuh"
#include "common/rowwise/kernels/forward/unaligned_cluster.cuh"

Stage stage() {
  return {
      .name = "10_cluster",
      .idea = "rows larger than an SM: the blocks of a cluster share one",
      .variants = {
          variant<rowwise::ClusterRow<2>>(
              "cluster_2", "two blocks share a row and send each other their pairs", whole_passes(1, 1)),
          variant<rowwise::ClusterRow<4>>("cluster_4", "four blocks", whole_passes(1, 1)),
          variant<rowwise::ClusterRow<8>>("cluster_8", "eight, the most that every GPU with clusters takes",
                                          whole_passes(1, 1)),
          variant<rowwise::ClusterRow<16>>("cluster_16", "sixteen, where the kernel asks for them",
                                           whole_passes(1, 1)),
          variant<rowwise::ClusterRegisters>(
              "registers", "eight or sixteen, the row in registers; every warp sends its pair to all",
              whole_passes(1, 1, {.barriers = 0, .bank_conflicts = 0})),
          variant<rowwise::UnalignedClusterRow>("unaligned_cluster", "two to sixteen; any width at any place",
                                                whole_passes(1, 1)),
          variant<rowwise::Tickets>("tickets", "clusters of sixteen stay and draw rows", whole_passes(1, 1)),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
