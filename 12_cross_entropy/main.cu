#include "12_cross_entropy/separate.cuh"
#include "12_cross_entropy/traffic.h"
#include "common/harness/cli/run_stage.h"
#include "common/rowwise/kernels/loss/cluster_loss.cuh"
#include "common/rowwise/kernels/loss/narrow_rows.cuh"
#include "common/rowwise/kernels/loss/split_loss.cuh"

Stage stage() {
  return {
      .name = "12_cross_entropy",
      .idea = "a kernel that is not run: cross-entropy, alone and with its gradient",
      .variants =
          {
              variant<SeparateKernels<OpList<CrossEntropy>>>(
                  "unfused", "the loss: log-softmax writes a matrix, another kernel picks a column",
                  unfused_passes),
              variant<rowwise::OneRead>(
                  "one_read", "the loss: a block a row, which is read once and kept nowhere", one_read),
              variant<rowwise::DrawnRows>(
                  "drawn_rows", "blocks stay and draw rows: the next is under way while this one is merged",
                  in_one_read({.barriers = 1, .bank_conflicts = {}})),
              variant<rowwise::SplitLoss>(
                  "split_row", "few rows: many blocks share one, and leave a pair each", in_one_read()),
              variant<rowwise::ClusterLoss>(
                  "cluster_loss",
                  "few rows: the blocks of a cluster share one, and send their pairs to the first",
                  in_one_read()),
              variant<rowwise::ClusterAtOnce>(
                  "cluster_registers",
                  "the same of many rows: a row is on its way to the registers all at once", in_one_read()),
              variant<rowwise::NarrowRows>(
                  "narrow_rows",
                  "the loss, or with its gradient: 1 to 32 lanes a row, which stays in registers",
                  in_one_read({.barriers = 0, .bank_conflicts = {}})),
              variant<rowwise::SpanOfRows>(
                  "flat_span", "the same, of rows that packs of 16 bytes do not cover: many as one span",
                  span_passes),
              variant<SeparateKernels<OpList<WithGradient<CrossEntropy>>>>(
                  "unfused_gradient", "loss and gradient: three kernels, which hand on log-probabilities",
                  unfused_passes),
              variant<rowwise::KeptRows<false>>("read_again",
                                                "one kernel: the row is read a second time for the gradient",
                                                kept_passes<false>),
              variant<rowwise::InRegisters>("in_registers",
                                            "the row stays in the registers of a block, or of a warp",
                                            in_registers_passes),
              variant<rowwise::KeptRows<true>>("kept_row", "the row stays in shared memory",
                                               kept_passes<true>),
              variant<rowwise::UnalignedInCluster>("unaligned_cluster",
                                                   "any width at any place: a cluster for each row",
                                                   unaligned_cluster_passes),
          },
      .operations = cross_entropy_operations()};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
