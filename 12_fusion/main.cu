#include "12_fusion/cluster_loss.cuh"
#include "12_fusion/in_cluster.cuh"
#include "12_fusion/in_registers.cuh"
#include "12_fusion/kept_row.cuh"
#include "12_fusion/loss.cuh"
#include "12_fusion/masked_variants.cuh"
#include "12_fusion/narrow_rows.cuh"
#include "12_fusion/separate.cuh"
#include "12_fusion/span_loss.cuh"
#include "12_fusion/split_loss.cuh"
#include "12_fusion/unaligned_cluster.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

using Losses = Operations<CrossEntropy, SmoothedCrossEntropy>;
using Gradients = Operations<WithGradient<CrossEntropy>, WithGradient<SmoothedCrossEntropy>>;
using LossesAndGradients = Operations<CrossEntropy, SmoothedCrossEntropy, WithGradient<CrossEntropy>,
                                      WithGradient<SmoothedCrossEntropy>>;
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

bool asks_for_gradient(const Problem& problem) {
  return is_one_of(Gradients{}, problem.op);
}

// ---- What the variants cannot do.

std::string too_wide(const Problem& problem, const Device& device) {
  return at_most_columns(1 << 30, "a column must fit 32 bits")(problem, device);
}

std::string not_the_loss_alone(const Problem& problem, const Device& device) {
  return is_one_of(Losses{}, problem.op) ? too_wide(problem, device)
                                         : "makes the loss alone: --op cross_entropy";
}

std::string cannot_draw(const Problem& problem, const Device& device) {
  if (problem.shape.rows > most_rows_to_draw) return "rows are drawn by 32 bits: at most 2147483648 rows";
  return not_the_loss_alone(problem, device);
}

std::string no_gradient(const Problem& problem, const Device& device) {
  return asks_for_gradient(problem) ? too_wide(problem, device)
                                    : "makes dx, too: --op cross_entropy_gradient";
}

std::string too_wide_for_lanes(const Problem& problem, const Device& device) {
  if (!is_one_of(LossesAndGradients{}, problem.op)) return "makes a loss: --op cross_entropy";
  const std::int64_t size = problem.element_bytes();
  const std::int64_t most_cols =
      asks_for_gradient(problem)
          ? NarrowRows::most_cols<WithGradient<CrossEntropy>>(problem.lie_alike(), size)
          : NarrowRows::most_cols<CrossEntropy>(problem.lie_alike(), size);
  return at_most_columns(most_cols, "the row must fit the registers of a warp")(problem, device);
}

std::string not_for_a_span(const Problem& problem, const Device& device) {
  if (!is_one_of(LossesAndGradients{}, problem.op)) return "makes a loss: --op cross_entropy";
  if (std::string reason = not_in_odd_packs(problem); !reason.empty()) return reason;
  const std::int64_t most_cols = most_cols_of_span_in(device.shared_bytes_per_block, problem.element_bytes());
  return at_most_columns(most_cols, "32 rows must fit the registers of a block")(problem, device);
}

std::string too_wide_for_registers(const Problem& problem, const Device& device) {
  if (std::string reason = no_gradient(problem, device); !reason.empty()) return reason;
  if (!problem.lie_alike()) return "x and dx must lie equally far past a pack of 16 bytes";
  return at_most_columns(most_cols_in_registers, "the row must fit the registers of a block")(problem,
                                                                                              device);
}

/// Of the kernels that follow a log-softmax.
std::string smoothed(const Problem& problem) {
  return is_one_of(NotSmoothed{}, problem.op) ? "" : "smoothed labels need a mean, by one kernel more";
}

/// Launcher: InCluster, UnalignedInCluster, ClusterLoss, ClusterAtOnce.
template <class Launcher, class Ops>
std::string no_cluster(const Problem& problem) {
  const RowOnCluster row = Launcher::layout(problem.shape.cols * problem.element_bytes(), problem.shape.rows);
  int clusters = 0;
  (void)dispatch(Ops{}, problem, [&]<class Op, class T>() {
    clusters = clusters_at_once(Launcher::template kernel<Op, T>(row), row);
    return Plan{};
  });
  return no_cluster_each(row, problem.shape.rows, clusters);
}

