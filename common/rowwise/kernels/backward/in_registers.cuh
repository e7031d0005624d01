// From the stage backward: both rows in the registers of a group of lanes, as in forward/warp_reduce.cuh, or
// of a block, as in forward/online.cuh. Beyond the stage's kernels, warp_registers gives a row only as many
// lanes as it needs, reads packs of 8 and 4 bytes (20 percentage points at bf16 262144 x 100), and cuts
// 16-bit rows that packs of 16 bytes do not cover.
#pragma once

#include "common/kernel/current_device.cuh"
#include "common/kernel/row_gradient.cuh"
#include "common/rowwise/kernels/backward/lane_of_row.cuh"
#include "common/rowwise/kernels/forward/online.cuh"

namespace rowwise {

/// One group of lanes per row and no loop over rows; see warp_softmax.
template <class Op, RowTile tile, class T>
__global__ void __launch_bounds__(warp_reduce_block_size)
    warp_backward(const T* y, const T* dy, T* dx, Shape shape, L2Policy reads) {
  y = with_policy(y, reads);
  dy = with_policy(dy, reads);
  constexpr int N = tile.pack_size;
  const int lane = static_cast<int>(threadIdx.x % tile.group_width);
  const int group = static_cast<int>(threadIdx.x / tile.group_width);
  const std::int64_t row = item_of_block() * tile.rows_per_block() + group;
  const auto cols = static_cast<unsigned>(shape.cols);
  const std::int64_t first = row * cols;
  const auto col = [&](unsigned pack) { return (pack * tile.group_width + lane) * N; };
  const auto exists = [&](int pack) { return row < shape.rows && col(pack) < cols; };
  // Missing elements are 0 and add nothing to the sum. Lanes past the last row keep going: a shuffle needs
  // all lanes of the warp.
  Pack<T, N> y_packs[tile.packs_per_lane] = {};
  Pack<T, N> dy_packs[tile.packs_per_lane] = {};
#pragma unroll
  for (int pack = 0; pack < tile.packs_per_lane; ++pack) {
    if (!exists(pack)) continue;
    y_packs[pack] = load_pack<N>(y + first + col(pack));
    dy_packs[pack] = load_pack<N>(dy + first + col(pack));
  }

  float sum = 0;
#pragma unroll
  for (int pack = 0; pack < tile.packs_per_lane; ++pack) {
    add_packs<Op>(sum, y_packs[pack], dy_packs[pack]);
  }
  sum = warp_all_reduce<SumOp, tile.group_width>(sum);

#pragma unroll
  for (int pack = 0; pack < tile.packs_per_lane; ++pack) {
    if (!exists(pack)) continue;
    store_pack(dx + first + col(pack), finish_packs<Op>(sum, y_packs[pack], dy_packs[pack]));
  }
}

/// The same for rows that packs do not cover. Note N20: if packs do cover the rows, this form is slower.
template <class Op, RowTile tile, class T>
__global__ void __launch_bounds__(warp_reduce_block_size)
    cut_backward(const T* y, const T* dy, T* dx, Shape shape, L2Policy reads) {
  y = with_policy(y, reads);
  dy = with_policy(dy, reads);
  constexpr int N = tile.pack_size;
  const LaneOfRow<tile, true> lane(dx, shape.rows, static_cast<int>(shape.cols));
  const std::int64_t first = lane.first();
  // Missing elements are 0 and add nothing to the sum.
  Pack<T, N> y_packs[tile.packs_per_lane] = {};
  Pack<T, N> dy_packs[tile.packs_per_lane] = {};
#pragma unroll
  for (int i = 0; i < tile.packs_per_lane; ++i) {
    if (!lane.exists(i)) continue;
    y_packs[i] = load_pack<N>(y + first + lane.col(i));
    dy_packs[i] = load_pack<N>(dy + first + lane.col(i));
  }
  Pack<T, 1> y_singles[lane.room_for_singles] = {};
  Pack<T, 1> dy_singles[lane.room_for_singles] = {};
#pragma unroll
  for (int i = 0; i < lane.most_singles; ++i) {
    if (!lane.has_single(i)) continue;
    y_singles[i] = load_pack<1>(y + first + lane.col_of_single(i));
    dy_singles[i] = load_pack<1>(dy + first + lane.col_of_single(i));
  }

  float sum = 0;
#pragma unroll
  for (int i = 0; i < tile.packs_per_lane; ++i) add_packs<Op>(sum, y_packs[i], dy_packs[i]);
#pragma unroll
  for (int i = 0; i < lane.most_singles; ++i) add_packs<Op>(sum, y_singles[i], dy_singles[i]);
  sum = warp_all_reduce<SumOp, tile.group_width>(sum);

#pragma unroll
  for (int i = 0; i < tile.packs_per_lane; ++i) {
    if (lane.exists(i)) {
      store_pack(dx + first + lane.col(i), finish_packs<Op>(sum, y_packs[i], dy_packs[i]));
    }
  }
#pragma unroll
  for (int i = 0; i < lane.most_singles; ++i) {
    if (lane.has_single(i)) {
      store_pack(dx + first + lane.col_of_single(i), finish_packs<Op>(sum, y_singles[i], dy_singles[i]));
    }
  }
}

/// One block per row; rows are made of packs of N elements.
template <class Op, int N, BlockTile tile, class T>
__global__ void __launch_bounds__(tile.block_size)
    block_backward(const T* y, const T* dy, T* dx, Shape shape, L2Policy reads) {
  y = with_policy(y, reads);
  dy = with_policy(dy, reads);
  constexpr int packs_per_thread = tile.elements_per_thread / N;
  __shared__ typename Op::State storage[32];
  const auto col = [](int pack) { return (pack * tile.block_size + static_cast<int>(threadIdx.x)) * N; };
  const auto exists = [&](int pack) { return col(pack) < shape.cols; };

  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t first = row * shape.cols;
    Pack<T, N> y_packs[packs_per_thread] = {};
    Pack<T, N> dy_packs[packs_per_thread] = {};
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (!exists(pack)) continue;
      y_packs[pack] = load_pack<N>(y + first + col(pack));
      dy_packs[pack] = load_pack<N>(dy + first + col(pack));
    }

