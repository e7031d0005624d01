// Rows that fit the registers of a warp: as few lanes as hold one, as in stage 03. The loss alone, or with its gradient.
#pragma once

#include "03_warp_reduce/warp_reduce.cuh"
#include "08_unaligned_rows/finish_row.cuh"
#include "12_fusion/packs_in_registers.cuh"
#include "common/harness/current_device.cuh"

/// What a lane has of a row: packs, all asked for before one is used. Lanes past the last row have none, but take part in shuffles.
template <RowTile tile, class T>
class RowOfLanes {
 public:
  static constexpr int N = tile.pack_size;
  Pack<T, N> packs[tile.packs_per_lane];

  __device__ RowOfLanes(const T* x, std::int64_t rows, int cols)
      : row_(row_of_thread()), has_row_(row_ < rows), cols_(cols) {
    const T* const row_x = x + row_ * cols;
#pragma unroll
    for (int i = 0; i < tile.packs_per_lane; ++i) {
      packs[i] = exists(i) ? load_pack<N>(row_x + col(i)) : no_elements<T, N>();
    }
  }

  static __device__ std::int64_t row_of_thread() {
    return item_of_block() * tile.rows_per_block() + threadIdx.x / tile.group_width;
  }
  __device__ std::int64_t row() const {
    return row_;
  }
  __device__ bool has_row() const {
    return has_row_;
  }
  /// Whether this lane writes the loss.
  __device__ bool is_first() const {
    return has_row_ && lane() == 0;
  }
  __device__ bool exists(int pack) const {
    return has_row_ && col(pack) < cols_;
  }
  static __device__ int col(int pack) {
    return (pack * tile.group_width + lane()) * N;
  }

  /// The state of the row, and in `values` the exponentials of its elements. The maximum comes first, so that no sum is rescaled,
  /// and each exponential is taken once.
  template <class Op>
  __device__ typename Op::State reduce(float (&values)[tile.packs_per_lane][N]) const {
    const float own_max = max_of<tile.packs_per_lane>(packs);
    const float max =
        tile.group_width == 32 ? warp_max(own_max) : warp_all_reduce<MaxOp, tile.group_width>(own_max);
    const float shift = safe_shift(max);
    float sum = 0;
    float total = 0;
#pragma unroll
    for (int i = 0; i < tile.packs_per_lane; ++i) {
      // What does not exist adds nothing. With a branch for each, nvcc 13.0 spills less of ten packs.
      if (tile.packs_per_lane > 4 && N > 1 && !exists(i)) continue;
      unpack(packs[i], values[i]);
#pragma unroll
      for (float& value : values[i]) {
        if (Op::smoothing > 0 && exists(i)) total += value;
        value = __expf(value - shift);
        sum += value;
      }
    }
    sum = warp_all_reduce<SumOp, tile.group_width>(sum);
    if (Op::smoothing > 0) total = warp_all_reduce<SumOp, tile.group_width>(total);
    return Op::state({max, sum}, total);
  }

 private:
  static __device__ int lane() {
    return static_cast<int>(threadIdx.x % tile.group_width);
  }

  std::int64_t row_;
  bool has_row_;
  int cols_;
};

