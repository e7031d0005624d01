// Shared memory as no more than the place where the next row lands: this row is in registers, and its place is free again.
#pragma once

#include "06_online/online.cuh"
#include "08_unaligned_rows/finish_row.cuh"
#include "09_async_copy/own_packs.cuh"

/// Blocks that stay. Two rows are on an SM side by side: one in registers, where an element costs one exponential, and
/// the next on its way to shared memory.
template <class Op, BlockTile tile, class T>
__global__ void __launch_bounds__(tile.block_size, 1024 / tile.block_size)
    landing_softmax(const T* x, T* y, Shape shape, TicketCounter* tickets) {
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_per_thread = tile.elements_per_thread / N;
  extern __shared__ __align__(128) unsigned char buffer[];
  // Two of each, for rows in turn: each is written again only after the other's barrier.
  __shared__ typename Op::State storage[2][32];
  __shared__ std::int64_t drawn[2];
  T* slot = reinterpret_cast<T*>(buffer);
  const int cols = static_cast<int>(shape.cols);
  const int thread = static_cast<int>(threadIdx.x);
  const auto col_of_pack = [&](int pack) { return (pack * tile.block_size + thread) * N; };
  // A group of its own for each pack, there or not.
  const auto request = [&](std::int64_t row, int pack) {
    const int col = col_of_pack(pack);
    if (row < shape.rows && col < cols) __pipeline_memcpy_async(slot + col, x + row * cols + col, 16);
    __pipeline_commit();
  };

  std::int64_t row = blockIdx.x;
  std::int64_t next = row + gridDim.x;
#pragma unroll
  for (int pack = 0; pack < packs_per_thread; ++pack) request(row, pack);
  for (int turn = 0; row < shape.rows; turn = 1 - turn) {
    std::int64_t ticket = 0;
    if (thread == 0) ticket = draw_ticket(tickets, shape.rows);
    float values[tile.elements_per_thread];
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      __pipeline_wait_prior(packs_per_thread - 1);  // the oldest of packs_per_thread has come
      const int col = col_of_pack(pack);
      unpack(col < cols ? load_pack<N>(slot + col) : no_elements<T, N>(), part_of<N>(values, pack));
      request(next, pack);
    }
    finish_row<Op>(values, [&](typename Op::State own) {
      if (thread == 0) drawn[turn] = 2 * std::int64_t{gridDim.x} + ticket;
      return block_merge_once<Op>(own, storage[turn]);
    });
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      const int col = col_of_pack(pack);
      if (col < cols) store_pack(y + row * cols + col, make_pack<T>(part_of<N>(values, pack)));
    }
    row = next;
    next = drawn[turn];
  }
}

constexpr std::int64_t most_landing_cols = widest_tile.cols();

/// As Refill, for cols <= most_landing_cols; throws std::invalid_argument for more.
struct Landing {
  template <class Op, class T>
  static void launch(const T* x, T* y, void* workspace, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    with_first_tile_that_fits<BlockTile{128, 16}, BlockTile{512, 16}, BlockTile{512, 32}, widest_tile>(
        shape.cols, [&]<BlockTile tile>() {
          const auto kernel = landing_softmax<Op, tile, T>;
          const int shared_bytes = static_cast<int>(shape.cols * std::int64_t{sizeof(T)});
          CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
          const unsigned blocks = blocks_that_stay(kernel, tile.block_size, shared_bytes, shape.rows);
          kernel<<<blocks, tile.block_size, shared_bytes, stream>>>(x, y, shape,
                                                                    static_cast<TicketCounter*>(workspace));
          CUDA_CHECK(cudaGetLastError());
        });
  }
};
