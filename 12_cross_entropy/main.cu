#include "12_cross_entropy/separate.cuh"
#include "12_cross_entropy/traffic.h"
#include "common/harness/cli/run_stage.h"
#include "common/rowwise/kernels/loss/cluster_loss.cuh"
#include "common/rowwise/kernels/loss/narrow_rows.cuh"
#include "common/rowwise/kernels/loss/split_loss.cuh"

Stage stage() {
  return {
      .name = "12_cross_entropy",
      .idea = "cross-entropy, alone or with its gradient, in one kernel",
      .variants =
          {
              variant<SeparateKernels<OpList<CrossEntropy>>>(
                  "unfused", "the loss: log-softmax writes a matrix, another kernel picks a column",
                  unfused_passes),
              variant<rowwise::OneRead>(
                  "one_read", "the loss: one block per row reads it once and keeps none of it", one_read),
              variant<rowwise::DrawnRows>(
                  "drawn_rows", "the loss: persistent blocks load the next row while they merge this one",
                  in_one_read({.barriers = 1, .bank_conflicts = {}})),
              variant<rowwise::SplitLoss>(
                  "split_row", "the loss, few rows: many blocks share a row, and leave a pair each",
                  in_one_read()),
              variant<rowwise::ClusterLoss>(
                  "cluster_loss",
                  "the loss, few rows: a cluster shares a row; its first block gets the pairs",
                  in_one_read()),
              variant<rowwise::ClusterAtOnce>(
                  "cluster_registers",
                  "the loss, many rows: a cluster loads its whole row into registers at once", in_one_read()),
              variant<rowwise::NarrowRows>(
                  "narrow_rows", "loss, or loss and gradient: 1 to 32 lanes keep a row in registers",
                  in_one_read({.barriers = 0, .bank_conflicts = {}})),
              variant<rowwise::SpanOfRows>(
                  "flat_span", "loss, or loss and gradient: many narrow, unaligned rows as one span",
                  span_passes),
              variant<SeparateKernels<OpList<WithGradient<CrossEntropy>>>>(
                  "unfused_gradient", "loss and gradient: three kernels, which hand on log-probabilities",
                  unfused_passes),
              variant<rowwise::KeptRows<false>>(
                  "read_again", "loss and gradient: one kernel reads the row again for the gradient",
                  kept_passes<false>),
              variant<rowwise::InRegisters>(
                  "in_registers", "loss and gradient: the row stays in registers of a block or a warp",
                  in_registers_passes),
              variant<rowwise::KeptRows<true>>(
                  "kept_row", "loss and gradient: the row stays in shared memory", kept_passes<true>),
              variant<rowwise::UnalignedInCluster>(
                  "unaligned_cluster", "loss and gradient, any width, any address: one cluster per row",
                  unaligned_cluster_passes),
          },
      .operations = cross_entropy_operations()};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