/// The same of the gradient, of which a block may keep so many bytes of a row.
template <class Launcher>
std::string no_cluster_for_gradient(const Problem& problem, const Device& device, std::int64_t most_part) {
  const std::int64_t most_cols = most_part / 128 * 128 * most_blocks_of_cluster / problem.element_bytes();
  const std::string reason =
      at_most_columns(most_cols, "the blocks of a cluster must hold the row")(problem, device);
  return reason.empty() ? no_cluster<Launcher, Gradients>(problem) : reason;
}

std::string no_cluster_for_loss(const Problem& problem, const Device& device) {
  if (std::string reason = needs_clusters(device); !reason.empty()) return reason;
  if (std::string reason = not_the_loss_alone(problem, device); !reason.empty()) return reason;
  return no_cluster<ClusterLoss, Losses>(problem);
}

std::string too_wide_for_cluster_registers(const Problem& problem, const Device& device) {
  if (std::string reason = needs_clusters(device); !reason.empty()) return reason;
  if (std::string reason = not_the_loss_alone(problem, device); !reason.empty()) return reason;
  const std::int64_t most_cols = ClusterAtOnce::most_row_bytes / problem.element_bytes();
  const std::string reason =
      at_most_columns(most_cols, "the row must fit the registers of 8 blocks")(problem, device);
  return reason.empty() ? no_cluster<ClusterAtOnce, Losses>(problem) : reason;
}

std::string too_wide_for_a_cluster(const Problem& problem, const Device& device) {
  if (std::string reason = needs_clusters(device); !reason.empty()) return reason;
  if (std::string reason = no_gradient(problem, device); !reason.empty()) return reason;
  if (std::string reason = not_whole_packs(problem); !reason.empty()) return reason;
  const std::int64_t most_of_threads = std::int64_t{1024} * InCluster::packs_per_thread * 16;
  const auto most_shared = static_cast<std::int64_t>(device.shared_bytes_per_block) - most_static_bytes;
  return no_cluster_for_gradient<InCluster>(problem, device, min(most_of_threads, most_shared));
}

std::string too_wide_for_an_unaligned_cluster(const Problem& problem, const Device& device) {
  if (std::string reason = needs_clusters(device); !reason.empty()) return reason;
  if (std::string reason = no_gradient(problem, device); !reason.empty()) return reason;
  return no_cluster_for_gradient<UnalignedInCluster>(
      problem, device, most_kept_cols(static_cast<std::int64_t>(device.shared_bytes_per_block), 1));
}

// ---- What they move.

/// x at the labels that are columns.
double bytes_at_labels(const Problem& problem) {
  const std::int64_t ignored_rows = (problem.shape.rows + 5) / 8;  // as the harness fills labels
  return static_cast<double>((problem.shape.rows - ignored_rows) * problem.element_bytes());
}

/// x is read so many times, the label by so many warps for each row, and what is at the label once more. The loss is written,
/// and dx.
Traffic traffic_of(const Problem& problem, double reads, double label_readers, RowCosts row = {}) {
  const auto rows = static_cast<double>(problem.shape.rows);
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  return {reads * matrix + 8 * label_readers * rows + bytes_at_labels(problem),
          (asks_for_gradient(problem) ? matrix : 0) + 4 * rows, row};
}

Traffic in_one_read(const Problem& problem) {
  return traffic_of(problem, 1, 1);
}

/// A matrix of floats is written beside, and read again for the gradient.
Traffic unfused_passes(const Problem& problem) {
  const auto [rows, cols] = problem.shape;
  const bool fits_packs = cols % 4 == 0 && problem.offsets.output % 4 == 0;
  const unsigned block_size = fits_packs ? block_size_for<4>(cols, 1024) : block_size_for<1>(cols, 1024);
  Traffic traffic = traffic_of(problem, 2, 1 + (asks_for_gradient(problem) ? block_size / 32 : 0));
  const auto floats = 4 * static_cast<double>(problem.shape.elements());
  traffic.bytes_read += (asks_for_gradient(problem) ? floats : 0) +
                        static_cast<double>((rows - (rows + 5) / 8) * (4 - problem.element_bytes()));
  traffic.bytes_written += floats;
  return traffic;
}

