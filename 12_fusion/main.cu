#include "12_fusion/in_cluster.cuh"
#include "12_fusion/kept_row.cuh"
#include "12_fusion/loss.cuh"
#include "12_fusion/separate.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

using Losses = Operations<CrossEntropy, SmoothedCrossEntropy>;
using Gradients = Operations<WithGradient<CrossEntropy>, WithGradient<SmoothedCrossEntropy>>;
using NotSmoothed = Operations<CrossEntropy, WithGradient<CrossEntropy>>;

/// Variant::prepare of Launcher::launch<Op>(Tensors, stream).
template <class Launcher, class Ops>
Plan launches_of(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return dispatch(Ops{}, problem, [&]<class Op, class T>() -> Plan {
    const Tensors<T> tensors{.x = static_cast<const T*>(memory.inputs[0]),
                             .labels = static_cast<const std::int64_t*>(memory.inputs[1]),
                             .loss = static_cast<float*>(memory.outputs[0]),
                             .dx = memory.outputs.size() > 1 ? static_cast<T*>(memory.outputs[1]) : nullptr,
                             .workspace = memory.workspace,
                             .shape = problem.shape};
    return [=](cudaStream_t stream) { Launcher::template launch<Op>(tensors, stream); };
  });
}

bool has_gradient(const Problem& problem) {
  return is_one_of(Gradients{}, problem.op);
}

// ---- What the variants cannot do.

std::string too_wide(const Problem& problem, const Device& device) {
  return at_most_columns(1 << 30, "a column must fit 32 bits")(problem, device);
}

std::string not_the_loss_alone(const Problem& problem, const Device& device) {
  return has_gradient(problem) ? "makes the loss alone" : too_wide(problem, device);
}

std::string cannot_draw(const Problem& problem, const Device& device) {
  if (problem.shape.rows > most_rows_to_draw) return "rows are drawn by 32 bits: at most 2147483648 rows";
  return not_the_loss_alone(problem, device);
}

std::string no_gradient(const Problem& problem, const Device& device) {
  return has_gradient(problem) ? too_wide(problem, device) : "makes the gradient, too";
}

std::string smoothed(const Problem& problem, const Device& device) {
  if (!is_one_of(NotSmoothed{}, problem.op)) return "smoothed labels need the mean of a row: a kernel more";
  return too_wide(problem, device);
}

std::string no_cluster(const Problem& problem, const Device& device) {
  if (std::stoi(device.compute_capability) < 9) return "needs clusters (9.0)";
  if (std::string reason = no_gradient(problem, device); !reason.empty()) return reason;
  if (std::string reason = not_whole_packs(problem); !reason.empty()) return reason;
  const auto size = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t most_part = 1024 * InCluster::packs_per_thread * 16;
  const auto shared_bytes = static_cast<std::int64_t>(device.shared_bytes_per_block) - most_static_bytes;
  const std::int64_t most_cols = min(most_part, shared_bytes / 128 * 128) * most_blocks_of_cluster / size;
  const std::string reason =
      at_most_columns(most_cols, "the blocks of a cluster must hold the row")(problem, device);
  if (!reason.empty()) return reason;
  const RowOnCluster row = InCluster::layout(problem.shape.cols * size);
  int clusters = 0;
  (void)dispatch(Gradients{}, problem, [&]<class Op, class T>() {
    clusters = clusters_at_once(InCluster::kernel<Op, T>, row);
    return Plan{};
  });
  if (clusters > 0) return "";
  return "the GPU holds no cluster of " + std::to_string(row.cluster_size) + " such blocks";
}

// ---- What they move.

/// x is read so many times, and a matrix of floats; the label by so many warps for each row, and there x once more. dx is
/// written, and the loss.
Traffic traffic_of(const Problem& problem, double reads, double label_readers, RowCosts row = {}) {
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  const std::int64_t rows = problem.shape.rows;
  const std::int64_t ignored_rows = (rows + 4) / 8;  // as the harness fills them: those with rest 3
  const double at_label =
      static_cast<double>(size_of(problem.dtype)) * static_cast<double>(rows - ignored_rows);
  const auto per_row = static_cast<double>(rows);
  return {reads * matrix + 8 * label_readers * per_row + at_label,
          (has_gradient(problem) ? matrix : 0) + 4 * per_row, row};
}

