#include "10_cluster/cluster.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

Stage stage() {
  return {
      .name = "10_cluster",
      .idea = "rows larger than an SM: the blocks of a cluster share each row",
      .variants = {
          variant<ClusterRow<TwoBarriers, 8>>(
              "two_barriers_8", "eight blocks share a row and wait at two barriers of their cluster",
              whole_passes(1, 1)),
          variant<ClusterRow<OneWay, 4>>(
              "one_way_4", "four blocks share a row; each pair reports its own arrival", whole_passes(1, 1)),
          variant<ClusterRow<OneWay, 8>>(
              "one_way_8", "eight blocks: the most that every GPU with clusters takes", whole_passes(1, 1)),
          variant<ClusterRow<OneWay, 16>>("one_way_16", "sixteen blocks, which the kernel must request",
                                          whole_passes(1, 1)),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