/// What shared memory does not hold is read again: of an H200.
template <bool keeps>
Traffic kept_passes(const Problem& problem) {
  constexpr std::int64_t most_bytes = 227 << 10;
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const std::int64_t kept = KeptRows<keeps>::kept_cols(cols, most_bytes, size);
  const double warps = KeptRows<keeps>::threads(cols * size, bytes_with_place(kept * size), most_bytes) / 32;
  Traffic traffic = traffic_of(problem, 1, warps, {.barriers = 3, .bank_conflicts = {}});
  if (kept == cols) return traffic;
  const std::int64_t line = line_bytes / size;
  for (std::int64_t row = 0; row < min(rows, line); ++row) {  // row + line begins as far past a line
    const std::int64_t head = (line - row * cols % line) % line;
    const std::int64_t in_kept_packs = head + (kept - head) * size / 16 * 16 / size;
    const std::int64_t again = cols - (kept > head ? in_kept_packs : 0);
    traffic.bytes_read += static_cast<double>(again * size * ((rows - 1 - row) / line + 1));
  }
  return traffic;
}

Traffic in_registers_passes(const Problem& problem) {
  dim3 block;
  const auto keep = [&]<int packs_per_thread>(dim3 found) { block = found; };
  if (problem.element_bytes() == 4) {
    InRegisters::with_block<4>(problem.shape.cols, keep);
  } else {
    InRegisters::with_block<8>(problem.shape.cols, keep);
  }
  return traffic_of(problem, 1, block.x / 32, {.barriers = block.y > 1 ? 0 : 2, .bank_conflicts = {}});
}

/// Each part of a row reads the label.
Traffic span_passes(const Problem& problem) {
  const std::int64_t cols = problem.shape.cols;
  const std::int64_t pack = odd_pack_bytes(problem) / problem.element_bytes();
  const SpanParts of_row = pack == 4   ? parts_of_row<4>(cols)
                           : pack == 2 ? parts_of_row<2>(cols)
                                       : parts_of_row<1>(cols);
  Traffic traffic = traffic_of(problem, 1, of_row.parts);
  traffic.bytes_read -= bytes_at_labels(problem);  // which are found in the span
  return traffic;
}

Traffic cluster_passes(const Problem& problem) {
  const RowOnCluster row =
      UnalignedInCluster::layout(problem.shape.cols * problem.element_bytes(), problem.shape.rows);
  return traffic_of(problem, 1, row.cluster_size * row.block_size() / 32);
}

/// x at the label is found where it is kept.
Traffic unaligned_cluster_passes(const Problem& problem) {
  Traffic traffic = cluster_passes(problem);
  traffic.bytes_read -= bytes_at_labels(problem);
  return traffic;
}

Workspace one_counter(const Problem& /*problem*/, const Device& /*device*/) {
  return {.bytes = sizeof(TicketCounter), .zeroed = true};
}

Workspace log_probabilities(const Problem& problem, const Device& /*device*/) {
  return {.bytes = static_cast<std::size_t>(problem.shape.elements()) * sizeof(float)};
}

Traffic one_read(const Problem& problem) {
  const bool has_a_warp = OneRead::block(problem.shape.cols * problem.element_bytes()).x == 32;
  return traffic_of(problem, 1, 1, {.barriers = has_a_warp ? 0 : 2, .bank_conflicts = {}});
}