/// A group of lanes for each row, in one turn; see warp_softmax of stage 03. The loss alone.
template <class Op, RowTile tile, class T>
__global__ void __launch_bounds__(warp_reduce_block_size)
    narrow_rows_loss(const T* x, const std::int64_t* labels, float* loss, std::int64_t rows, int cols) {
  constexpr int N = tile.pack_size;
  // What a lane has of a narrow row is kept until the maximum is known.
  constexpr int bytes_of_lane = static_cast<int>(tile.packs_per_lane * N * sizeof(T));
  constexpr bool is_narrow = tile.group_width < 32 || N == 1 || bytes_of_lane <= (sizeof(T) == 2 ? 80 : 64);
  const std::int64_t row = RowOfLanes<tile, T>::row_of_thread();
  std::int64_t label = ignored_label;
  // x at the label waits for it: of a narrow row the label is asked for first, of a wide one in the shadow of the packs.
  if (is_narrow && row < rows) label = labels[row];
  const RowOfLanes<tile, T> held(x, rows, cols);
  if (!is_narrow && row < rows) label = labels[row];
  const auto x_at_label = [&](bool reads) {
    return Element<T>(x + held.row() * cols, label, reads && held.is_first() ? cols : 0);
  };
  packs_are_asked_for();
  // On its way while the row is added up. Of a wide row it is read last, when the L1 has it.
  const Element<T> early = x_at_label(is_narrow);

  typename Op::State state;
  if constexpr (is_narrow) {
    float values[tile.packs_per_lane][N];
    state = held.template reduce<Op>(values);
  } else {
    // The first packs are added while the last are on their way, and a few at once, so that the sum is seldom rescaled.
    constexpr int at_once = tile.packs_per_lane % 4 == 0 ? 4 : 3;
    static_assert(tile.packs_per_lane % at_once == 0);
    typename Op::Own own;
#pragma unroll
    for (int first = 0; first < tile.packs_per_lane; first += at_once) {
      if (!held.exists(first)) continue;
      add_packs<at_once>(own, held.packs + first, [&](int i) { return held.exists(first + i); });
    }
    state = warp_merge<Op>(own.state());
  }
  // Made by all lanes: a branch around it would take longer.
  const Element<T> x_label = is_narrow ? early : x_at_label(true);
  const float row_loss = loss_of_row<Op>(state, x_label.value(), label, cols);
  if (held.is_first()) loss[held.row()] = row_loss;
}

/// Blocks that an SM must have the registers for. Left alone, nvcc 13.0 gives a lane some more than it needs.
template <RowTile tile>
constexpr int least_blocks() {
  const int elements = tile.pack_size * tile.packs_per_lane;
  return elements == 96 ? 4 : elements == 80 ? 5 : 1;
}

/// The same with the gradient. The parameters are 48 bytes, as in stage 03.
template <class Op, RowTile tile, bool is_small, class T>
__global__ void __launch_bounds__(warp_reduce_block_size, least_blocks<tile>())
    narrow_rows_gradient(const T* x, const std::int64_t* labels, float* loss, T* dx, std::int64_t rows,
                         int cols, L2Policy reads) {
  constexpr int N = tile.pack_size;
  RowOfLanes<tile, T> held(with_policy(x, reads), rows, cols);
  const std::int64_t label = held.has_row() ? labels[held.row()] : ignored_label;
  const auto row_loss = [&](typename Op::State state, const Element<T>& x_label) {
    return loss_of_row<Op>(state, x_label.value(), label, cols);
  };
  packs_are_asked_for();
  // x at the label: of a small matrix it is read early, and the loss made by all lanes before the gradient, since nothing is left to
  // do meanwhile after it. Of a large one it is read last, when the L1 has it.
  const Element<T> early(x + held.row() * cols, label, is_small && held.is_first() ? cols : 0);
  // A warp without a row leaves, but not before it has asked for all: nvcc 13.0 moves nothing across a branch. Without one here,
  // some packs would be asked for only when others, or the label, have come.
  if (held.row() - threadIdx.x % 32 / tile.group_width >= rows) return;
  if (label == ignored_label) {
#pragma unroll
    for (auto& pack : held.packs) pack = no_elements<T, N>();  // nothing of it, NaN for one, may reach dx
  }
  float values[tile.packs_per_lane][N];
  const typename Op::State state = held.template reduce<Op>(values);
  if (is_small) {
    const float made_by_all = row_loss(state, early);
    if (held.is_first()) loss[held.row()] = made_by_all;
  }
  const RowGradient<Op> gradient(state, label, cols);
#pragma unroll
  for (int i = 0; i < tile.packs_per_lane; ++i) {
    if (!held.exists(i)) continue;
    gradient.template of_exponentials<tile.group_width == 32>(values[i], held.col(i));
    store_pack(dx + held.row() * cols + held.col(i), make_pack<T>(values[i]));
  }
  if (!is_small && held.is_first()) {
    loss[held.row()] = row_loss(state, Element<T>(x + held.row() * cols, label, cols));
  }
}

