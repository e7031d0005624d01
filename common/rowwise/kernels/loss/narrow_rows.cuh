// From the stage cross_entropy: cross-entropy, with or without its gradient, of rows that fit in the
// registers of one warp. As in forward/warp_reduce.cuh, each row gets only as many lanes as it needs. At
// bf16 262144 x 10 the loss reached 98.1 % of the ceiling; one warp per row (one_read) reached 4.0 % (H200).
#pragma once

#include "common/kernel/current_device.cuh"
#include "common/rowwise/kernels/backward/lane_of_row.cuh"
#include "common/rowwise/kernels/forward/finish_row.cuh"
#include "common/rowwise/kernels/loss/packs_in_registers.cuh"

namespace rowwise {

/// One lane's share of a row of x. The constructor issues all loads before any value is used.
template <RowTile tile, bool is_cut, class T>
class RowOfLanes : public LaneOfRow<tile, is_cut> {
  using Lane = LaneOfRow<tile, is_cut>;

 public:
  using Lane::exists, Lane::first, Lane::has_single, Lane::most_singles, Lane::N;
  static constexpr int elements = tile.packs_per_lane * N + most_singles;
  Pack<T, N> packs[tile.packs_per_lane];
  Pack<T, 1> singles[Lane::room_for_singles];

  __device__ RowOfLanes(const T* x, std::int64_t rows, int cols) : Lane(x, rows, cols) {
    const T* const row_x = x + Lane::first();
#pragma unroll
    for (int i = 0; i < tile.packs_per_lane; ++i) {
      packs[i] = exists(i) ? load_pack<N>(row_x + Lane::col(i)) : missing_pack<T, N>();
    }
#pragma unroll
    for (int i = 0; i < most_singles; ++i) {
      singles[i] = has_single(i) ? load_pack<1>(row_x + Lane::col_of_single(i)) : missing_pack<T, 1>();
    }
  }

  /// True if any lane of the warp has a row. Rows are handed out in order, so only the warp's first row has
  /// to be checked.
  __device__ bool warp_has_row(std::int64_t rows) const {
    return Lane::row() - threadIdx.x % 32 / tile.group_width < rows;
  }

