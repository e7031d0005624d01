// Narrow rows, of a class for each column: a few lanes for each, as in stage 03. The loss alone, or with its gradient.
#pragma once

#include "03_warp_reduce/warp_reduce.cuh"
#include "08_unaligned_rows/finish_row.cuh"
#include "12_fusion/row_loss.cuh"
#include "common/harness/current_device.cuh"

/// What `lanes` neighbours have of a row, merged; each gets it. All lanes of the warp call it together.
template <class Op, int lanes>
__device__ typename Op::State merge_lanes(typename Op::State state) {
  if constexpr (requires { state.max; }) {  // MaxSum: the maximum first, as in warp_merge
    const float max = warp_all_reduce<MaxOp, lanes>(state.max);
    return {max, warp_all_reduce<SumOp, lanes>(state.sum * __expf(state.max - safe_shift(max)))};
  } else {
#pragma unroll
    for (int mask = lanes / 2; mask > 0; mask /= 2) state = Op::merge(state, shuffle_xor(state, mask));
    return state;
  }
}

/// A group of lanes for each row, in one turn; see warp_softmax of stage 03. The parameters are 48 bytes, as there. dx: not used
/// for the loss alone.
template <class Op, RowTile tile, class T>
__global__ void __launch_bounds__(warp_reduce_block_size)
    narrow_rows_loss(const T* x, const std::int64_t* labels, float* loss, T* dx, std::int64_t rows, int cols,
                     L2Policy reads) {
  x = with_policy(x, reads);
  constexpr int N = tile.pack_size;
  constexpr int packs_per_lane = tile.packs_per_lane;
  const int lane = static_cast<int>(threadIdx.x % tile.group_width);
  const int group = static_cast<int>(threadIdx.x / tile.group_width);
  const std::int64_t row = item_of_block() * tile.rows_per_block() + group;
  const T* const row_x = x + row * cols;
  const auto col = [&](int pack) { return (pack * tile.group_width + lane) * N; };
  const auto exists = [&](int pack) { return row < rows && col(pack) < cols; };
  // Lanes past the last row go on, too: a shuffle needs all lanes of the warp.
  const std::int64_t label = row < rows ? labels[row] : ignored_label;
  Pack<T, N> packs[packs_per_lane] = {};
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    if (exists(pack)) packs[pack] = load_pack<N>(row_x + col(pack));
  }

  float values[packs_per_lane * N];
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) unpack(packs[pack], part_of<N>(values, pack));
  typename Op::Own own;
  if (exists(packs_per_lane - 1)) {
    own.add(values);  // all at once, so that the sum is rescaled once
  } else {
#pragma unroll
    for (int pack = 0; pack < packs_per_lane - 1; ++pack) {
      if (exists(pack)) own.add(part_of<N>(values, pack));
    }
  }
  const typename Op::State state = merge_lanes<Op, tile.group_width>(own.state());

  if (row < rows && lane == 0) {
    loss[row] = loss_of_row<Op>(state, element_at(row_x, label, cols), label, cols);
  }
  if constexpr (has_gradient<Op>) {
    const RowGradient<Op> gradient(state, label, cols);
#pragma unroll
    for (int pack = 0; pack < packs_per_lane; ++pack) {
      if (!exists(pack)) continue;
      auto& of_pack = part_of<N>(values, pack);
      gradient(of_pack, col(pack));
      store_pack(dx + row * cols + col(pack), make_pack<T>(of_pack));
    }
  }
}

/// Rows of at most most_cols columns at any place; rows = 0 does nothing. Throws CudaError, and std::invalid_argument for
/// wider rows. Where packs do not cover the rows of x and dx, it takes single elements.
struct NarrowRows {
  static constexpr std::int64_t most_cols = 256;

  /// As few lanes as cover a row with `few` packs each; in a wider row all lanes have more.
  template <class Op, int N, int few, int more, class T>
  static void launch_packs(const Tensors<T>& of, cudaStream_t stream) {
    constexpr auto tile = [](int packs, int lanes) {
      return RowTile{.pack_size = N, .packs_per_lane = packs, .group_width = lanes};
    };
    with_first_tile_that_fits<tile(few, 4), tile(few, 8), tile(few, 16), tile(few, 32), tile(more, 32)>(
        of.shape.cols, [&]<RowTile tile>() {
          const dim3 grid = one_block_each(divide_up(of.shape.rows, tile.rows_per_block()));
          const L2Policy reads = has_gradient<Op> ? policy_of_reads<T>(2, of.shape) : L2Policy::as_usual;
          narrow_rows_loss<Op, tile><<<grid, warp_reduce_block_size, 0, stream>>>(
              of.x, of.labels, of.loss, of.dx, of.shape.rows, static_cast<int>(of.shape.cols), reads);
          CUDA_CHECK(cudaGetLastError());
        });
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& of, cudaStream_t stream) {
    if (of.shape.rows == 0) return;
    constexpr int N = elements_per_16_bytes<T>;
    if (rows_fit_packs<N>(of.x, of.shape.cols) &&
        (!has_gradient<Op> || rows_fit_packs<N>(of.dx, of.shape.cols))) {
      launch_packs<Op, N, 1, 8 / N>(of, stream);
    } else {
      launch_packs<Op, 1, 4, 8>(of, stream);
    }
  }
};
