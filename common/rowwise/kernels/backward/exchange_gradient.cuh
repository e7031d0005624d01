// From the stage backward: row_exchange.cuh with two rows. Few rows are shared by many blocks each, in one
// kernel: the blocks keep their parts in registers and send each other their sums by exchange_pairs. At f32 1
// x 1048576 this reached 66.8 % of the ceiling; two kernels reached 57.3 % (H200).
#pragma once

#include "common/kernel/row_gradient.cuh"
#include "common/rowwise/kernels/forward/row_exchange.cuh"

namespace rowwise {

/// A sum and the number of parts in it: exchange_pairs regards a slot of 0 as empty, and a sum may be 0.
struct SumOfParts {
  float sum = 0;
  unsigned parts = 0;
};
__device__ inline SumOfParts shuffle_xor(SumOfParts value, int mask) {
  return {::shuffle_xor(value.sum, mask), __shfl_xor_sync(0xffffffff, value.parts, mask)};
}
struct MergesSumsOfParts {
  using State = SumOfParts;
  static __device__ State merge(State a, State b) { return {a.sum + b.sum, a.parts + b.parts}; }
};

/// blockIdx.x: the part, of whole packs; blockIdx.y: the row.
template <class Op, PartTile tile, class T>
__global__ void __launch_bounds__(tile.block.block_size, promised_blocks_per_sm(tile))
    exchange_backward(const T* y, const T* dy, T* dx, PairBits* slots, Shape shape, std::int64_t part_cols) {
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_per_thread = tile.block.elements_per_thread / N;
  // There are two, so that each is written again only after the other's barrier.
  __shared__ typename Op::State block_storage[32];
  __shared__ SumOfParts row_storage[32];
  const PartOfRow part(part_cols, shape.cols);
  const auto col = [](int i) { return (i * tile.block.block_size + static_cast<int>(threadIdx.x)) * N; };
  const auto exists = [&](int i) { return col(i) < part.cols; };

  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    const std::int64_t first = row * shape.cols + part.first_col;
    Pack<T, N> y_packs[packs_per_thread] = {};
    Pack<T, N> dy_packs[packs_per_thread] = {};
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      if (!exists(i)) continue;
      y_packs[i] = load_pack<N>(y + first + col(i));
      dy_packs[i] = load_pack<N>(dy + first + col(i));
    }
    typename Op::State sum{};
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) add_packs<Op>(sum, y_packs[i], dy_packs[i]);
    const SumOfParts own{block_merge_once<Op>(sum, block_storage), 1};
    PairBits* const slots_of_row = slots + row * gridDim.x * gridDim.x;
    sum = exchange_pairs<MergesSumsOfParts>(own, slots_of_row, row_storage).sum;
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      if (exists(i)) store_pack(dx + first + col(i), finish_packs<Op>(sum, y_packs[i], dy_packs[i]));
    }
  }
}

/// The tiles for two rows.
constexpr PartTile gradient_parts[] = {
    {.block = {.block_size = 256, .elements_per_thread = 8}, .blocks_per_sm = 4},
    {.block = {.block_size = 512, .elements_per_thread = 16}, .blocks_per_sm = 2},
};

/// Rows must be made of whole packs and begin at packs. The workspace is 0 before and after.
struct SplitWithExchange {
  using Operations = BackwardOperations;
  /// Parts are small, unless there would be so many that not all blocks of all rows are on the GPU together,
  /// or more parts per row than multiprocessors, because each block waits for the sums of all parts of its
  /// row.
  static PartTile tile(Shape shape) {
    const std::int64_t sms = multiprocessors();
    const std::int64_t parts = divide_up(shape.cols, gradient_parts[0].cols());
    return parts <= sms && shape.rows * parts <= gradient_parts[0].blocks_per_sm * sms ? gradient_parts[0]
                                                                                       : gradient_parts[1];
  }
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
    const std::int64_t blocks = promised_blocks_per_sm(gradient_parts[1]) * gpu.multiprocessors;
    return at_most_columns(blocks * gradient_parts[1].cols(), matrix, Why::registers_of_gpu_for_two);
  }
  static Need needs(const Matrix& matrix) {
    const std::int64_t parts = divide_up(matrix.cols, tile(matrix.shape()).cols());
    const std::int64_t sums = matrix.rows * parts * parts;
    return {.workspace_bytes = static_cast<std::size_t>(sums) * sizeof(PairBits), .zeroed = true};
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    with_first_tile_that_fits<gradient_parts[0], gradient_parts[1]>(
        tile(tensors.shape).cols(), [&]<PartTile tile>() {
          const auto kernel = exchange_backward<Op, tile, T>;
          const Split split = split_columns(tensors.shape.cols, divide_up(tensors.shape.cols, tile.cols()));
          int blocks_per_sm = 0;
          CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_sm, kernel,
                                                                   tile.block.block_size, 0));
          const std::int64_t blocks = blocks_per_sm * multiprocessors();
          const std::int64_t rows_at_once = max(blocks / split.parts, std::int64_t{1});
          cudaLaunchAttribute together{};  // a plain launch could hang: see row_exchange.cuh
          together.id = cudaLaunchAttributeCooperative;
          together.val.cooperative = 1;
          cudaLaunchConfig_t config{};
          config.gridDim = {static_cast<unsigned>(split.parts),
                            static_cast<unsigned>(min(tensors.shape.rows, min(rows_at_once, max_grid_rows)))};
          config.blockDim = tile.block.block_size;
          config.stream = stream;
          config.attrs = &together;
          config.numAttrs = 1;
          CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, tensors.y, tensors.dy, tensors.dx,
                                        static_cast<PairBits*>(tensors.workspace), tensors.shape,
                                        split.part_cols));
        });
  }
};

}  // namespace rowwise