  /// Returns the state of the row and leaves the exponentials of the lane's elements in `values`, packs
  /// first, then single elements. The maximum is known before the first exponential, so no sum is rescaled
  /// and each exponential is computed once.
  template <class Op>
  __device__ typename Op::State reduce(float (&values)[elements]) const {
    float own_max = max_of<tile.packs_per_lane>(packs);
    if constexpr (is_cut) own_max = fmaxf(own_max, max_of<most_singles>(singles));
    const float max =
        tile.group_width == 32 ? warp_max(own_max) : warp_all_reduce<MaxOp, tile.group_width>(own_max);
    const float shift = safe_shift(max);
    float sum = 0;
    float below = 0;  // sum of (maximum - element), for label smoothing
    // Missing elements are -inf: they add exp(-inf) = 0 to the sum.
    const auto add = [&](auto pack, auto& part, bool exists) {
      unpack(pack, part);
#pragma unroll
      for (float& value : part) {
        if (Op::smoothing > 0 && exists) below += shift - value;
        value = __expf(value - shift);
        sum += value;
      }
    };
#pragma unroll
    for (int i = 0; i < tile.packs_per_lane; ++i) {
      // Only a few lanes have a fifth pack, so the others skip it. Note N24: if the whole warp has one row,
      // the branch costs more than it saves.
      if (tile.group_width < 32 && i >= 4 && N > 1 && !exists(i)) continue;
      add(packs[i], values_of_pack<N>(values, i), exists(i));
    }
#pragma unroll
    for (int i = 0; i < most_singles; ++i) {
      add(singles[i], values_of_pack<1>(values, tile.packs_per_lane * N + i), has_single(i));
    }
    sum = warp_all_reduce<SumOp, tile.group_width>(sum);
    if (Op::smoothing > 0) below = warp_all_reduce<SumOp, tile.group_width>(below);
    // No merge follows, so the number of elements is not needed.
    return Op::state({max, sum}, {.sum = below});
  }
};

/// The loss alone. One group of lanes per row and no loop over rows; see warp_softmax. in_parts: the first
/// packs of a row are summed while the last ones are still in flight; otherwise all packs are kept until
/// their maximum is known.
template <class Op, RowTile tile, bool is_cut, bool in_parts, class T>
__global__ void __launch_bounds__(warp_reduce_block_size)
    narrow_rows_loss(const T* x, const std::int64_t* labels, float* loss, std::int64_t rows, int cols) {
  const std::int64_t row = RowOfLanes<tile, is_cut, T>::row_of_thread();
  std::int64_t label = ignored_label;
  // x[label] has to wait for the label. So the label is loaded first or, in parts, right after the packs,
  // whose latency hides its own.
  if (!in_parts && row < rows) label = labels[row];
  const RowOfLanes<tile, is_cut, T> held(x, rows, cols);
  if (in_parts && row < rows) label = labels[row];
  const auto x_at_label = [&](bool reads) {
    return Element<T>(x + held.first(), label, reads && held.is_first() ? cols : 0);
  };
  // Note N21: the asm keeps nvcc from moving the load of x[label] ahead of the packs, and the branch keeps
  // ptxas from it. Below 64 bytes per lane the branch costs more than it saves. So it does for four packs of
  // 16-bit elements, unless the row is cut.
  constexpr bool has_branch = tile.packs_per_lane * tile.pack_size * sizeof(T) >= 64 &&
                              (tile.packs_per_lane > 4 || sizeof(T) == 4 || is_cut);
  if (!has_branch) packs_are_asked_for();
  if (has_branch && !held.warp_has_row(rows)) return;
  // In flight while the row is summed. In parts it is loaded last instead, when it is in the L1.
  const Element<T> early = x_at_label(!in_parts);

  typename Op::State state;
  if constexpr (!in_parts) {
    float values[held.elements];
    state = held.template reduce<Op>(values);
  } else {
    constexpr int at_once = 4;  // packs per step: the sum is rescaled once per step
    static_assert(tile.packs_per_lane % at_once == 0);
    typename Op::Own own;
#pragma unroll
    for (int first = 0; first < tile.packs_per_lane; first += at_once) {
      if (!held.exists(first)) continue;
      add_packs<at_once>(own, held.packs + first, [&](int i) { return held.exists(first + i); });
    }
    if constexpr (is_cut) {
      add_packs<held.most_singles>(own, held.singles, [&](int i) { return held.has_single(i); });
    }
    state = warp_merge<Op>(own.state());
  }
  // All lanes compute it. Note N24: a branch around it would be slower.
  const Element<T> x_label = in_parts ? x_at_label(true) : early;
  const float row_loss = loss_of_row<Op>(state, x_label.value(), label, cols);
  if (held.is_first()) loss[held.row()] = row_loss;
}

/// Minimum number of blocks per SM, for __launch_bounds__. Note N16: without it, nvcc 13.0 gives a lane a few
/// registers more than it needs.
template <int elements>
constexpr int least_blocks = elements >= 80 ? 4 : 1;

/// The same, with the gradient.
template <class Op, RowTile tile, bool is_cut, class T>
__global__ void __launch_bounds__(warp_reduce_block_size, least_blocks<RowOfLanes<tile, is_cut, T>::elements>)
    narrow_rows_gradient(const T* x, const std::int64_t* labels, float* loss, T* dx, std::int64_t rows,
                         int cols, L2Policy reads) {
  constexpr int N = tile.pack_size;
  RowOfLanes<tile, is_cut, T> held(with_policy(x, reads), rows, cols);
  const std::int64_t label = held.has_row() ? labels[held.row()] : ignored_label;
  // Note N21: x[label] is loaded after the branch at which warps without a row exit, because compilers move
  // no load across it. With one or two packs per lane, loading before the branch is faster. There
  // __syncwarp(), which compiles to a NOP, keeps the comparison of the label after the loads of the packs.
  constexpr bool reads_before = !is_cut && tile.packs_per_lane <= 2;
  const bool warp_has_row = held.warp_has_row(rows);
  if (!reads_before && !warp_has_row) return;
  if (reads_before) __syncwarp();
  const Element<T> x_label(x + held.first(), label, held.is_first() ? cols : 0);
  if (reads_before && !warp_has_row) return;
  if (label == ignored_label) {
    // Nothing in an ignored row may reach dx, not even a NaN.
#pragma unroll
    for (auto& pack : held.packs) pack = missing_pack<T, N>();
#pragma unroll
    for (auto& single : held.singles) single = missing_pack<T, 1>();
  }
  float values[held.elements];
  const typename Op::State state = held.template reduce<Op>(values);
  // All lanes compute it. Note N24: a branch around it would be slower.
  const float row_loss = loss_of_row<Op>(state, x_label.value(), label, cols);
  if (held.is_first()) loss[held.row()] = row_loss;
  const RowGradient<Op> gradient(state, label, cols);
  const auto store = [&](auto& part, int col) {
    gradient.template of_exponentials<tile.group_width == 32 && N == elements_per_16_bytes<T>>(part, col);
    store_pack(dx + held.first() + col, make_pack<T>(part));
  };
#pragma unroll
  for (int i = 0; i < tile.packs_per_lane; ++i) {
    if (held.exists(i)) store(values_of_pack<N>(values, i), held.col(i));
  }
#pragma unroll
  for (int i = 0; i < held.most_singles; ++i) {
    if (held.has_single(i))
      store(values_of_pack<1>(values, tile.packs_per_lane * N + i), held.col_of_single(i));
  }
}

/// Rows that the registers of a warp hold; rows = 0 does nothing. Throws CudaError, and std::invalid_argument
/// for wider rows.
struct NarrowRows {
  using Operations = LossesAndGradients;

