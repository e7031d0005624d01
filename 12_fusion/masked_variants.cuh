// The variants of softmax with scale, mask and dropout.
#pragma once

#include "03_warp_reduce/warp_reduce.cuh"
#include "12_fusion/separate_masked.cuh"
#include "common/harness/launches.cuh"

namespace masked {
namespace {

struct CausalSoftmax {};
struct PaddedSoftmax {};
struct CausalBackward {};
struct PaddedBackward {};
using Forward = Operations<CausalSoftmax, PaddedSoftmax>;
using Backward = Operations<CausalBackward, PaddedBackward>;

const Operation* operation_of(CausalSoftmax) {
  return &causal_softmax_operation;
}
const Operation* operation_of(PaddedSoftmax) {
  return &padded_softmax_operation;
}
const Operation* operation_of(CausalBackward) {
  return &causal_softmax_backward_operation;
}
const Operation* operation_of(PaddedBackward) {
  return &padded_softmax_backward_operation;
}

bool is_padded(const Problem& problem) {
  return problem.inputs().back().dtype == DType::i64;
}

// ---- Variant::prepare of Launcher::launch(MaskedForward or MaskedGradient, stream).

/// make.template operator()<T>(mask, dropout, workspace) is what the launcher is given.
template <class Launcher, class Make>
Plan launches_of(const Problem& problem, const Memory& memory, Make make) {
  return dispatch_dtype(problem.dtype, [&]<class T>() -> Plan {
    const void* const lengths = is_padded(problem) ? memory.inputs.back() : nullptr;
    const Mask mask{static_cast<const std::int64_t*>(lengths), problem.shape.cols};
    const Dropout dropout{problem.seed, problem.shape.cols};
    const auto tensors = make.template operator()<T>(mask, dropout, static_cast<T*>(memory.workspace));
    return [tensors](cudaStream_t stream) { Launcher::launch(tensors, stream); };
  });
}

template <class Launcher>
Plan forward_launches(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return launches_of<Launcher>(problem, memory, [&]<class T>(Mask mask, Dropout dropout, T* workspace) {
    return MaskedForward<T>{.x = static_cast<const T*>(memory.inputs[0]),
                            .softmax = static_cast<T*>(memory.outputs[0]),
                            .y = static_cast<T*>(memory.outputs[1]),
                            .workspace = workspace,
                            .mask = mask,
                            .dropout = dropout,
                            .shape = problem.shape};
  });
}

template <class Launcher>
Plan backward_launches(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return launches_of<Launcher>(problem, memory, [&]<class T>(Mask mask, Dropout dropout, T* workspace) {
    return MaskedGradient<T>{.softmax = static_cast<const T*>(memory.inputs[0]),
                             .dy = static_cast<const T*>(memory.inputs[1]),
                             .dx = static_cast<T*>(memory.outputs[0]),
                             .workspace = workspace,
                             .mask = mask,
                             .dropout = dropout,
                             .shape = problem.shape};
  });
}

// ---- What the variants cannot do.

std::string no_forward(const Problem& problem, const Device& device) {
  if (!is_one_of(Forward{}, problem.op)) return "makes a masked softmax: --op causal_softmax";
  if (problem.shape.rows > std::int64_t{1} << 32) return "a row must fit 32 bits";
  return at_most_columns(1 << 30, "a column must fit 32 bits")(problem, device);
}

std::string too_wide_for_a_warp(const Problem& problem, const Device& device) {
  if (std::string reason = no_forward(problem, device); !reason.empty()) return reason;
  return at_most_columns(max_warp_reduce_cols, "the row must fit the registers of a warp")(problem, device);
}

std::string too_wide_for_a_block(const Problem& problem, const Device& device) {
  if (std::string reason = no_forward(problem, device); !reason.empty()) return reason;
  return at_most_columns(widest_tile.cols(), "the row must fit the registers of a block")(problem, device);
}

std::string no_backward(const Problem& problem, const Device& device) {
  if (!is_one_of(Backward{}, problem.op)) return "makes a masked dx: --op causal_softmax_backward";
  if (problem.shape.rows > std::int64_t{1} << 32) return "a row must fit 32 bits";
  const bool packs = not_whole_packs(problem).empty();
  return at_most_columns(packs ? MaskedBackward::most_cols : MaskedBackward::most_cols_of_elements,
                         "both rows must fit the registers of a block")(problem, device);
}

// ---- What they move.

std::int64_t pack_size(const Problem& problem) {
  return not_whole_packs(problem).empty() ? 16 / problem.element_bytes() : 1;
}

/// Bytes of the packs of which something is seen.
double bytes_seen(const Problem& problem) {
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const bool padded = is_padded(problem);
  const std::int64_t period = padded ? 8 : cols;  // row + period sees as much
  double bytes = 0;
  for (std::int64_t row = 0; row < min(rows, period); ++row) {
    const std::int64_t seen = padded ? length_of_row(row, cols) : row + 1;
    const std::int64_t rows_like_this = (rows - 1 - row) / period + 1;
    bytes += static_cast<double>(round_up(seen, pack_size(problem)) * size * rows_like_this);
  }
  return bytes;
}

/// Bytes of lengths, which each pack of a row asks for, with packs as the offsets allow: the lanes of a warp ask together.
double bytes_of_lengths(Problem problem, Offsets offsets) {
  if (!is_padded(problem)) return 0;
  problem.offsets = offsets;
  const std::int64_t packs = divide_up(problem.shape.cols, pack_size(problem));
  return static_cast<double>(8 * problem.shape.rows * divide_up(packs, 32));
}

/// So many reads of what is seen, and writes of a whole matrix. Each read asks for the lengths, and what writes once more.
std::function<Traffic(const Problem&)> fused_passes(int reads, int writes, RowCosts row) {
  return [=](const Problem& problem) {
    return Traffic{reads * bytes_seen(problem) + (reads + 1) * bytes_of_lengths(problem, problem.offsets),
                   writes * static_cast<double>(problem.matrix_bytes()), row};
  };
}

Traffic passes_in_a_block(const Problem& problem) {
  const double barriers = FusedRegisterSoftmax::barriers(problem.shape.cols);
  return fused_passes(1, 2, {.barriers = barriers, .bank_conflicts = {}})(problem);
}

/// The kernels that mask and that do the softmax ask for lengths. The workspace has no offset.
Traffic passes_of_four(const Problem& problem) {
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  const double lengths =
      bytes_of_lengths(problem, {0, 0}) + bytes_of_lengths(problem, {0, problem.offsets.output});
  const double barriers = FusedRegisterSoftmax::barriers(problem.shape.cols);
  return {4 * matrix + lengths, 4 * matrix, {.barriers = barriers, .bank_conflicts = {}}};
}

/// The last kernel asks for lengths.
Traffic passes_of_three(const Problem& problem) {
  const auto matrix = static_cast<double>(problem.matrix_bytes());
  const std::int64_t offset = problem.offsets.output;
  return {4 * matrix + bytes_of_lengths(problem, {offset, offset}), 3 * matrix};
}

Workspace one_matrix(const Problem& problem, const Device& /*device*/) {
  return {.bytes = problem.matrix_bytes()};
}

std::vector<Variant> variants() {
  return {
      {.name = "four_kernels",
       .idea = "attention's softmax: scale, mask, softmax and dropout, a kernel each",
       .prepare = forward_launches<SeparateMaskedSoftmax>,
       .traffic = passes_of_four,
       .unsupported = too_wide_for_a_block,
       .workspace = one_matrix},
      {.name = "masked_in_a_warp",
       .idea = "stage 03's kernel: it masks what it loads, and stores softmax and dropout",
       .prepare = forward_launches<MaskedSoftmax<Packs<true>>>,
       .traffic = fused_passes(1, 2, {.barriers = 0, .bank_conflicts = 0}),
       .unsupported = too_wide_for_a_warp},
      {.name = "masked_in_a_block",
       .idea = "the same by stage 06's kernel, with the row in the registers of a block",
       .prepare = forward_launches<MaskedSoftmax<FusedRegisterSoftmax>>,
       .traffic = passes_in_a_block,
       .unsupported = too_wide_for_a_block},
      {.name = "masked_online",
       .idea = "any width: what is seen is read twice",
       .prepare = forward_launches<MaskedSoftmax<OnlineSoftmax<Rescale::per_chunk, Direction::forward>>>,
       .traffic = fused_passes(2, 2, {.barriers = 2, .bank_conflicts = {}}),
       .unsupported = no_forward},
      {.name = "three_kernels",
       .idea = "its gradient: dropout, softmax's gradient, and scale and mask, a kernel each",
       .prepare = backward_launches<SeparateMaskedBackward>,
       .traffic = passes_of_three,
       .unsupported = no_backward,
       .workspace = one_matrix},
      {.name = "masked_backward",
       .idea = "its gradient in one kernel: what was dropped is drawn again",
       .prepare = backward_launches<MaskedBackward>,
       .traffic = fused_passes(2, 1, {}),
       .unsupported = no_backward},
  };
}

}  // namespace
}  // namespace masked