Workspace one_counter(const Problem& /*problem*/, const Device& /*device*/) {
  return {.bytes = sizeof(TicketCounter), .zeroed = true};
}

Traffic one_read(const Problem& problem) {
  return traffic_of(problem, 1, 1, {.barriers = 2, .bank_conflicts = 0});
}

template <int block_size, int packs>
Variant drawn(std::string name) {
  return {.name = std::move(name),
          .idea = "blocks stay and draw rows: the next is under way while this one is merged",
          .prepare = launches_of<DrawnRows<block_size, packs>, Losses>,
          .traffic =
              [](const Problem& problem) {
                return traffic_of(problem, 1, 1, {.barriers = 1, .bank_conflicts = 0});
              },
          .unsupported = cannot_draw,
          .workspace = one_counter};
}
template <int block_size, int packs, bool by_pack = false>
Variant one(std::string name) {
  return {.name = std::move(name),
          .idea = "the loss: a block a row, which is read once and kept nowhere",
          .prepare = launches_of<OneRead<block_size, packs, by_pack>, Losses>,
          .traffic = one_read,
          .unsupported = not_the_loss_alone};
}

}  // namespace

Stage stage() {
  return {.name = "12_fusion",
          .idea = "cross-entropy: the loss, and its gradient, of what is read once",
          .variants =
              {
                  {.name = "separate_kernels",
                   .idea = "log-softmax, then a pick, then the gradient: what is fused elsewhere",
                   .prepare = launches_of<SeparateKernels, NotSmoothed>,
                   .traffic = [](const Problem& problem) { return traffic_of(problem, 2, 1); },
                   .unsupported = smoothed,
                   .workspace =
                       [](const Problem& problem, const Device&) {
                         return Workspace{.bytes = static_cast<std::size_t>(problem.shape.elements()) *
                                                   sizeof(float)};
                       }},
                  one<512, 4>("one_read"),
                  one<512, 2>("one_read_512_2"),
                  one<256, 4>("one_read_256_4"),
                  one<1024, 4>("one_read_1024_4"),
                  one<512, 4, true>("one_read_512_4_by_pack"),
                  one<256, 4, true>("one_read_256_4_by_pack"),
                  drawn<512, 2>("drawn_rows"),
                  drawn<512, 3>("drawn_rows_512_3"),
                  drawn<512, 4>("drawn_rows_512_4"),
                  drawn<1024, 2>("drawn_rows_1024_2"),
                  drawn<256, 2>("drawn_rows_256_2"),
                  drawn<256, 3>("drawn_rows_256_3"),
                  {.name = "split_row",
                   .idea = "few rows: many blocks share one, and leave a pair each",
                   .prepare = launches_of<SplitLoss, Losses>,
                   .traffic = [](const Problem& problem) { return traffic_of(problem, 1, 1); },
                   .unsupported = not_the_loss_alone,
                   .workspace =
                       [](const Problem& problem, const Device&) {
                         return Workspace{.bytes = SplitLoss::workspace_bytes(problem.shape)};
                       }},
                  {.name = "read_again",
                   .idea = "with the gradient: the row is read a second time for it",
                   .prepare = launches_of<KeptRows<false>, Gradients>,
                   .traffic = [](const Problem& problem) { return traffic_of(problem, 2, 1); },
                   .unsupported = no_gradient},
                  {.name = "kept_row",
                   .idea = "with the gradient: the row stays in shared memory",
                   .prepare = launches_of<KeptRows<true>, Gradients>,
                   .traffic = [](const Problem& problem) { return traffic_of(problem, 1, 1); },
                   .unsupported = no_gradient},
                  {.name = "cluster",
                   .idea = "with the gradient: the row stays in a cluster, which draws rows",
                   .prepare = launches_of<InCluster, Gradients>,
                   .traffic = [](const Problem& problem) { return traffic_of(problem, 1, 1); },
                   .unsupported = no_cluster,
                   .workspace = one_counter},
              },
          .operations = cross_entropy_operations()};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