  // Most packs per lane. The gradient keeps its elements unpacked, as floats; the loss alone need not.
  template <class Op>
  static constexpr int most_packs = has_gradient<Op> ? 12 : 32;
  static constexpr std::int64_t most_uncut_cols = 32 * 16;

  /// With their gradient, rows can be cut only if x and dx have the same offset from a pack of 16 bytes.
  template <class Op>
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    const std::int64_t pack = 16 / matrix.element_bytes;
    const bool can_cut = matrix.lie_alike || !has_gradient<Op>;
    return at_most_columns(can_cut ? 32 * most_packs<Op> * pack + pack - 1 : most_uncut_cols, matrix,
                           Why::registers_of_warp);
  }

  /// Launches the first tile that holds the row. All tiles have packs of N elements.
  template <class Op, int N, bool is_cut, RowTile... tiles, class T>
  static void launch_tiles(const Tensors<T>& tensors, cudaStream_t stream) {
    const std::int64_t in_packs = is_cut ? tensors.shape.cols / N * N : tensors.shape.cols;
    with_first_tile_that_fits<tiles...>(in_packs, [&]<RowTile tile>() {
      const int cols = static_cast<int>(tensors.shape.cols);
      const dim3 grid = one_block_each(divide_up(tensors.shape.rows, tile.rows_per_block()));
      if constexpr (has_gradient<Op>) {
        // Note N12: if a lane writes less than 16 bytes, or a cut 16-bit row has fewer than 32 lanes, the
        // hint is slower.
        constexpr bool hints =
            N == elements_per_16_bytes<T> && !(is_cut && sizeof(T) == 2 && tile.group_width < 32);
        narrow_rows_gradient<Op, tile, is_cut><<<grid, warp_reduce_block_size, 0, stream>>>(
            tensors.x, tensors.labels, tensors.loss, tensors.dx, tensors.shape.rows, cols,
            hints ? policy_of_reads<T>(2, tensors.shape) : L2Policy::as_usual);
      } else {
        const auto launch_loss = [&]<bool in_parts>() {
          narrow_rows_loss<Op, tile, is_cut, in_parts><<<grid, warp_reduce_block_size, 0, stream>>>(
              tensors.x, tensors.labels, tensors.loss, tensors.shape.rows, cols);
        };
        constexpr int lane_bytes = tile.packs_per_lane * N * sizeof(T);
        if constexpr (lane_bytes < 128 || (lane_bytes <= 256 && sizeof(T) == 4)) {
          launch_loss.template operator()<false>();
        } else if constexpr (lane_bytes > 256) {
          launch_loss.template operator()<true>();
        } else if (tensors.shape.rows > most_rows_of_a_warp_each()) {
          launch_loss.template operator()<true>();
        } else {
          // All rows are on the GPU at once, so the kernel takes as long as one row, and in parts a row takes
          // longer.
          launch_loss.template operator()<false>();
        }
      }
      CUDA_CHECK(cudaGetLastError());
    });
  }

