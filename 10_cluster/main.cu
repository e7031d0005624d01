#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/forward/cluster_registers.cuh"
#include "common/rowwise/kernels/forward/cluster_row.cuh"
#include "common/rowwise/kernels/forward/tickets.cuh"
#include "common/rowwise/kernels/forward/unaligned_cluster.cuh"

Stage stage() {
  return {
      .name = "10_cluster",
      .idea = "rows larger than an SM: the blocks of a cluster share each row",
      .variants = {
          variant<rowwise::ClusterRow<2>>(
              "cluster_2", "two blocks share a row and send each other their pairs", whole_passes(1, 1)),
          variant<rowwise::ClusterRow<4>>("cluster_4", "four blocks share a row", whole_passes(1, 1)),
          variant<rowwise::ClusterRow<8>>(
              "cluster_8", "eight blocks share a row: the most that every GPU with clusters takes",
              whole_passes(1, 1)),
          variant<rowwise::ClusterRow<16>>(
              "cluster_16", "sixteen blocks share a row, which the kernel must request", whole_passes(1, 1)),
          variant<rowwise::ClusterRegisters>(
              "registers", "8 or 16 blocks hold a row in registers; warps send their pairs to all",
              whole_passes(1, 1, {.barriers = 0, .bank_conflicts = 0})),
          variant<rowwise::UnalignedClusterRow>("unaligned_cluster",
                                                "2 to 16 blocks share a row of any width at any address",
                                                whole_passes(1, 1)),
          variant<rowwise::Tickets>("tickets",
                                    "persistent clusters of sixteen blocks draw their rows by ticket",
                                    whole_passes(1, 1)),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
