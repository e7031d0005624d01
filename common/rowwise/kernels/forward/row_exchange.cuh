// From the stage split_row: the blocks of a row keep their parts in registers, exchange their pairs through
// the L2, and write. Beyond the stage's kernel, the numbers of rows and columns choose among six sizes of
// parts. At f32 1 x 1048576 this reached 61.4 % of the copy's speed, and the stage's kernel 59.2 %; at f32 1
// x 151936 the choice gained nothing (H200).
//
// Cost: 2 passes, 1 read and 1 write, and 16 bytes for each pair that a block sends to another. A block
// waits for the other blocks of its row, so all blocks must be on the GPU together: a cooperative launch
// refuses a grid for which that is not so; a plain launch would hang.
// Sources: grid-wide exchange by polling is as old as the inter-block barriers of Xiao and Feng (2010); the
// use of a value as its own flag is how cub's decoupled look-back sends its partial sums.
#pragma once

#include <cuda/atomic>
#include <cuda/std/bit>
#include <utility>

#include "common/rowwise/kernels/forward/split_row.cuh"

namespace rowwise {

/// A pair as one word, which is written and read in one piece. No pair is 0: the sum of a part whose maximum
/// is above -inf is at least 1, and -inf is not 0. So a slot that is not 0 holds a pair.
using PairBits = unsigned long long;

/// Merges the pairs of all blocks of a row, in the same order in each block; every thread gets the result.
/// slots: gridDim.x x gridDim.x for this row, 0 before and after.
template <class Op>
__device__ typename Op::State exchange_pairs(typename Op::State pair, PairBits* slots,
                                             typename Op::State (&storage)[32]) {
  static_assert(sizeof(typename Op::State) == sizeof(PairBits));
  using Slot = cuda::atomic_ref<PairBits, cuda::thread_scope_device>;
  const auto slot = [&](unsigned to, unsigned from) { return Slot(slots[to * gridDim.x + from]); };
  // The last threads send, so that the first are free to poll.
  for (unsigned to = blockDim.x - 1 - threadIdx.x; to < gridDim.x; to += blockDim.x) {
    slot(to, blockIdx.x).store(cuda::std::bit_cast<PairBits>(pair), cuda::memory_order_relaxed);
  }
  typename Op::State total{};
  for (unsigned from = threadIdx.x; from < gridDim.x; from += blockDim.x) {
    const Slot mine = slot(blockIdx.x, from);
    PairBits bits = 0;
    while (bits == 0) bits = mine.load(cuda::memory_order_relaxed);
    mine.store(0, cuda::memory_order_relaxed);  // for the next launch
    total = Op::merge(total, cuda::std::bit_cast<typename Op::State>(bits));
  }
  return block_merge_once<Op>(total, storage);
}

constexpr PartTile part_tiles[] = {
    {.block = {.block_size = 256, .elements_per_thread = 8}, .blocks_per_sm = 2},
    {.block = {.block_size = 512, .elements_per_thread = 8}, .blocks_per_sm = 2},
    {.block = {.block_size = 1024, .elements_per_thread = 8}, .blocks_per_sm = 1},
    {.block = {.block_size = 1024, .elements_per_thread = 16}, .blocks_per_sm = 1},
    {.block = {.block_size = 512, .elements_per_thread = 16}, .blocks_per_sm = 3},
    {.block = {.block_size = 512, .elements_per_thread = 32}, .blocks_per_sm = 2},
};
constexpr int num_part_tiles = 6;
constexpr int tile_of_shared_sms = 4;  ///< the tiles before it are for blocks that have an SM each
constexpr PartTile widest_part = part_tiles[num_part_tiles - 1];

/// The minimum of blocks per SM, for __launch_bounds__. An SM of compute capability 7.5 holds 1024 threads,
/// all later ones hold at least 1536.
constexpr int promised_blocks_per_sm(PartTile tile) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return tile.block.block_size * tile.blocks_per_sm > 1024 ? 1024 / tile.block.block_size
                                                           : tile.blocks_per_sm;
#else
  return tile.blocks_per_sm;
#endif
}