  /// Uses the fewest lanes that cover the row with four packs each (rows of up to 8 packs: one or two each;
  /// rows too wide for 32 lanes: more than four). If doubling the lanes would leave half of them empty, each
  /// gets five or six packs instead. With the gradient, cut rows have fewer packs per lane. In a small matrix
  /// latency counts, so rows get more lanes.
  template <class Op, bool is_cut, bool is_small, class T>
  static void launch_packs(const Tensors<T>& tensors, cudaStream_t stream) {
    constexpr int N = elements_per_16_bytes<T>;
    constexpr auto tile = [](int packs, int lanes) { return RowTile{N, packs, lanes}; };
    const auto launch = [&]<RowTile... few_lanes>() {
      if constexpr (has_gradient<Op>) {
        launch_tiles<Op, N, is_cut, few_lanes..., tile(4, 32), tile(5, 32), tile(6, 32), tile(8, 32),
                     tile(10, 32), tile(12, 32)>(tensors, stream);
      } else {
        launch_tiles<Op, N, is_cut, few_lanes..., tile(4, 32), tile(5, 32), tile(6, 32), tile(8, 32),
                     tile(12, 32), tile(16, 32), tile(24, 32), tile(32, 32)>(tensors, stream);
      }
    };
    if constexpr (is_cut && has_gradient<Op>) {
      if constexpr (!is_small) {
        launch
            .template operator()<tile(2, 8), tile(3, 8), tile(4, 8), tile(3, 16), tile(4, 16), tile(6, 16)>();
      } else if constexpr (sizeof(T) == 2) {
        launch.template operator()<tile(2, 32), tile(3, 32)>();
      } else {
        launch.template operator()<>();
      }
    } else if constexpr (is_cut && is_small && sizeof(T) == 2) {
      launch.template operator()<tile(2, 16), tile(2, 32)>();
    } else if constexpr (is_cut) {
      launch.template operator()<tile(4, 4), tile(6, 4), tile(4, 8), tile(6, 8), tile(4, 16), tile(6, 16)>();
    } else if constexpr (is_small) {
      launch.template
      operator()<tile(1, 1), tile(1, 2), tile(2, 2), tile(2, 4), tile(1, 16), tile(1, 32), tile(2, 32)>();
    } else if constexpr (sizeof(T) == 4) {
      launch.template operator()<tile(1, 1), tile(1, 2), tile(2, 2), tile(2, 4), tile(4, 4), tile(4, 8),
                                 tile(5, 8), tile(6, 8), tile(4, 16), tile(5, 16)>();
    } else {
      launch.template
      operator()<tile(1, 1), tile(1, 2), tile(2, 2), tile(2, 4), tile(4, 4), tile(5, 4), tile(6, 4),
                 tile(4, 8), tile(5, 8), tile(6, 8), tile(4, 16), tile(5, 16), tile(6, 16)>();
    }
  }

  // Rows that 16-byte packs do not cover are cut. Exceptions are narrow rows, and matrices of at most 32 rows
  // per SM, with a warp per row.
  template <int N, class T>
  static constexpr std::int64_t most_cols_of_few_lanes = N > 1            ? 32 * N
                                                         : sizeof(T) == 2 ? 64
                                                                          : 40;
  static std::int64_t most_rows_of_a_warp_each() { return 32 * multiprocessors(); }

  /// Packs of 8 or 4 bytes. With few lanes per row, one access touches distant addresses. For reads that is
  /// fine, because the L1 keeps the rest of the fetched bytes, so the loss alone uses few lanes; writes go to
  /// the L2 every time. A matrix with few rows per SM gets more lanes per row, because it finishes quickly.
  template <class Op, int N, class T>
  static void launch_smaller_packs(const Tensors<T>& tensors, cudaStream_t stream) {
    constexpr auto tile = [](int packs, int lanes) { return RowTile{N, packs, lanes}; };
    if (tensors.shape.cols > most_cols_of_few_lanes<N, T>) {
      if constexpr (N == 2) {
        return launch_tiles<Op, N, false, tile(2, 32), tile(3, 32), tile(4, 32), tile(6, 32), tile(8, 32)>(
            tensors, stream);
      } else {
        return launch_tiles<Op, N, false, tile(2, 32), tile(3, 32), tile(4, 32)>(tensors, stream);
      }
    }
    if constexpr (has_gradient<Op> || sizeof(T) == 2) {
      if (tensors.shape.rows <= multiprocessors() * (has_gradient<Op> ? 128 : 256)) {
        constexpr RowTile widest = has_gradient<Op> ? tile(2, 16) : tile(4, 8);
        return launch_tiles<Op, N, false, tile(2, 4), tile(2, 8), widest>(tensors, stream);
      }
    }
    if constexpr (has_gradient<Op> && N * sizeof(T) == 4) {
      launch_tiles<Op, N, false, tile(1, 1), tile(2, 1), tile(2, 2), tile(4, 2), tile(2, 8), tile(4, 8)>(
          tensors, stream);
    } else if constexpr (has_gradient<Op>) {
      launch_tiles<Op, N, false, tile(1, 1), tile(1, 2), tile(2, 2), tile(2, 4), tile(4, 4), tile(4, 8)>(
          tensors, stream);
    } else if constexpr (sizeof(T) == 4) {
      launch_tiles<Op, N, false, tile(2, 1), tile(4, 1), tile(4, 2), tile(4, 4), tile(4, 8)>(tensors, stream);
    } else if constexpr (N == 4) {
      launch_tiles<Op, N, false, tile(4, 1), tile(8, 1), tile(8, 2), tile(8, 4)>(tensors, stream);
    } else {
      launch_tiles<Op, N, false, tile(8, 1), tile(16, 1), tile(16, 2)>(tensors, stream);
    }
  }

