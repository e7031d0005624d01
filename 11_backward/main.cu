#include "11_backward/exchange_gradient.cuh"
#include "11_backward/flat_span.cuh"
#include "11_backward/head_and_tail.cuh"
#include "11_backward/in_cluster.cuh"
#include "11_backward/in_registers.cuh"
#include "11_backward/in_shared_memory.cuh"
#include "11_backward/recomputed.cuh"
#include "11_backward/split_gradient.cuh"
#include "11_backward/unaligned.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

using BackwardOperations = Operations<SoftmaxBackward, LogSoftmaxBackward>;
using AccurateOperations = Operations<AccurateSoftmaxBackward>;
using RecomputedOperations = Operations<RecomputedSoftmaxBackward>;

// ---- Variant::prepare of a launcher, by what its launch<Op>() takes; see common/harness/launches.cuh.

/// The Plan launch.template operator()<Op>(y, dy, dx, stream).
template <class Ops, class Launch>
Plan launches_y_dy_to_dx(const Problem& problem, const Memory& memory, Launch launch) {
  return dispatch(Ops{}, problem, [&]<class Op, class T>() {
    const T* y = static_cast<const T*>(memory.inputs[0]);
    const T* dy = static_cast<const T*>(memory.inputs[1]);
    T* dx = static_cast<T*>(memory.outputs[0]);
    return [=](cudaStream_t stream) { launch.template operator()<Op>(y, dy, dx, stream); };
  });
}

/// launch<Op>(y, dy, dx, Shape, stream)
template <class Launcher, class Ops = BackwardOperations>
Plan gradients(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return launches_y_dy_to_dx<Ops>(
      problem, memory, [shape = problem.shape]<class Op>(auto* y, auto* dy, auto* dx, cudaStream_t stream) {
        Launcher::template launch<Op>(y, dy, dx, shape, stream);
      });
}

/// launch<Op>(y, dy, dx, workspace, Shape, stream)
template <class Launcher>
Plan gradients_with_workspace(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return launches_y_dy_to_dx<BackwardOperations>(
      problem, memory,
      [shape = problem.shape, workspace = memory.workspace]<class Op>(auto* y, auto* dy, auto* dx,
                                                                      cudaStream_t stream) {
        Launcher::template launch<Op>(y, dy, dx, workspace, shape, stream);
      });
}

Plan recomputed_gradients(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return dispatch(RecomputedOperations{}, problem, [&]<class Op, class T>() -> Plan {
    const T* x = static_cast<const T*>(memory.inputs[0]);
    const auto* pairs = static_cast<const float*>(memory.inputs[1]);
    const T* dy = static_cast<const T*>(memory.inputs[2]);
    T* dx = static_cast<T*>(memory.outputs[0]);
    return [=, shape = problem.shape](cudaStream_t stream) {
      Recomputed::launch(x, pairs, dy, dx, shape, stream);
    };
  });
}

// ---- What the variants cannot do.

/// Whole packs, and at most so many columns.
std::string not_packs_or_wider(const Problem& problem, const Device& device, std::int64_t cols,
                               const std::string& reason) {
  const std::string no_packs = not_whole_packs(problem);
  return no_packs.empty() ? at_most_columns(cols, reason)(problem, device) : no_packs;
}

const std::string must_fit_registers = "both rows must fit the registers of a block";
const auto too_wide_for_registers = at_most_columns(widest_gradient_tile.cols(), must_fit_registers);

std::string too_wide_for_a_block(const Problem& problem, const Device& device) {
  if (std::string no_packs = not_whole_packs(problem, 8); !no_packs.empty()) return no_packs;
  const std::int64_t most_cols = BlockRegisters::most_cols(not_whole_packs(problem).empty());
  return at_most_columns(most_cols, must_fit_registers)(problem, device);
}

std::string not_for_two_floats(const Problem& problem, const Device& device) {
  if (!is_one_of(AccurateOperations{}, problem.op)) return "softmax_backward alone has digits to lose";
  return too_wide_for_a_block(problem, device);
}

std::string not_for_a_span(const Problem& problem, const Device& device) {
  if (std::string reason = not_in_odd_packs(problem); !reason.empty()) return reason;
  if (!problem.lie_alike()) return "dy and dx must lie equally far past a pack of 16 bytes";
  const std::int64_t most_cols =
      SpanOfTwoRows::most_cols_in(device.shared_bytes_per_block, problem.element_bytes());
  return at_most_columns(most_cols, "32 rows must fit the threads of a block")(problem, device);
}