    typename Op::State sum{};
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      add_packs<Op>(sum, y_packs[pack], dy_packs[pack]);
    }
    sum = block_merge<Op>(sum, storage);

#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (exists(pack))
        store_pack(dx + first + col(pack), finish_packs<Op>(sum, y_packs[pack], dy_packs[pack]));
    }
  }
}

// ---- The launchers: the gradient of every row; rows = 0 does nothing. They throw CudaError, and
// std::invalid_argument for rows that are too wide for them.

/// True if y, dy and dx have the same offset from a pack of 16 bytes.
template <class T>
bool lie_alike(const T* y, const T* dy, const T* dx) {
  return elements_past<16>(y) == elements_past<16>(dx) && elements_past<16>(dy) == elements_past<16>(dx);
}

/// Rows that fit in the registers of a warp: they are read by the widest packs that cover the rows of all
/// three matrices, or cut, or read by single elements.
struct WarpRegisters {
  using Operations = BackwardOperations;
  /// Whether rows that packs of 16 bytes do not cover are cut. lie_alike: all three matrices have the same
  /// offset from such a pack. For floats, head_and_tail is as fast.
  static constexpr bool can_cut(bool lie_alike, std::int64_t element_bytes) {
    return lie_alike && element_bytes == 2;
  }
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    const bool cuts = can_cut(matrix.lie_alike, matrix.element_bytes);
    // Beyond 8 single elements per lane it has half the speed of others.
    const std::int64_t most_cols = cuts ? 6 * 8 * 32 : matrix.in_single_elements() ? 8 * 32 : 1024;
    return at_most_columns(most_cols, matrix, Why::registers_of_warp_for_two);
  }

  /// Launches the first tile that holds the row. All tiles have packs of N elements.
  template <class Op, int N, bool is_cut, RowTile... tiles, class T>
  static void launch_tiles(const Tensors<T>& tensors, cudaStream_t stream) {
    const std::int64_t in_packs = is_cut ? tensors.shape.cols / N * N : tensors.shape.cols;
    with_first_tile_that_fits<tiles...>(in_packs, [&]<RowTile tile>() {
      const dim3 grid = one_block_each(divide_up(tensors.shape.rows, tile.rows_per_block()));
      const auto kernel = [] {
        if constexpr (is_cut)
          return cut_backward<Op, tile, T>;
        else
          return warp_backward<Op, tile, T>;
      }();
      kernel<<<grid, warp_reduce_block_size, 0, stream>>>(tensors.y, tensors.dy, tensors.dx, tensors.shape,
                                                          policy_of_reads<T>(3, tensors.shape));
      CUDA_CHECK(cudaGetLastError());
    });
  }

  /// Uses the fewest lanes that cover the row with `few` packs each; for wider rows, all 32 lanes with one of
  /// the numbers of packs in `more`.
  template <class Op, int N, int few, int... more, class T>
  static void launch_packs(const Tensors<T>& tensors, cudaStream_t stream) {
    constexpr auto of = [](int packs, int lanes) { return RowTile{N, packs, lanes}; };
    const auto launch = [&]<RowTile... narrowest>() {
      launch_tiles<Op, N, false, narrowest..., of(few, 4), of(few, 8), of(few, 16), of(few, 32),
                   of(more, 32)...>(tensors, stream);
    };
    // Note N20: packs of 4 bytes are slower with fewer than four lanes.
    if constexpr (N * sizeof(T) == 4 && N > 1) {
      launch.template operator()<>();
    } else {
      launch.template operator()<of(few, 1), of(few, 2)>();
    }
  }

  template <class Op, class T>
  static void launch_cut(const Tensors<T>& tensors, cudaStream_t stream) {
    constexpr auto of = [](int packs, int lanes) { return RowTile{8, packs, lanes}; };
    launch_tiles<Op, 8, true, of(1, 8), of(2, 8), of(3, 8), of(2, 16), of(3, 16), of(2, 32), of(3, 32),
                 of(4, 32), of(5, 32), of(6, 32)>(tensors, stream);
  }

  /// Up to this width, smaller packs or single elements are faster than a cut. That is four packs or elements
  /// per lane; if there are more than 32 rows per SM, it is 40 columns for single elements.
  static std::int64_t most_uncut_cols(int width_of_packs, std::int64_t rows) {
    return width_of_packs == 1 && rows > 32 * multiprocessors() ? 40 : 4 * 32 * width_of_packs;
  }

  /// In narrow rows each lane gets 16 bytes, in packs of any size, or four single elements.
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    constexpr int N = elements_per_16_bytes<T>;
    const auto fit = [&]<int n>() {
      return all_fit_packs<n>(tensors.y, tensors.dy, tensors.dx, tensors.shape.cols);
    };
    if constexpr (N == 8) {
      if (fit.template operator()<8>()) {
        return launch_packs<Op, 8, 1, 2, 3, 4, 5, 6>(tensors, stream);
      }
      const int width = fit.template operator()<4>() ? 4 : fit.template operator()<2>() ? 2 : 1;
      if (can_cut(lie_alike(tensors.y, tensors.dy, tensors.dx), sizeof(T)) &&
          tensors.shape.cols > most_uncut_cols(width, tensors.shape.rows)) {
        return launch_cut<Op>(tensors, stream);
      }
      if (width == 4) return launch_packs<Op, 4, 2, 4, 8>(tensors, stream);
      if (width == 2) return launch_packs<Op, 2, 4, 8, 16>(tensors, stream);
    } else {
      if (fit.template operator()<4>()) return launch_packs<Op, 4, 1, 2, 8>(tensors, stream);
      if (fit.template operator()<2>()) return launch_packs<Op, 2, 2, 4, 8, 16>(tensors, stream);
    }
    launch_packs<Op, 1, 4, 8>(tensors, stream);
  }
};

