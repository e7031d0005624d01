#include "15_several_gpus/device_exchange.cuh"
#include "15_several_gpus/host_collectives.cuh"
#include "15_several_gpus/two_all_reduces.cuh"
#include "15_several_gpus/variants.h"
#include "common/harness/column_split.h"
#include "common/harness/launches.cuh"

namespace {

/// Returns the part of each rank of this process.
template <class T>
std::vector<Part<T>> parts_of(const Problem& problem, const std::vector<Rank>& ranks, const Memory& memory) {
  const std::size_t inputs = memory.inputs.size() / ranks.size();
  std::vector<Part<T>> parts;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto [first, count] = columns_of(ranks[i].number, problem.devices, problem.shape.cols);
    Part<T> part{.x = static_cast<const T*>(memory.inputs[i * inputs]),
                 .shape = {problem.shape.rows, count},
                 .first_col = first,
                 .row_cols = problem.shape.cols};
    if (makes_loss(problem)) {
      part.labels = static_cast<const std::int64_t*>(memory.inputs[i * inputs + 1]);
      part.loss = static_cast<float*>(memory.outputs[i]);
    } else {
      part.y = static_cast<T*>(memory.outputs[i]);
    }
    parts.push_back(part);
  }
  return parts;
}

Shape widest_part(const Problem& problem) {
  return {problem.shape.rows, columns_of(0, problem.devices, problem.shape.cols).count};
}

/// The passes over all parts together. For the loss, parts are read less often and never written.
std::function<Traffic(const Problem&)> passes_of_parts(double reads, double reads_for_loss) {
  return [=](const Problem& problem) {
    return makes_loss(problem) ? whole_passes(reads_for_loss, 0)(problem) : whole_passes(reads, 1)(problem);
  };
}

// ---- The variants

Variant two_all_reduces(const Gpus& gpus) {
  return {.name = "two_all_reduces",
          .idea = "all-reduce the maximum, then the sum; then write",
          .prepare = [gpus](const Problem& problem, const Device&, const Memory& memory) -> Plan {
            return dispatch(SplitOperations{}, problem, [&]<class Op, class T>() -> Plan {
              const std::vector<Rank>& ranks = gpus->ranks(problem.devices);
              return [gpus, &ranks, parts = parts_of<T>(problem, ranks, memory),
                      workspaces = memory.workspaces](const Streams& streams) {
                TwoAllReduces::launch<Op>(ranks, parts, workspaces, streams);
              };
            });
          },
          .traffic = passes_of_parts(3, 2),
          .workspace =
              [](const Problem& problem, const Device&) {
                return Workspace{.bytes = TwoAllReduces::workspace_bytes(problem.shape.rows)};
              }};
}

Split split_of(const Problem& problem) {
  return HostCollectives::split(widest_part(problem), problem.element_bytes());
}

Variant host_collectives(const Gpus& gpus) {
  return {.name = "host_collectives",
          .idea = "one kernel computes pairs, NCCL gathers them, one merges and writes",
          .prepare = [=](const Problem& problem, const Device&, const Memory& memory) -> Plan {
            return dispatch(SplitOperations{}, problem, [&]<class Op, class T>() -> Plan {
              const std::vector<Rank>& ranks = gpus->ranks(problem.devices);
              return [gpus, &ranks, world = problem.devices, parts = parts_of<T>(problem, ranks, memory),
                      split = split_of(problem), workspaces = memory.workspaces](const Streams& streams) {
                HostCollectives::launch<Op>(ranks, world, parts, workspaces, split, streams);
              };
            });
          },
          .traffic = passes_of_parts(2, 1),
          .workspace =
              [](const Problem& problem, const Device&) {
                const Split split = split_of(problem);
                const std::int64_t rows = problem.shape.rows;
                const std::size_t of_one = makes_loss(problem)
                                               ? HostCollectives::message_bytes<CrossEntropy>(rows, split)
                                               : HostCollectives::message_bytes<Softmax>(rows, split);
                return Workspace{.bytes = static_cast<std::size_t>(1 + problem.devices) * of_one};
              }};
}

std::string not_for_device_exchange(const Problem& problem, const Device& /*device*/) {
  if (problem.devices < 2) return "needs another GPU: for one GPU, use stage 10";
  if (const Refusal refusal = has_clusters(current_gpu())) return words(refusal);
  const int here = std::min(problem.devices, count_devices());  // those of other machines say so themselves
  for (int i = 0; i < here; ++i) {
    for (int peer = 0; peer < here; ++peer) {
      int reaches = 1;
      if (i != peer) CUDA_CHECK(cudaDeviceCanAccessPeer(&reaches, i, peer));
      if (reaches == 0) return "needs GPUs that reach each other's memory (peer access)";
    }
  }
  const Matrix matrix = matrix_of(problem);
  if (const Refusal refusal = in_whole_packs(matrix)) return words(refusal);
  const Shape widest = widest_part(problem);
  const RowOnCluster layout = DeviceExchange::layout(widest.cols * problem.element_bytes());
  if (const Refusal refusal = has_cluster_each(layout, matrix, current_gpu())) return words(refusal);
  const std::int64_t most_cols =
      most_cols_of_parts(current_gpu().dynamic_bytes(), most_blocks_of_cluster, matrix);
  if (widest.cols > most_cols) {
    return "the blocks of a cluster must hold a part: at most " +
           std::to_string(problem.devices * most_cols) + " columns";
  }
  int clusters = 0;
  (void)dispatch(SplitOperations{}, problem, [&]<class Op, class T>() {
    clusters = DeviceExchange::clusters<Op, T>(widest.cols);
    return Plan{};
  });
  return clusters > 0 ? "" : "the GPU holds no cluster of that many blocks of this size";
}

Variant device_exchange(const Gpus& gpus) {
  return {
      .name = "device_exchange",
      .idea = "one kernel per GPU: its part stays on chip; kernels exchange messages",
      .prepare = [gpus](const Problem& problem, const Device&, const Memory& memory) -> Plan {
        return dispatch(SplitOperations{}, problem, [&]<class Op, class T>() -> Plan {
          if (problem.shape.rows == 0) return [](const Streams&) {};
          const std::vector<Rank>& ranks = gpus->ranks(problem.devices);
          const auto windows = gpus->windows(
              problem.devices, DeviceExchange::message_bytes<Op>(problem.shape.rows, problem.devices));
          const std::vector<Part<T>> parts = parts_of<T>(problem, ranks, memory);
          on_each(ranks, [&](const Rank&, std::size_t i) {
            (void)DeviceExchange::clusters<Op, T>(parts[i].shape.cols);
          });
          return [gpus, &ranks, windows, parts, workspaces = memory.workspaces](const Streams& streams) {
            on_each(ranks, [&](const Rank&, std::size_t i) {
              DeviceExchange::launch<Op>(parts[i], windows->mail(i), workspaces[i],
                                         streams[static_cast<int>(i)]);
            });
          };
        });
      },
      .traffic = passes_of_parts(1, 1),
      .unsupported = not_for_device_exchange,
      .workspace = [](const Problem&,
                      const Device&) { return Workspace{.bytes = sizeof(TicketCounter), .zeroed = true}; }};
}

}  // namespace

std::vector<Variant> split_variants(const Gpus& gpus) {
  return {two_all_reduces(gpus), host_collectives(gpus), device_exchange(gpus)};
}