std::string too_wide_for_shared_memory(const Problem& problem, const Device& device) {
  const auto bytes = static_cast<std::int64_t>(device.shared_bytes_per_block) - most_static_bytes;
  return not_packs_or_wider(problem, device, bytes / 2 / 128 * 128 / problem.element_bytes(),
                            "a block's shared memory must hold both rows");
}

/// Launcher: Cluster, UnalignedCluster.
template <class Launcher>
std::string no_cluster(const Problem& problem) {
  const RowOnCluster row = Launcher::layout(problem.shape.cols * problem.element_bytes());
  int clusters = 0;
  (void)dispatch(BackwardOperations{}, problem, [&]<class Op, class T>() {
    clusters = clusters_at_once(Launcher::template kernel<Op, T>, row);
    return Plan{};
  });
  return no_cluster_each(row, problem.shape.rows, clusters);
}

std::string too_wide_for_a_cluster(const Problem& problem, const Device& device) {
  if (std::string reason = needs_clusters(device); !reason.empty()) return reason;
  const auto bytes = static_cast<std::int64_t>(device.shared_bytes_per_block) - most_static_bytes;
  const std::int64_t most_cols = bytes / 2 / 128 * 128 * most_blocks_of_cluster / problem.element_bytes();
  const std::string reason = not_packs_or_wider(problem, device, most_cols,
                                                "a block's shared memory must hold its part of both rows");
  return reason.empty() ? no_cluster<Cluster>(problem) : reason;
}

std::string too_wide_for_an_unaligned_cluster(const Problem& problem, const Device& device) {
  if (std::string reason = needs_clusters(device); !reason.empty()) return reason;
  const std::int64_t most_part =
      most_kept_cols_of_two_rows(static_cast<std::int64_t>(device.shared_bytes_per_block), 1);
  const std::int64_t most_cols = most_part / 128 * 128 * most_blocks_of_cluster / problem.element_bytes();
  const std::string reason =
      at_most_columns(most_cols, "a block's shared memory must hold its part of both rows")(problem, device);
  return reason.empty() ? no_cluster<UnalignedCluster>(problem) : reason;
}

std::string too_wide_for_the_gpu(const Problem& problem, const Device& device) {
  return not_packs_or_wider(problem, device, SplitWithExchange::max_cols(),
                            "both rows must fit the registers of the GPU");
}

std::string too_wide_for_a_warp(const Problem& problem, const Device& device) {
  const std::int64_t most_cols = WarpRegisters::most_cols(problem.lie_alike(), problem.element_bytes());
  return at_most_columns(most_cols, "both rows must fit the registers of a warp")(problem, device);
}

const auto too_wide_for_an_index = at_most_columns(1 << 30, "a column must fit 32 bits");

std::string not_recomputed(const Problem& problem, const Device& device) {
  if (!is_one_of(RecomputedOperations{}, problem.op))
    return "makes y again: --op recomputed_softmax_backward";
  return not_packs_or_wider(problem, device, widest_gradient_tile.cols(), must_fit_registers);
}

/// The same variant where y is given.
Variant reads_y(Variant variant) {
  variant.unsupported = [otherwise = variant.unsupported](const Problem& problem, const Device& device) {
    return is_one_of(RecomputedOperations{}, problem.op) ? "makes dx from y: --op softmax_backward"
                                                         : otherwise(problem, device);
  };
  return variant;
}

// ---- What they move.

/// y and dy twice; of log-softmax the sum is of dy alone.
Traffic reads_for_the_sum_and_again(const Problem& problem) {
  const int reads = is_one_of(Operations<LogSoftmaxBackward>{}, problem.op) ? 3 : 4;
  return whole_passes(reads, 1)(problem);
}

/// Reads a second time what shared memory does not hold: of an H200, as stage 08 has it.
Traffic unaligned_passes(const Problem& problem) {
  Traffic traffic = whole_passes(2, 1, {.barriers = 4, .bank_conflicts = {}})(problem);
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const std::int64_t pack = 16 / size;
  const std::int64_t kept = most_kept_cols_of_two_rows(227 << 10, size);
  if (kept >= cols) return traffic;
  for (std::int64_t row = 0; row < min(rows, pack); ++row) {  // row + pack begins as far past a pack
    const std::int64_t head = (pack - row * cols % pack) % pack;
    const std::int64_t in_kept_packs = head + (kept - head) / pack * pack;
    const std::int64_t more = 2 * (kept + 2 * (cols - in_kept_packs) - cols);
    traffic.bytes_read += static_cast<double>(more * size * ((rows - 1 - row) / pack + 1));
  }
  return traffic;
}

