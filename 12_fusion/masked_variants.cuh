// The variants of softmax with scale, mask and dropout.
#pragma once

#include <algorithm>
#include <array>

#include "03_warp_reduce/warp_reduce.cuh"
#include "12_fusion/separate_masked.cuh"
#include "common/harness/launches.cuh"

namespace masked {

using Pair = std::array<const Operation*, 2>;
inline const Pair forward{&causal_softmax_operation, &padded_softmax_operation};
inline const Pair backward{&causal_softmax_backward_operation, &padded_softmax_backward_operation};

inline bool is_padded(const Problem& problem) {
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

using Unsupported = std::function<std::string(const Problem&, const Device&)>;

/// Other operations, and wider rows.
inline Unsupported other_than(const Pair& operations, std::int64_t most_cols, const std::string& reason) {
  return [=,
          what = operations == forward ? "makes a masked softmax" : "makes the gradient of a masked softmax"](
             const Problem& problem, const Device& device) -> std::string {
    const bool is_one =
        std::ranges::any_of(operations, [&](const Operation* one) { return one->name == problem.op->name; });
    return is_one ? at_most_columns(most_cols, reason)(problem, device) : what;
  };
}

// ---- What they move.

/// Bytes of the packs, or single elements, of which something is seen.
inline double bytes_seen(const Problem& problem) {
  const auto [rows, cols] = problem.shape;
  const auto size = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t width = not_whole_packs(problem).empty() ? 16 / size : 1;
  const bool padded = is_padded(problem);
  const std::int64_t period = padded ? 8 : cols;  // row + period sees as much
  double bytes = 0;
  for (std::int64_t row = 0; row < min(rows, period); ++row) {
    const std::int64_t seen = padded ? length_of_row(row, cols) : row + 1;
    const std::int64_t rows_like_this = (rows - 1 - row) / period + 1;
    bytes += static_cast<double>(round_up(seen, width) * size * rows_like_this);
  }
  return bytes;
}

/// What is seen is read so many times, all of it written so many times.
inline std::function<Traffic(const Problem&)> seen_passes(double reads, double writes, RowCosts row) {
  return [=](const Problem& problem) {
    return Traffic{reads * bytes_seen(problem), writes * static_cast<double>(problem.matrix_bytes()), row};
  };
}

inline Workspace one_matrix(const Problem& problem, const Device& /*device*/) {
  return {.bytes = problem.matrix_bytes()};
}

inline std::vector<Variant> variants() {
  return {
      {.name = "four_kernels",
       .idea = "attention's softmax: scale, mask, softmax and dropout, a kernel each",
       .prepare = forward_launches<SeparateMaskedSoftmax>,
       .traffic = whole_passes(4, 4, {.barriers = 2, .bank_conflicts = {}}),
       .unsupported = other_than(forward, widest_tile.cols(), "the row must fit the registers of a block"),
       .workspace = one_matrix},
      {.name = "masked_in_a_warp",
       .idea = "one kernel, that of stage 03: the mask comes with the load, dropout with the store",
       .prepare = forward_launches<MaskedSoftmax<Packs<true>>>,
       .traffic = seen_passes(1, 2, {.barriers = 0, .bank_conflicts = 0}),
       .unsupported = other_than(forward, max_warp_reduce_cols, "the row must fit the registers of a warp")},
      {.name = "masked_in_a_block",
       .idea = "the same by the kernel of stage 06",
       .prepare = forward_launches<MaskedSoftmax<FusedRegisterSoftmax>>,
       .traffic = seen_passes(1, 2, {.barriers = 2, .bank_conflicts = {}}),
       .unsupported = other_than(forward, widest_tile.cols(), "the row must fit the registers of a block")},
      {.name = "masked_online",
       .idea = "any width: what is seen is read twice",
       .prepare = forward_launches<MaskedSoftmax<OnlineSoftmax<Rescale::per_chunk, Direction::forward>>>,
       .traffic = seen_passes(2, 2, {.barriers = 2, .bank_conflicts = {}}),
       .unsupported = other_than(forward, 1 << 30, "a column must fit 32 bits")},
      {.name = "three_kernels",
       .idea = "its gradient: dropout, softmax backward, scale and mask, a kernel each",
       .prepare = backward_launches<SeparateMaskedBackward>,
       .traffic = whole_passes(4, 3),
       .unsupported =
           other_than(backward, MaskedBackward::most_cols, "both rows must fit the registers of a block"),
       .workspace = one_matrix},
      {.name = "masked_backward",
       .idea = "one kernel: what was dropped is drawn again",
       .prepare = backward_launches<MaskedBackward>,
       .traffic = seen_passes(2, 1, {}),
       .unsupported =
           other_than(backward, MaskedBackward::most_cols, "both rows must fit the registers of a block")},
  };
}

}  // namespace masked
