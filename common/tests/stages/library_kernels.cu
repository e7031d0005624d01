// A stage for tests: the library's kernels, which mutants.py compiles with mistakes in them. They have the names that
// common/rowwise/bench/main.cu gives them; scalar_loads and narrow_groups, which it does not list, are parts of two of them.
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/backward/exchange_gradient.cuh"
#include "common/rowwise/kernels/backward/flat_span.cuh"
#include "common/rowwise/kernels/backward/head_and_tail.cuh"
#include "common/rowwise/kernels/backward/in_cluster.cuh"
#include "common/rowwise/kernels/backward/in_registers.cuh"
#include "common/rowwise/kernels/backward/in_shared_memory.cuh"
#include "common/rowwise/kernels/backward/split_gradient.cuh"
#include "common/rowwise/kernels/backward/unaligned.cuh"
#include "common/rowwise/kernels/forward/cluster_registers.cuh"
#include "common/rowwise/kernels/forward/cluster_row.cuh"
#include "common/rowwise/kernels/forward/flat_span.cuh"
#include "common/rowwise/kernels/forward/head_and_tail.cuh"
#include "common/rowwise/kernels/forward/online.cuh"
#include "common/rowwise/kernels/forward/row_exchange.cuh"
#include "common/rowwise/kernels/forward/row_in_flight.cuh"
#include "common/rowwise/kernels/forward/tickets.cuh"
#include "common/rowwise/kernels/forward/unaligned_cluster.cuh"
#include "common/rowwise/kernels/forward/warp_reduce.cuh"
#include "common/rowwise/kernels/loss/cluster_loss.cuh"
#include "common/rowwise/kernels/loss/in_registers.cuh"
#include "common/rowwise/kernels/loss/kept_row.cuh"
#include "common/rowwise/kernels/loss/loss.cuh"
#include "common/rowwise/kernels/loss/narrow_rows.cuh"
#include "common/rowwise/kernels/loss/span_loss.cuh"
#include "common/rowwise/kernels/loss/split_loss.cuh"
#include "common/rowwise/kernels/loss/unaligned_cluster.cuh"

Stage stage() {
  std::vector<const Operation*> operations = softmax_operations();
  for (const auto& more : {backward_operations(), cross_entropy_operations()}) {
    operations.insert(operations.end(), more.begin(), more.end());
  }
  return {.name = "library_kernels",
          .idea = "the kernels of the library, for tests",
          .variants =
              {
                  variant<rowwise::ScalarLoads>("scalar_loads", "", least_traffic),
                  variant<rowwise::PaddedPacks>("padded_packs", "", least_traffic),
                  variant<rowwise::NarrowGroups>("narrow_groups", "", least_traffic),
                  variant<rowwise::TwoOrThreePacks>("two_or_three_packs", "", least_traffic),
                  variant<rowwise::FusedRegisterSoftmax>("fused", "", least_traffic),
                  variant<rowwise::OnlineSoftmax>("online", "", least_traffic),
                  variant<rowwise::RowExchange>("row_exchange", "", least_traffic),
                  variant<rowwise::HeadAndTail>("head_and_tail", "", least_traffic),
                  variant<rowwise::FlatSpan>("flat_span", "", least_traffic),
                  variant<rowwise::RowInFlight>("row_in_flight", "", least_traffic),
                  variant<rowwise::ClusterRow<2>>("cluster_2", "", least_traffic),
                  variant<rowwise::ClusterRegisters>("registers", "", least_traffic),
                  variant<rowwise::Tickets>("tickets", "", least_traffic),
                  variant<rowwise::UnalignedClusterRow>("unaligned_cluster", "", least_traffic),
                  variant<rowwise::WarpRegisters>("backward_warp_registers", "", least_traffic),
                  variant<rowwise::BlockRegisters>("backward_block_registers", "", least_traffic),
                  variant<rowwise::SharedMemory>("backward_shared_memory", "", least_traffic),
                  variant<rowwise::Cluster>("backward_cluster", "", least_traffic),
                  variant<rowwise::HeadAndTailOfTwoRows>("backward_head_and_tail", "", least_traffic),
                  variant<rowwise::SpanOfTwoRows>("backward_flat_span", "", least_traffic),
                  variant<rowwise::Unaligned>("backward_unaligned", "", least_traffic),
                  variant<rowwise::UnalignedCluster>("backward_unaligned_cluster", "", least_traffic),
                  variant<rowwise::SplitInTwoKernels>("backward_two_kernels", "", least_traffic),
                  variant<rowwise::SplitWithExchange>("backward_row_exchange", "", least_traffic),
                  variant<rowwise::NarrowRows>("loss_narrow_rows", "", least_traffic),
                  variant<rowwise::SpanOfRows>("loss_flat_span", "", least_traffic),
                  variant<rowwise::OneRead>("loss_one_read", "", least_traffic),
                  variant<rowwise::DrawnRows>("loss_drawn_rows", "", least_traffic),
                  variant<rowwise::SplitLoss>("loss_split_row", "", least_traffic),
                  variant<rowwise::ClusterLoss>("loss_cluster_loss", "", least_traffic),
                  variant<rowwise::ClusterAtOnce>("loss_cluster_registers", "", least_traffic),
                  variant<rowwise::InRegisters>("gradient_in_registers", "", least_traffic),
                  variant<rowwise::UnalignedInCluster>("gradient_unaligned_cluster", "", least_traffic),
                  variant<rowwise::KeptRows>("gradient_kept_row", "", least_traffic),
              },
          .operations = operations};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