  template <class Op, class T>
  static void launch_elements(const Tensors<T>& tensors, cudaStream_t stream) {
    constexpr auto tile = [](int elements, int lanes) { return RowTile{1, elements, lanes}; };
    if constexpr (has_gradient<Op> || sizeof(T) == 4) {
      if (tensors.shape.cols > most_cols_of_few_lanes<1, T>) {
        return launch_tiles<Op, 1, false, tile(4, 32), tile(6, 32), tile(8, 32), tile(10, 32), tile(16, 32)>(
            tensors, stream);
      }
    }
    const auto launch = [&]<RowTile... widest>() {
      if constexpr (has_gradient<Op>) {
        launch_tiles<Op, 1, false, tile(4, 4), tile(5, 4), tile(8, 4), tile(5, 8), widest...>(tensors,
                                                                                              stream);
      } else {
        launch_tiles<Op, 1, false, tile(4, 1), tile(8, 1), tile(16, 1), tile(16, 2), tile(10, 4), widest...>(
            tensors, stream);
      }
    };
    if constexpr (sizeof(T) == 4) {
      launch.template operator()<>();
    } else {
      launch.template operator()<has_gradient<Op> ? tile(8, 8) : tile(16, 4)>();
    }
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    constexpr int N = elements_per_16_bytes<T>;
    const auto [rows, cols] = tensors.shape;
    if (rows == 0) return;
    const auto fits = [&]<int n>() {
      return rows_fit_packs<n>(tensors.x, cols) && (!has_gradient<Op> || rows_fit_packs<n>(tensors.dx, cols));
    };
    const auto launch_wide = [&]<bool is_cut>() {
      // Small: at most one pack for each of 1024 lanes per SM. For cut rows with the gradient: at most 32
      // rows per SM, a warp each.
      const bool is_small = is_cut && has_gradient<Op> ? rows <= most_rows_of_a_warp_each()
                                                       : rows * cols / N <= multiprocessors() * 1024;
      return is_small ? launch_packs<Op, is_cut, true>(tensors, stream)
                      : launch_packs<Op, is_cut, false>(tensors, stream);
    };
    if (fits.template operator()<N>()) return launch_wide.template operator()<false>();
    const bool lie_alike = !has_gradient<Op> || elements_past<16>(tensors.x) ==
                                                    elements_past<16>(static_cast<const T*>(tensors.dx));
    const auto is_cut = [&]<int n>() {
      // For the loss alone, cutting a row is faster than reading it as single 16-bit elements.
      const bool has_warp_each = rows <= most_rows_of_a_warp_each() && cols <= most_uncut_cols &&
                                 (has_gradient<Op> || n * sizeof(T) >= 4);
      return lie_alike && cols > most_cols_of_few_lanes<n, T> && !has_warp_each;
    };
    const auto launch_as = [&]<int n>() {
      if (is_cut.template operator()<n>()) return launch_wide.template operator()<true>();
      if constexpr (n > 1) {
        launch_smaller_packs<Op, n>(tensors, stream);
      } else {
        launch_elements<Op>(tensors, stream);
      }
    };
    if (fits.template operator()<N / 2>()) return launch_as.template operator()<N / 2>();
    if constexpr (N == 8) {
      if (fits.template operator()<2>()) return launch_as.template operator()<2>();
    }
    launch_as.template operator()<1>();
  }
};

}  // namespace rowwise