/// blockIdx.x: the part, blockIdx.y: the row. Note N4: the parameters that the reads need come first. They
/// fit in the first line of constant memory, and the next line arrives while the row is in flight.
template <class Op, PartTile tile, int pack_size, class Load, class Store>
__global__ void __launch_bounds__(tile.block.block_size, promised_blocks_per_sm(tile))
    exchange_softmax(Load load, Shape shape, std::int64_t part_cols, Store store, PairBits* slots) {
  // There are two, so that each is written again only after the other's barrier.
  __shared__ typename Op::State block_storage[32];
  __shared__ typename Op::State row_storage[32];
  const PartOfRow part(part_cols, shape.cols);
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    RowInRegisters<Op, tile.block, pack_size, true> held(LoadFrom<Load>{load, part.first_col}, row,
                                                         static_cast<int>(part.cols));
    const typename Op::State pair = block_merge_once<Op>(held.reduce(), block_storage);
    PairBits* const slots_of_row = slots + row * gridDim.x * gridDim.x;
    const typename Op::State total = exchange_pairs<Op>(pair, slots_of_row, row_storage);
    held.finish(total, StoreFrom<Store>{store, part.first_col}, row);
  }
}

/// Softmax (or log-softmax) of rows that the registers of the GPU hold; any address. Throws CudaError for
/// wider rows, and if the GPU cannot hold the blocks of a row together. The workspace is 0 before and after.
struct RowExchange {
  /// The index into part_tiles. Parts are as small as possible, because a small block finishes earlier. But
  /// there must not be so many that the exchange of every block with every other takes longer, or that blocks
  /// share an SM. If they have to share, three do.
  static int tile(Shape shape) {
    const auto parts = [&](int i) { return divide_up(shape.cols, part_tiles[i].cols()); };
    const std::int64_t sms = multiprocessors();
    for (int i = 0; i < tile_of_shared_sms; ++i) {
      if (shape.rows * parts(i) <= sms && parts(i) <= part_tiles[i].block.block_size / 8) return i;
    }
    constexpr int shared = tile_of_shared_sms;
    const bool fits =
        parts(shared) <= sms && shape.rows * parts(shared) <= part_tiles[shared].blocks_per_sm * sms;
    return fits ? shared : num_part_tiles - 1;
  }

  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    const std::int64_t most_cols = widest_part.blocks_per_sm * gpu.multiprocessors * widest_part.cols();
    return at_most_columns(most_cols, matrix, Why::registers_of_gpu);
  }

  static Need needs(const Matrix& matrix) {
    const std::int64_t parts = divide_up(matrix.cols, part_tiles[tile(matrix.shape())].cols());
    const std::int64_t pairs = matrix.rows * parts * parts;
    return {.workspace_bytes = static_cast<std::size_t>(pairs) * sizeof(PairBits), .zeroed = true};
  }

  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, void* workspace, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    const auto launch_tile = [&]<PartTile tile, int pack_size>() {
      const Split split = split_columns(shape.cols, divide_up(shape.cols, tile.cols()));
      const auto kernel = exchange_softmax<Op, tile, pack_size, Load, Store>;
      int blocks_per_sm = 0;
      CUDA_CHECK(
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_sm, kernel, tile.block.block_size, 0));
      const std::int64_t blocks = min(blocks_per_sm, tile.blocks_per_sm) * multiprocessors();
      const std::int64_t rows_at_once = max(blocks / split.parts, std::int64_t{1});
      cudaLaunchAttribute together{};
      together.id = cudaLaunchAttributeCooperative;
      together.val.cooperative = 1;
      cudaLaunchConfig_t config{};
      config.gridDim = {static_cast<unsigned>(split.parts),
                        static_cast<unsigned>(min(shape.rows, rows_at_once))};
      config.blockDim = tile.block.block_size;
      config.stream = stream;
      config.attrs = &together;
      config.numAttrs = 1;
      CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, load, shape, split.part_cols, store,
                                    static_cast<PairBits*>(workspace)));
    };
    const int chosen = tile(shape);
    with_widest_packs(load, store, [&]<int pack_size>() {
      [&]<int... i>(std::integer_sequence<int, i...>) {
        ((chosen == i ? launch_tile.template operator()<part_tiles[i], pack_size>() : void()), ...);
      }
      (std::make_integer_sequence<int, num_part_tiles>{});
    });
  }
};

}  // namespace rowwise