Stage losses() {
  return {.name = "12_fusion",
          .idea = "a kernel not run: cross-entropy; softmax with scale, mask and dropout",
          .variants =
              {
                  {.name = "unfused",
                   .idea = "the loss: log-softmax writes a matrix, another kernel picks a column",
                   .prepare = launches_of<SeparateKernels, Operations<CrossEntropy>>,
                   .traffic = unfused_passes,
                   .unsupported =
                       [](const Problem& problem, const Device& device) {
                         const std::string reason = not_the_loss_alone(problem, device);
                         return reason.empty() ? smoothed(problem) : reason;
                       },
                   .workspace = log_probabilities},
                  {.name = "one_read",
                   .idea = "the loss: a block a row, which is read once and kept nowhere",
                   .prepare = launches_of<OneRead, Losses>,
                   .traffic = one_read,
                   .unsupported = not_the_loss_alone},
                  {.name = "drawn_rows",
                   .idea = "blocks stay and draw rows: the next is under way while this one is merged",
                   .prepare = launches_of<DrawnRows, Losses>,
                   .traffic =
                       [](const Problem& problem) {
                         return traffic_of(problem, 1, 1, {.barriers = 1, .bank_conflicts = {}});
                       },
                   .unsupported = cannot_draw,
                   .workspace = one_counter},
                  {.name = "split_row",
                   .idea = "few rows: many blocks share one, and leave a pair each",
                   .prepare = launches_of<SplitLoss, Losses>,
                   .traffic = in_one_read,
                   .unsupported = not_the_loss_alone,
                   .workspace =
                       [](const Problem& problem, const Device&) {
                         return Workspace{.bytes = SplitLoss::workspace_bytes(problem.shape)};
                       }},
                  {.name = "cluster_loss",
                   .idea = "few rows: the blocks of a cluster share one, and send their pairs to the first",
                   .prepare = launches_of<ClusterLoss, Losses>,
                   .traffic = in_one_read,
                   .unsupported = no_cluster_for_loss},
                  {.name = "cluster_registers",
                   .idea = "the same of many rows: a row is on its way to the registers all at once",
                   .prepare = launches_of<ClusterAtOnce, Losses>,
                   .traffic = in_one_read,
                   .unsupported = too_wide_for_cluster_registers},
                  {.name = "narrow_rows",
                   .idea = "the loss, or with its gradient: 1 to 32 lanes a row, which stays in registers",
                   .prepare = launches_of<NarrowRows, LossesAndGradients>,
                   .traffic =
                       [](const Problem& problem) {
                         return traffic_of(problem, 1, 1, {.barriers = 0, .bank_conflicts = {}});
                       },
                   .unsupported = too_wide_for_lanes},
                  {.name = "flat_span",
                   .idea = "the same, of rows that packs of 16 bytes do not cover: many as one span",
                   .prepare = launches_of<SpanOfRows, LossesAndGradients>,
                   .traffic = span_passes,
                   .unsupported = not_for_a_span},
                  {.name = "unfused_gradient",
                   .idea = "loss and gradient: three kernels, which hand on log-probabilities",
                   .prepare = launches_of<SeparateKernels, Operations<WithGradient<CrossEntropy>>>,
                   .traffic = unfused_passes,
                   .unsupported =
                       [](const Problem& problem, const Device& device) {
                         const std::string reason = no_gradient(problem, device);
                         return reason.empty() ? smoothed(problem) : reason;
                       },
                   .workspace = log_probabilities},
                  {.name = "read_again",
                   .idea = "one kernel: the row is read a second time for the gradient",
                   .prepare = launches_of<KeptRows<false>, Gradients>,
                   .traffic = kept_passes<false>,
                   .unsupported = no_gradient},
                  {.name = "in_registers",
                   .idea = "the row stays in the registers of a block, or of a warp",
                   .prepare = launches_of<InRegisters, Gradients>,
                   .traffic = in_registers_passes,
                   .unsupported = too_wide_for_registers},
                  {.name = "kept_row",
                   .idea = "the row stays in shared memory between",
                   .prepare = launches_of<KeptRows<true>, Gradients>,
                   .traffic = kept_passes<true>,
                   .unsupported = no_gradient},
                  {.name = "cluster",
                   .idea = "the row stays in the shared memory of 2 to 16 blocks, which draw rows",
                   .prepare = launches_of<InCluster, Gradients>,
                   .traffic = cluster_passes,
                   .unsupported = too_wide_for_a_cluster,
                   .workspace = one_counter},
                  {.name = "unaligned_cluster",
                   .idea = "any width at any place: a cluster for each row",
                   .prepare = launches_of<UnalignedInCluster, Gradients>,
                   .traffic = unaligned_cluster_passes,
                   .unsupported = too_wide_for_an_unaligned_cluster},
              },
          .operations = cross_entropy_operations()};
}

}  // namespace

Stage stage() {
  Stage stage = losses();
  for (const Operation* op : masked_softmax_operations()) stage.operations.push_back(op);
  for (const Variant& variant : masked::variants()) stage.variants.push_back(variant);
  return stage;
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