constexpr BlockTile widest_gradient_tile{.block_size = 1024, .elements_per_thread = 16};
template <class Launch>
void with_gradient_tile(std::int64_t cols, Launch launch) {
  with_first_tile_that_fits<BlockTile{128, 8}, BlockTile{128, 16}, BlockTile{256, 16}, BlockTile{512, 16},
                            widest_gradient_tile>(cols, launch);
}

/// In the three matrices, every row begins at a pack of 16 bytes and is made of such packs, or the same with
/// packs of 8 bytes. With few rows, packs of 8 bytes are faster than a head and a tail.
struct BlockRegisters {
  using Operations = BackwardOperations;
  static constexpr BlockTile widest_of_8_bytes{.block_size = 512, .elements_per_thread = 8};
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    if (const Refusal refusal = in_whole_packs(matrix, 8)) return refusal;
    const BlockTile widest = matrix.in_packs() ? widest_gradient_tile : widest_of_8_bytes;
    return at_most_columns(widest.cols(), matrix, Why::registers_of_block_for_two);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const auto launch_tile = [&]<int N, BlockTile tile>() {
      block_backward<Op, N, tile><<<grid_for(tensors.shape.rows), tile.block_size, 0, stream>>>(
          tensors.y, tensors.dy, tensors.dx, tensors.shape, policy_of_reads<T>(3, tensors.shape));
      CUDA_CHECK(cudaGetLastError());
    };
    constexpr int N = elements_per_16_bytes<T>;
    if (all_fit_packs<N>(tensors.y, tensors.dy, tensors.dx, tensors.shape.cols)) {
      with_gradient_tile(tensors.shape.cols,
                         [&]<BlockTile tile>() { launch_tile.template operator()<N, tile>(); });
    } else {
      with_first_tile_that_fits<BlockTile{128, 8}, BlockTile{256, 8}, widest_of_8_bytes>(
          tensors.shape.cols, [&]<BlockTile tile>() { launch_tile.template operator()<N / 2, tile>(); });
    }
  }
};

}  // namespace rowwise
