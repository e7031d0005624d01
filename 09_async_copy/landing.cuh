// Shared memory as no more than the place where the next row lands: this row is in registers, and its place is free again.
#pragma once

#include "09_async_copy/own_packs.cuh"
#include "common/rowwise/kernels/forward/finish_row.cuh"
#include "common/rowwise/kernels/forward/online.cuh"

/// Blocks that stay. Two rows are on an SM side by side: one in registers, where an element costs one exponential, and
/// the next on its way to shared memory.
template <class Op, BlockTile tile, class T>
__global__ void __launch_bounds__(tile.block_size, 1024 / tile.block_size)
    landing_softmax(const T* x, T* y, Shape shape, TicketCounter* tickets, L2Policy reads) {
  constexpr int N = elements_per_16_bytes<T>;
  constexpr int packs_per_thread = tile.elements_per_thread / N;
  extern __shared__ __align__(128) unsigned char buffer[];
  // Two of each, for rows in turn: each is written again only after the other's barrier.
  __shared__ typename Op::State storage[2][32];
  __shared__ unsigned drawn[2];
  const int first_col = static_cast<int>(threadIdx.x) * N;
  constexpr int step = tile.block_size * N;  // columns from one pack of a thread to its next
  const int num_packs = static_cast<int>(divide_up(shape.cols - first_col, step));
  T* slot = reinterpret_cast<T*>(buffer) + first_col;
  // A group for each pack, there or not.
  const auto request = [&](const T* row_x, int packs_of_row, int pack) {
    if (pack < packs_of_row) copy_async(slot + pack * step, row_x + pack * step, reads);
    __pipeline_commit();
  };

  unsigned row = blockIdx.x;
  unsigned next = row + gridDim.x;
#pragma unroll
  for (int pack = 0; pack < packs_per_thread; ++pack)
    request(x + row * shape.cols + first_col, num_packs, pack);
  for (int turn = 0; row < shape.rows; turn = 1 - turn) {
    unsigned ticket = 0;
    if (threadIdx.x == 0) ticket = draw_ticket(tickets, shape.rows);
    const T* next_x = x + next * shape.cols + first_col;
    const int packs_of_next = next < shape.rows ? num_packs : 0;
    float values[tile.elements_per_thread];
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      __pipeline_wait_prior(packs_per_thread - 1);  // the oldest of packs_per_thread has come
      unpack(pack < num_packs ? load_pack<N>(slot + pack * step) : no_elements<T, N>(),
             part_of<N>(values, pack));
      request(next_x, packs_of_next, pack);
    }
    finish_row<Op>(values, [&](typename Op::State own) {
      if (threadIdx.x == 0) drawn[turn] = 2 * gridDim.x + ticket;
      return block_merge_once<Op>(own, storage[turn]);
    });
    T* row_y = y + row * shape.cols + first_col;
#pragma unroll
    for (int pack = 0; pack < packs_per_thread; ++pack) {
      if (pack < num_packs) store_pack(row_y + pack * step, make_pack<T>(part_of<N>(values, pack)));
    }
    row = next;
    next = drawn[turn];
  }
}

constexpr std::int64_t most_landing_cols = widest_tile.cols();

/// As Refill, for cols <= most_landing_cols; throws std::invalid_argument for more.
struct Landing : DrawsRows {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = DrawsRows::refuses(matrix, gpu)) return refusal;
    return fits_shared_memory(matrix, gpu, 1, most_landing_cols);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    with_first_tile_that_fits<BlockTile{128, 16}, BlockTile{512, 16}, BlockTile{512, 32}, widest_tile>(
        tensors.shape.cols, [&]<BlockTile tile>() {
          const auto kernel = landing_softmax<Op, tile, T>;
          const int shared_bytes = static_cast<int>(tensors.shape.cols * std::int64_t{sizeof(T)});
          CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
          const unsigned blocks = blocks_that_stay(kernel, tile.block_size, shared_bytes, tensors.shape.rows);
          kernel<<<blocks, tile.block_size, shared_bytes, stream>>>(
              tensors.x, tensors.y, tensors.shape, static_cast<TicketCounter*>(tensors.workspace),
              policy_of_reads<T>(2, tensors.shape));
          CUDA_CHECK(cudaGetLastError());
        });
  }
};