/// Rows of at most most_cols() columns; rows = 0 does nothing. Throws CudaError, and std::invalid_argument for wider rows. It takes
/// the widest packs that cover the rows of x and dx, or single elements.
struct NarrowRows {
  // Of a lane, at most. The gradient keeps them unpacked, and the loss alone need not.
  template <class Op>
  static constexpr int most_packs = has_gradient<Op> ? 12 : 32;
  static constexpr int most_elements = 16;

  /// in_packs: the rows are made of whole packs of 16 bytes.
  template <class Op>
  static constexpr std::int64_t most_cols(bool in_packs, std::int64_t element_bytes) {
    return 32 * (in_packs ? most_packs<Op> * 16 / element_bytes : most_elements);
  }

  /// Of packs of N elements, the first of the tiles that fits.
  template <class Op, int N, bool is_small, RowTile... tiles, class T>
  static void launch_tiles(const Tensors<T>& of, cudaStream_t stream) {
    with_first_tile_that_fits<tiles...>(of.shape.cols, [&]<RowTile tile>() {
      const dim3 grid = one_block_each(divide_up(of.shape.rows, tile.rows_per_block()));
      const int cols = static_cast<int>(of.shape.cols);
      if constexpr (has_gradient<Op>) {
        // Where what a lane writes is less than 16 bytes, the hint costs a point.
        constexpr bool hints = N == elements_per_16_bytes<T>;
        constexpr bool is_soon_done =
            is_small && tile.packs_per_lane <= 2 && tile.group_width >= (hints ? 16 : 4);
        narrow_rows_gradient<Op, tile, is_soon_done><<<grid, warp_reduce_block_size, 0, stream>>>(
            of.x, of.labels, of.loss, of.dx, of.shape.rows, cols,
            hints ? policy_of_reads<T>(2, of.shape) : L2Policy::as_usual);
      } else {
        narrow_rows_loss<Op, tile>
            <<<grid, warp_reduce_block_size, 0, stream>>>(of.x, of.labels, of.loss, of.shape.rows, cols);
      }
      CUDA_CHECK(cudaGetLastError());
    });
  }

  /// As few lanes as cover a row with four packs each, or for a small matrix as it has packs; in a wider row all lanes have more.
  /// Rows that twice as many lanes would be half empty with have five or six packs of a lane.
  template <class Op, bool is_small, class T>
  static void launch_packs(const Tensors<T>& of, cudaStream_t stream) {
    constexpr int N = elements_per_16_bytes<T>;
    constexpr auto tile = [](int packs, int lanes) { return RowTile{N, packs, lanes}; };
    const auto launch = [&]<RowTile... widest>() {
      const auto launch_with = [&]<RowTile... few_lanes>() {
        launch_tiles<Op, N, is_small, tile(1, 1), tile(1, 2), tile(2, 2), tile(2, 4), few_lanes...,
                     tile(4, 32), tile(sizeof(T) == 2 ? 5 : 4, 32), tile(6, 32), tile(8, 32), widest...>(
            of, stream);
      };
      if constexpr (is_small) {
        launch_with.template operator()<tile(1, 16), tile(1, 32), tile(2, 32)>();
      } else if constexpr (sizeof(T) == 4) {
        launch_with
            .template operator()<tile(4, 4), tile(4, 8), tile(5, 8), tile(6, 8), tile(4, 16), tile(5, 16)>();
      } else {
        launch_with.template operator()<tile(4, 4), tile(5, 4), tile(6, 4), tile(4, 8), tile(5, 8),
                                        tile(6, 8), tile(4, 16), tile(5, 16), tile(6, 16)>();
      }
    };
    if constexpr (has_gradient<Op>) {
      launch.template operator()<tile(10, 32), tile(12, 32)>();
    } else {
      launch.template operator()<tile(12, 32), tile(16, 32), tile(24, 32), tile(32, 32)>();
    }
  }

