// From the stage backward: forward/head_and_tail.cuh with two rows in registers, for rows that no pack
// divides. At bf16 49152 x 1025 this reached 99.6 % of the ceiling; the stage's block_registers, which loads
// single elements there, reached 64.1 % (H200).
#pragma once

#include "common/kernel/row_gradient.cuh"
#include "common/rowwise/kernels/backward/in_registers.cuh"
#include "common/rowwise/kernels/backward/unaligned.cuh"
#include "common/rowwise/kernels/forward/head_and_tail.cuh"

namespace rowwise {

/// A row's packs and single elements as in head_and_tail_softmax. y, dy and dx have the same offset from a
/// pack.
template <class Op, int packs_per_thread, class T>
__global__ void __launch_bounds__(1024)
    head_and_tail_backward(const T* y, const T* dy, T* dx, Shape shape, unsigned boundary, L2Policy reads) {
  constexpr int N = elements_per_16_bytes<T>;
  y = with_policy(y, reads);
  dy = with_policy(dy, reads);
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    const std::int64_t first = row * shape.cols;
    const Cut<N> cut(dx + first, static_cast<int>(shape.cols), boundary);
    const int first_pack = first_pack_of_thread<packs_per_thread>();
    const auto exists = [&](int i) { return first_pack + i * 32 < cut.num_packs; };
    const std::int64_t of_pack = first + cut.col_of_pack(first_pack);
    const auto single = static_cast<int>(threadIdx.x);
    const bool has_single = single < cut.num_singles();
    const std::int64_t of_single = first + cut.col_of_single(single);

    // Missing elements are 0 and add nothing to the sum.
    Pack<T, N> y_packs[packs_per_thread] = {};
    Pack<T, N> dy_packs[packs_per_thread] = {};
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      if (!exists(i)) continue;
      y_packs[i] = load_pack<N>(y + of_pack + i * 32 * N);
      dy_packs[i] = load_pack<N>(dy + of_pack + i * 32 * N);
    }
    Pack<T, 1> y_single = {};
    Pack<T, 1> dy_single = {};
    if (has_single) {
      y_single = load_pack<1>(y + of_single);
      dy_single = load_pack<1>(dy + of_single);
    }

    typename Op::State sum{};
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) add_packs<Op>(sum, y_packs[i], dy_packs[i]);
    add_packs<Op>(sum, y_single, dy_single);
    sum = merge_threads_of_row<Op>(sum);

#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      if (exists(i)) store_pack(dx + of_pack + i * 32 * N, finish_packs<Op>(sum, y_packs[i], dy_packs[i]));
    }
    if (has_single) store_pack(dx + of_single, finish_packs<Op>(sum, y_single, dy_single));
  }
}

/// A thread gets one pack of each matrix as long as one warp is enough, then 16 elements. Note N19: with more
/// elements of 16 bits, nvcc 13.0 keeps their floats, in twice the registers.
template <int N>
constexpr PackTile gradient_tiles[] = {
    {.packs_per_thread = 1, .most_packs = 32},
    {.packs_per_thread = 16 / N, .most_packs = widest_gradient_tile.cols() / N}};

/// Uses shared memory if the three matrices have different offsets from a pack.
struct HeadAndTailOfTwoRows {
  using Operations = BackwardOperations;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return at_most_columns(widest_gradient_tile.cols(), matrix, Why::registers_of_block_for_two);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    constexpr int N = elements_per_16_bytes<T>;
    if (!lie_alike(tensors.y, tensors.dy, tensors.dx)) return Unaligned::launch<Op>(tensors, stream);
    if (tensors.shape.rows == 0) return;
    const std::int64_t packs = tensors.shape.cols / N;
    with_first_tile_that_fits<gradient_tiles<N>[0], gradient_tiles<N>[1]>(packs, [&]<PackTile tile>() {
      const dim3 block = block_of_rows(packs, tile.packs_per_thread);
      const unsigned boundary = boundary_of_packs<T>(block);
      const unsigned grid = grid_for(divide_up(tensors.shape.rows, block.y));
      head_and_tail_backward<Op, tile.packs_per_thread><<<grid, block, 0, stream>>>(
          tensors.y, tensors.dy, tensors.dx, tensors.shape, boundary, policy_of_reads<T>(3, tensors.shape));
      CUDA_CHECK(cudaGetLastError());
    });
  }
};

}  // namespace rowwise
