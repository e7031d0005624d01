// Stage 03: the row lives in the registers of a group of lanes, which exchange values with __shfl_xor_sync.
//
// Cost: 2 passes, one read and one write; no shared memory and no barrier. The limit is the registers: up to
// 1024 columns here. The three variants have one kernel. A lane takes single elements, packs of 16 bytes, or
// 16 bytes of a narrow row, which few lanes share.
// Sources: OneFlow's first softmax kernel; AITemplate's warp softmax for narrow rows.
#pragma once

#include "common/kernel/cuda_check.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/load_store.cuh"
#include "common/kernel/reduce_op.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/warp_all_reduce.cuh"

/// 4 warps that never synchronise; small blocks spread evenly over the SMs.
constexpr int warp_block_size = 128;
constexpr std::int64_t max_warp_reduce_cols = 1024;

/// `lanes` neighbouring lanes share a row; each takes packs_per_lane packs of pack_size elements.
template <class Op, int pack_size, int packs_per_lane, int lanes, class Load, class Store>
__global__ void __launch_bounds__(warp_block_size) warp_softmax(Load load, Store store, Shape shape) {
  const std::int64_t thread = blockIdx.x * std::int64_t{warp_block_size} + threadIdx.x;
  const std::int64_t row = thread / lanes;
  const int lane = static_cast<int>(thread % lanes);
  // Neighbouring lanes take neighbouring packs, so that each access of a warp covers contiguous bytes.
  const auto col = [&](int pack) { return (pack * lanes + lane) * pack_size; };
  const auto exists = [&](int pack) { return row < shape.rows && col(pack) < shape.cols; };

  // Issue all loads first: they are independent, so their latencies overlap.
  Fetched<Load, pack_size> fetched[packs_per_lane];
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    fetched[pack] =
        exists(pack) ? load.template fetch<pack_size>(row, col(pack)) : load.template missing<pack_size>();
  }

  // Lanes past the last row keep going: a shuffle needs all lanes of the warp.
  float values[packs_per_lane][pack_size];
  float max = MaxOp::identity;
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    load.template unpack<pack_size>(fetched[pack], values[pack]);
#pragma unroll
    for (const float value : values[pack]) max = fmaxf(max, value);
  }
  max = warp_all_reduce<MaxOp, lanes>(max);

  float sum = 0;
#pragma unroll
  for (auto& pack : values) {
#pragma unroll
    for (float& value : pack) {
      value = Op::kept(value, max);
      sum += Op::summand(value);
    }
  }
  sum = warp_all_reduce<SumOp, lanes>(sum);

  const RowResult<Op> result(max, sum);
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
#pragma unroll
    for (float& value : values[pack]) value = result.finish(value);
    if (exists(pack)) store.template store<pack_size>(values[pack], row, col(pack));
  }
}

template <class Op, int pack_size, int packs_per_lane, int lanes, class Load, class Store>
void launch_warp_softmax(Load load, Store store, Shape shape, cudaStream_t stream) {
  const std::int64_t blocks = divide_up(shape.rows * lanes, warp_block_size);
  warp_softmax<Op, pack_size, packs_per_lane, lanes>
      <<<grid_for(blocks), warp_block_size, 0, stream>>>(load, store, shape);
  CUDA_CHECK(cudaGetLastError());
}

/// Makes a number that is known only at run time into a template argument: calls launch.template
/// operator()<n>() with the first power of two that is at least `needed`, or with `most`.
template <int most, int n = 1, class Launch>
void with_power_of_two(std::int64_t needed, Launch launch) {
  if constexpr (n < most) {
    if (needed > n) return with_power_of_two<most, 2 * n>(needed, launch);
  }
  launch.template operator()<n>();
}

// ---- The launchers. Each computes softmax (or log-softmax) of every row, reading through `load` and writing
// through `store`; rows = 0 does nothing.

/// Accepts rows of at most most_cols columns, if a grid has enough blocks for them.
inline Refusal fits_warps(const Matrix& matrix, std::int64_t most_cols, Why why) {
  if (const Refusal refusal = at_most_columns(most_cols, matrix, why)) return refusal;
  return at_most_rows(max_grid_blocks * warp_block_size / 32, matrix, Why::grid);
}

/// One element per access, 32 lanes per row.
struct ScalarLoads {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return fits_warps(matrix, max_warp_reduce_cols, Why::registers_of_warp);
  }
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_power_of_two<32>(divide_up(shape.cols, 32), [&]<int elements>() {
      launch_warp_softmax<Op, 1, elements, 32>(load, store, shape, stream);
    });
  }
};

/// 16 bytes per access, 32 lanes per row. If packs do not cover the rows, it reads single elements.
struct PaddedPacks : ScalarLoads {
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_widest_packs(load, store, [&]<int N>() {
      with_power_of_two<32 / N>(divide_up(shape.cols, 32 * N), [&]<int packs>() {
        launch_warp_softmax<Op, N, packs, 32>(load, store, shape, stream);
      });
    });
  }
};

/// For narrow rows: 16 bytes per lane, and no more lanes per row than it needs, so that a warp has up to 32
/// rows. If packs do not cover the rows, it reads single elements.
struct NarrowGroups {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return fits_warps(matrix, 32 * 16 / matrix.element_bytes, Why::one_pack_of_lanes);
  }
  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_widest_packs(load, store, [&]<int N>() {
      constexpr int elements = elements_per_16_bytes<typename Load::Element>;
      with_power_of_two<32>(divide_up(shape.cols, elements), [&]<int lanes>() {
        launch_warp_softmax<Op, N, elements / N, lanes>(load, store, shape, stream);
      });
    });
  }
};
