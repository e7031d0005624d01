#include "10_cluster/bulk_ring.cuh"
#include "10_cluster/cluster_registers.cuh"
#include "10_cluster/cluster_row.cuh"
#include "10_cluster/tickets.cuh"
#include "10_cluster/unaligned_cluster.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

template <class Launcher>
int clusters_that_fit(const Problem& problem, const RowOnCluster& row) {
  int clusters = 0;
  (void)dispatch(SoftmaxOperations{}, problem, [&]<class Op, class T>() {
    clusters = Launcher::template with_kernel<Op, T>(
        row, [&](auto kernel) { return clusters_at_once(kernel, row); });
    return Plan{};
  });
  return clusters;
}

std::string text(std::int64_t number) {
  return std::to_string(number);
}

/// Of a launcher of whole packs.
std::string too_few_packs(const Problem& problem, int cluster_size) {
  if (std::string reason = not_whole_packs(problem); !reason.empty()) return reason;
  const std::int64_t least_cols = cluster_size * 32 * 16 / problem.element_bytes();
  if (problem.shape.cols >= least_cols) return "";
  return "a pack for each lane of a warp in each block: at least " + text(least_cols) + " columns";
}

/// most_cols: the most that the blocks of a cluster hold of a row, and why.
template <class Launcher>
std::string unsupported(const Problem& problem, const Device& device, std::int64_t most_cols,
                        const std::string& why) {
  const std::int64_t size = problem.element_bytes();
  if (std::string reason = needs_clusters(device); !reason.empty()) return reason;
  if constexpr (!std::is_same_v<Launcher, UnalignedClusterRow>) {
    if (std::string reason = too_few_packs(problem, Launcher::cluster_size); !reason.empty()) return reason;
  }
  if (problem.shape.cols > most_cols) return at_most_columns(most_cols, why)(problem, device);
  const RowOnCluster row = Launcher::layout(problem.shape.cols * size, size_of(problem.dtype));
  return no_cluster_each(row, problem.shape.rows, clusters_that_fit<Launcher>(problem, row));
}

template <class Launcher>
std::string too_wide_for_shared_memory(const Problem& problem, const Device& device) {
  const auto shared_bytes = static_cast<std::int64_t>(device.shared_bytes_per_block) - most_static_bytes;
  const std::int64_t most_part_bytes = (shared_bytes - 128) / Launcher::slots / 128 * 128;
  const std::int64_t size = problem.element_bytes();
  return unsupported<Launcher>(problem, device, most_part_bytes * Launcher::cluster_size / size,
                               "a block's shared memory must hold its part of the row");
}

std::string too_wide_for_registers(const Problem& problem, const Device& device) {
  const std::int64_t size = problem.element_bytes();
  return unsupported<ClusterRegisters>(problem, device, ClusterRegisters::most_row_bytes / size,
                                       "sixteen blocks must hold the row in registers");
}

template <int cluster_size>
Variant row_per_cluster(std::string idea) {
  using Launcher = ClusterRow<cluster_size>;
  return {.name = "cluster_" + std::to_string(cluster_size),
          .idea = std::move(idea),
          .prepare = launches<Launcher>,
          .traffic = whole_passes(1, 1),
          .unsupported = too_wide_for_shared_memory<Launcher>};
}

template <class Launcher>
Variant drawing_tickets(std::string name, std::string idea) {
  return {.name = std::move(name),
          .idea = std::move(idea),
          .prepare = launches_with_workspace<Launcher>,
          .traffic = whole_passes(1, 1),
          .unsupported = too_wide_for_shared_memory<Launcher>,
          .workspace = [](const Problem&, const Device&) {
            return Workspace{.bytes = sizeof(TicketCounter), .zeroed = true};
          }};
}

}  // namespace

Stage stage() {
  return {.name = "10_cluster",
          .idea = "rows larger than an SM: the blocks of a cluster share one",
          .variants = {
              row_per_cluster<2>("two blocks share a row and send each other their pairs"),
              row_per_cluster<4>("four blocks"),
              row_per_cluster<8>("eight, the most that every GPU with clusters takes"),
              row_per_cluster<16>("sixteen, where the kernel asks for them"),
              {.name = "registers",
               .idea = "eight or sixteen, the row in registers; every warp sends its pair to all",
               .prepare = launches<ClusterRegisters>,
               .traffic = whole_passes(1, 1, {.barriers = 0, .bank_conflicts = 0}),
               .unsupported = too_wide_for_registers},
              {.name = "unaligned_cluster",
               .idea = "two to sixteen; any width at any place",
               .prepare = launches<UnalignedClusterRow>,
               .traffic = whole_passes(1, 1),
               .unsupported = too_wide_for_shared_memory<UnalignedClusterRow>},
              drawing_tickets<Tickets>("tickets", "clusters of sixteen stay and draw rows"),
              drawing_tickets<BulkRing>("bulk_ring", "the same; bulk copies, two rows on their way"),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