/// Of those who read y; then who makes it again.
std::vector<Variant> variants() {
  std::vector<Variant> all{
      {.name = "warp_registers",
       .idea = "1 to 32 lanes a row, both rows in their registers",
       .prepare = gradients<WarpRegisters>,
       .traffic = whole_passes(2, 1, {.barriers = 0, .bank_conflicts = 0}),
       .unsupported = too_wide_for_a_warp},
      {.name = "block_registers",
       .idea = "a block a row, both rows in its registers",
       .prepare = gradients<BlockRegisters>,
       .traffic = whole_passes(2, 1, {.barriers = 2, .bank_conflicts = 0}),
       .unsupported = too_wide_for_a_block},
      {.name = "two_floats",
       .idea = "the same, the sum in two floats: no digits are lost",
       .prepare = gradients<BlockRegisters, AccurateOperations>,
       .traffic = whole_passes(2, 1, {.barriers = 2, .bank_conflicts = {}}),
       .unsupported = not_for_two_floats},
      {.name = "shared_memory",
       .idea = "both rows in shared memory, in the matrix's own type",
       .prepare = gradients<SharedMemory>,
       .traffic = whole_passes(2, 1, {.barriers = 2, .bank_conflicts = 0}),
       .unsupported = too_wide_for_shared_memory},
      {.name = "cluster",
       .idea = "2 to 16 blocks share both rows and send each other their sums",
       .prepare = gradients<Cluster>,
       .traffic = whole_passes(2, 1),
       .unsupported = too_wide_for_a_cluster},
      {.name = "head_and_tail",
       .idea = "any width: packs and single elements in registers",
       .prepare = gradients<HeadAndTailOfTwoRows>,
       .traffic = whole_passes(2, 1),
       .unsupported = too_wide_for_registers},
      {.name = "flat_span",
       .idea = "narrow rows of any width: many as one aligned span, through shared memory",
       .prepare = gradients<SpanOfTwoRows>,
       .traffic = whole_passes(2, 1),
       .unsupported = not_for_a_span},
      {.name = "unaligned",
       .idea = "any width at any place: rows go through shared memory as packs",
       .prepare = gradients<Unaligned>,
       .traffic = unaligned_passes,
       .unsupported = too_wide_for_an_index},
      {.name = "unaligned_cluster",
       .idea = "the same by 2 to 16 blocks a row, which keep all of it",
       .prepare = gradients<UnalignedCluster>,
       .traffic = whole_passes(2, 1),
       .unsupported = too_wide_for_an_unaligned_cluster},
      {.name = "two_kernels",
       .idea = "few rows: a sum per part of a row; then add and write",
       .prepare = gradients_with_workspace<SplitInTwoKernels>,
       .traffic = reads_for_the_sum_and_again,
       .workspace =
           [](const Problem& problem, const Device&) {
             return Workspace{.bytes = SplitInTwoKernels::workspace_bytes(problem.shape)};
           }},
      {.name = "row_exchange",
       .idea = "few rows in one kernel: blocks send each other their sums",
       .prepare = gradients_with_workspace<SplitWithExchange>,
       .traffic = whole_passes(2, 1),
       .unsupported = too_wide_for_the_gpu,
       .workspace =
           [](const Problem& problem, const Device&) {
             return Workspace{.bytes = SplitWithExchange::workspace_bytes(problem.shape), .zeroed = true};
           }},
  };
  for (Variant& variant : all) variant = reads_y(std::move(variant));
  // Beside x and dy, each warp of a block reads the pair.
  const auto traffic = [](const Problem& problem) {
    Traffic traffic = whole_passes(2, 1, {.barriers = 2, .bank_conflicts = 0})(problem);
    traffic.bytes_read += static_cast<double>(problem.shape.rows * 8 * Recomputed::warps(problem.shape.cols));
    return traffic;
  };
  all.push_back({.name = "recomputed",
                 .idea = "y is made again, of x and the pair of each row",
                 .prepare = recomputed_gradients,
                 .traffic = traffic,
                 .unsupported = not_recomputed});
  return all;
}

std::vector<const Operation*> operations() {
  std::vector<const Operation*> all = backward_operations();
  all.push_back(&recomputed_softmax_backward_operation);
  return all;
}

}  // namespace

Stage stage() {
  return {.name = "11_backward",
          .idea = "the gradient: two rows in, one sum, one row out",
          .variants = variants(),
          .operations = operations()};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
