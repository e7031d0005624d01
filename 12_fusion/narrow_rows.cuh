// Rows that fit the registers of a warp: as few lanes as hold one, as in stage 03. The loss alone, or with its gradient.
#pragma once

#include <type_traits>

#include "03_warp_reduce/warp_reduce.cuh"
#include "08_unaligned_rows/finish_row.cuh"
#include "12_fusion/row_loss.cuh"
#include "common/harness/current_device.cuh"

/// The largest of some packs; of 16-bit elements two by one instruction.
template <class T, int N, int packs>
__device__ float max_of(const Pack<T, N> (&all)[packs]) {
  float max = MaxOp::identity;
  if constexpr (sizeof(T) == 2 && N > 1) {
    using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    Two max_of_two = reinterpret_cast<const Two&>(all[0].word);
#pragma unroll
    for (const auto& pack : all) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        max_of_two = __hmax2(max_of_two, reinterpret_cast<const Two*>(&pack.word)[i]);
      }
    }
    max = fmaxf(static_cast<float>(max_of_two.x), static_cast<float>(max_of_two.y));
  } else {
#pragma unroll
    for (const auto& pack : all) {
      float values[N];
      unpack(pack, values);
#pragma unroll
      for (const float value : values) max = fmaxf(max, value);
    }
  }
  return max;
}

/// Blocks that an SM must have the registers for: of the gradient of 80 elements a lane, nvcc would leave it four.
template <class Op, RowTile tile>
constexpr int least_blocks = has_gradient<Op> && (tile.pack_size * tile.packs_per_lane == 80) ? 5 : 1;

/// A group of lanes for each row, in one turn; see warp_softmax of stage 03. The parameters are 48 bytes, as there. dx: not used
/// for the loss alone.
template <class Op, RowTile tile, class T>
__global__ void __launch_bounds__(warp_reduce_block_size, least_blocks<Op, tile>)
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
  Pack<T, N> packs[packs_per_lane];
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    packs[pack] = exists(pack) ? load_pack<N>(row_x + col(pack)) : no_elements<T, N>();
  }
  // x at the label. For the loss of few packs it is read behind them, and is on its way while they are added up; the fence is for
  // the compiler, which would read it first, and wait for the label before it reads the packs. Otherwise it is read last, when
  // the L1 has it.
  asm volatile("" ::: "memory");
  constexpr bool is_read_early = !has_gradient<Op> && packs_per_lane <= 4;
  const Element<T> early(row_x, label, is_read_early && row < rows && lane == 0 ? cols : 0);
  const auto write_loss = [&](typename Op::State state) {
    if (row >= rows || lane != 0) return;
    if constexpr (is_read_early) {
      loss[row] = loss_of_row<Op>(state, early.value(), label, cols);
    } else {
      loss[row] = loss_of_row<Op>(state, Element<T>(row_x, label, cols).value(), label, cols);
    }
  };

  if constexpr (!has_gradient<Op> && N > 1 && packs_per_lane > 4) {
    static_assert(tile.group_width == 32);
    // The first packs are added while the last are on their way, and a few at once, so that the sum is seldom rescaled.
    constexpr int at_once = packs_per_lane % 4 == 0 ? 4 : 3;
    typename Op::Own own;
#pragma unroll
    for (int first = 0; first < packs_per_lane; first += at_once) {
      float values[at_once * N];
#pragma unroll
      for (int i = 0; i < at_once; ++i) unpack(packs[first + i], part_of<N>(values, i));
      if (exists(first)) own.add(values, [&](int i) { return exists(first + i / N); });
    }
    write_loss(warp_merge<Op>(own.state()));
    return;
  }

  // A warp without a row leaves, but not before it has asked for all: nvcc 13.0 moves nothing across a branch. Without one here,
  // some packs would be asked for only when others, or the label, have come.
  if (has_gradient<Op> && row - group % (32 / tile.group_width) >= rows) return;
  // The maximum of the row first, so that no sum is rescaled, and each exponential is taken once.
  float max = max_of(packs);
  max = tile.group_width == 32 ? warp_max(max) : warp_all_reduce<MaxOp, tile.group_width>(max);
  const float shift = safe_shift(max);
  float sum = 0;
  float total = 0;
  float values[packs_per_lane][N];
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    if (N > 1 && !exists(pack)) continue;  // a single element that does not exist adds nothing
    unpack(packs[pack], values[pack]);