  /// Packs of 8 bytes, or of 4. What lanes read of far columns stays in the L1, so the loss alone takes few lanes; what they write
  /// there goes to the L2 each time. With few rows for each SM, as an H200 would have them, the matrix is soon done: more lanes.
  template <class Op, int N, class T>
  static void launch_smaller_packs(const Tensors<T>& of, cudaStream_t stream) {
    constexpr auto tile = [](int packs, int lanes) { return RowTile{N, packs, lanes}; };
    const bool is_small = of.shape.rows <= 132 * (has_gradient<Op> ? 128 : 256);
    if (is_small && of.shape.cols <= 32 * N) {
      if constexpr (has_gradient<Op>)
        return launch_tiles<Op, N, true, tile(2, 4), tile(2, 8), tile(2, 16)>(of, stream);
      if constexpr (sizeof(T) == 2)
        return launch_tiles<Op, N, true, tile(2, 4), tile(2, 8), tile(4, 8)>(of, stream);
    }
    if constexpr (sizeof(T) == 2) {
      // Of rows that are no more than the warps of an H200, each has a warp.
      if (of.shape.rows <= 132 * 32)
        return launch_tiles<Op, N, true, tile(2, 32), tile(4, 32), tile(16 / N, 32)>(of, stream);
    }
    if constexpr (!has_gradient<Op> && sizeof(T) == 4) {
      launch_tiles<Op, N, false, tile(2, 1), tile(4, 1), tile(4, 2), tile(4, 4), tile(4, 8), tile(4, 16),
                   tile(4, 32), tile(8, 32)>(of, stream);
    } else if constexpr (!has_gradient<Op>) {
      constexpr int most = 32 / N;
      launch_tiles<Op, N, false, tile(most / 2, 1), tile(most, 1), tile(most, 2), tile(most, 4),
                   tile(most, 8), tile(most, 16)>(of, stream);
    } else if constexpr (sizeof(T) == 4) {
      launch_tiles<Op, N, false, tile(1, 1), tile(1, 2), tile(2, 2), tile(2, 4), tile(4, 4), tile(4, 8),
                   tile(4, 16), tile(4, 32), tile(8, 32)>(of, stream);
    } else if constexpr (N == 4) {
      launch_tiles<Op, N, false, tile(1, 1), tile(1, 2), tile(2, 2), tile(2, 4), tile(4, 4), tile(4, 8),
                   tile(4, 16), tile(4, 32)>(of, stream);
    } else {
      launch_tiles<Op, N, false, tile(1, 1), tile(2, 1), tile(2, 2), tile(4, 2), tile(2, 8), tile(4, 8),
                   tile(8, 8), tile(8, 16), tile(8, 32)>(of, stream);
    }
  }

  template <class Op, class T>
  static void launch_elements(const Tensors<T>& of, cudaStream_t stream) {
    constexpr auto tile = [](int elements, int lanes) { return RowTile{1, elements, lanes}; };
    if constexpr (has_gradient<Op>) {
      launch_tiles<Op, 1, false, tile(4, 4), tile(5, 4), tile(8, 4), tile(5, 8), tile(8, 8), tile(5, 16),
                   tile(8, 16), tile(5, 32), tile(8, 32), tile(10, 32), tile(16, 32)>(of, stream);
    } else {
      launch_tiles<Op, 1, false, tile(16, 1), tile(16, 2), tile(10, 4), tile(16, 4), tile(10, 8), tile(16, 8),
                   tile(10, 16), tile(16, 16), tile(10, 32), tile(16, 32)>(of, stream);
    }
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& of, cudaStream_t stream) {
    constexpr int N = elements_per_16_bytes<T>;
    const auto [rows, cols] = of.shape;
    if (rows == 0) return;
    const auto fits = [&]<int n>() {
      return rows_fit_packs<n>(of.x, cols) && (!has_gradient<Op> || rows_fit_packs<n>(of.dx, cols));
    };
    if (fits.template operator()<N>()) {
      // A small matrix has to be done soon: 1024 lanes on each SM of an H200 hold it.
      const bool is_small = rows * cols / N <= 132 * 1024;
      return is_small ? launch_packs<Op, true>(of, stream) : launch_packs<Op, false>(of, stream);
    }
    if (fits.template operator()<N / 2>()) return launch_smaller_packs<Op, N / 2>(of, stream);
    if constexpr (N == 8) {
      if (fits.template operator()<2>()) return launch_smaller_packs<Op, 2>(of, stream);
    }
    launch_elements<Op>(of, stream);
  }
};