#pragma unroll
    for (float& value : values[pack]) {
      if (Op::smoothing > 0 && exists(pack)) total += value;
      value = __expf(value - shift);
      sum += value;
    }
  }
  sum = warp_all_reduce<SumOp, tile.group_width>(sum);
  if (Op::smoothing > 0) total = warp_all_reduce<SumOp, tile.group_width>(total);

  const typename Op::State state = Op::state({max, sum}, total);
  if constexpr (has_gradient<Op>) {
    const RowGradient<Op> gradient(state, label, cols);
#pragma unroll
    for (int pack = 0; pack < packs_per_lane; ++pack) {
      if (!exists(pack)) continue;
      gradient.of_exponentials(values[pack], col(pack));
      store_pack(dx + row * cols + col(pack), make_pack<T>(values[pack]));
    }
  }
  write_loss(state);
}

/// Rows of at most most_cols() columns; rows = 0 does nothing. Throws CudaError, and std::invalid_argument for wider rows. Where
/// packs do not cover the rows of x and dx, it takes single elements.
struct NarrowRows {
  // Of a lane, at most. The gradient keeps them unpacked, and the loss alone need not.
  template <class Op>
  static constexpr int most_packs = has_gradient<Op> ? 12 : 32;
  static constexpr int most_elements = 16;

  template <class Op>
  static constexpr std::int64_t most_cols(bool in_packs, std::int64_t element_bytes) {
    return 32 * (in_packs ? most_packs<Op> * 16 / element_bytes : most_elements);
  }

  template <class Op, RowTile... tiles, class T>
  static void launch_tiles(const Tensors<T>& of, cudaStream_t stream) {
    with_first_tile_that_fits<tiles...>(of.shape.cols, [&]<RowTile tile>() {
      const dim3 grid = one_block_each(divide_up(of.shape.rows, tile.rows_per_block()));
      const L2Policy reads = has_gradient<Op> ? policy_of_reads<T>(2, of.shape) : L2Policy::as_usual;
      narrow_rows_loss<Op, tile><<<grid, warp_reduce_block_size, 0, stream>>>(
          of.x, of.labels, of.loss, of.dx, of.shape.rows, static_cast<int>(of.shape.cols), reads);
      CUDA_CHECK(cudaGetLastError());
    });
  }

  /// As few lanes as cover a row with four packs each, or for a small matrix as it has packs; in a wider row all lanes have more.
  template <class Op, bool is_small, class T>
  static void launch_packs(const Tensors<T>& of, cudaStream_t stream) {
    constexpr auto tile = [](int packs, int lanes) {
      return RowTile{.pack_size = elements_per_16_bytes<T>, .packs_per_lane = packs, .group_width = lanes};
    };
    constexpr RowTile of_16_packs = is_small ? tile(1, 16) : tile(4, 4);
    constexpr RowTile of_32_packs = is_small ? tile(1, 32) : tile(4, 8);
    constexpr RowTile of_64_packs = is_small ? tile(2, 32) : tile(4, 16);
    const auto launch = [&]<RowTile... widest>() {
      launch_tiles<Op, tile(1, 1), tile(1, 2), tile(2, 2), tile(2, 4), of_16_packs, of_32_packs, of_64_packs,
                   tile(4, 32), tile(6, 32), tile(8, 32), widest...>(of, stream);
    };
    if constexpr (has_gradient<Op>) {
      launch.template operator()<tile(10, 32), tile(12, 32)>();
    } else {
      launch.template operator()<tile(12, 32), tile(16, 32), tile(24, 32), tile(32, 32)>();
    }
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& of, cudaStream_t stream) {
    constexpr int N = elements_per_16_bytes<T>;
    constexpr auto tile = [](int elements, int lanes) {
      return RowTile{.pack_size = 1, .packs_per_lane = elements, .group_width = lanes};
    };
    const auto [rows, cols] = of.shape;
    if (rows == 0) return;
    if (rows_fit_packs<N>(of.x, cols) && (!has_gradient<Op> || rows_fit_packs<N>(of.dx, cols))) {
      // A small matrix has to be done soon: 1024 lanes on each SM of an H200 hold it.
      const bool is_small = rows * cols / N <= 132 * 1024;
      return is_small ? launch_packs<Op, true>(of, stream) : launch_packs<Op, false>(of, stream);
    }
    // What lanes read of far columns stays in the L1; what they write there goes to the L2 each time.
    if constexpr (has_gradient<Op>) {
      launch_tiles<Op, tile(4, 4), tile(8, 4), tile(8, 8), tile(8, 16), tile(8, 32), tile(16, 32)>(of,
                                                                                                   stream);
    } else {
      launch_tiles<Op, tile(16, 1), tile(16, 2), tile(16, 4), tile(16, 8), tile(16, 16), tile(16, 32)>(
          of, stream);
    }
  }
};
