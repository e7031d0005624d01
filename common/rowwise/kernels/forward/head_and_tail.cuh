// From the stage unaligned_rows: single elements up to the first boundary and after the last pack, packs in
// between; the row stays in registers. Beyond the stage's kernel, packs begin at a line of the cache, rows
// that fit in a warp share a block, and reads carry the hint for the L2 if the matrices are large (Note
// N12). At bf16 49152 x 1025 this reached 98.7 % of the copy's speed; the stage's kernel reached 96.9 %
// (H200).
#pragma once

#include "common/kernel/current_device.cuh"
#include "common/kernel/grid.cuh"
#include "common/kernel/l2_policy.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"
#include "common/rowwise/kernels/forward/cut.cuh"
#include "common/rowwise/kernels/forward/finish_row.cuh"
#include "common/rowwise/kernels/tiles.cuh"

namespace rowwise {

/// How the packs of a row are distributed over its threads. The packs of a warp are contiguous, so that the
/// addresses of a thread's packs are one register and constant offsets.
template <int packs_per_thread>
__device__ int first_pack_of_thread() {
  const int thread = static_cast<int>(threadIdx.x);
  return thread / 32 * (32 * packs_per_thread) + thread % 32;
}

/// blockDim.x threads share a row. If they are one warp, the block has blockDim.y rows, whose warps never
/// synchronise.
template <class Op>
__device__ typename Op::State merge_threads_of_row(typename Op::State own) {
  __shared__ typename Op::State storage[32];
  return blockDim.x == 32 ? warp_merge<Op>(own) : block_merge<Op>(own, storage);
}

/// A row's elements in the registers of its threads: packs_per_thread packs and one single element per
/// thread. A row has at most blockDim.x single elements; with N = 1 all elements count as packs.
template <class T, int N, int packs_per_thread>
class HeldRow {
 public:
  __device__ HeldRow(const T* row, int cols, unsigned boundary) : cut_(row, cols, boundary) {
    Pack<T, N> fetched[packs_per_thread];
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      fetched[i] = missing_pack<T, N>();
      if (exists(i)) fetched[i] = load_pack<N>(row + cut_.col_of_pack(first_pack_) + i * 32 * N);
    }
    Pack<T, 1> single = missing_pack<T, 1>();
    if (has_single()) single = load_pack<1>(row + col_of_single());
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) unpack(fetched[i], values_of_pack<N>(values, i));
    unpack(single, values_of_pack<1>(values, packs_per_thread * N));
  }

  /// Calls use(elements, column of the first) for each pack that exists, and for the single element.
  template <class Use>
  __device__ void for_each_part(Use use) {
    const int col = cut_.col_of_pack(first_pack_);
#pragma unroll
    for (int i = 0; i < packs_per_thread; ++i) {
      if (exists(i)) use(values_of_pack<N>(values, i), col + i * 32 * N);
    }
    if (has_single()) use(values_of_pack<1>(values, packs_per_thread * N), col_of_single());
  }

  /// Missing elements are -inf.
  float values[packs_per_thread * N + 1];

 private:
  __device__ bool exists(int i) const {
    return first_pack_ + i * 32 < cut_.num_packs;
  }
  __device__ bool has_single() const {
    return N > 1 && static_cast<int>(threadIdx.x) < cut_.num_singles();
  }
  __device__ int col_of_single() const {
    return cut_.col_of_single(static_cast<int>(threadIdx.x));
  }

  Cut<N> cut_;
  int first_pack_ = first_pack_of_thread<packs_per_thread>();
};

/// x and y have the same offset from a pack, or N is 1.
template <class Op, int N, int packs_per_thread, class T>
__global__ void __launch_bounds__(1024)
    head_and_tail_softmax(const T* x, T* y, Shape shape, unsigned boundary, L2Policy reads) {
  x = with_policy(x, reads);
  for (std::int64_t row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y; row < shape.rows;
       row += gridDim.x * std::int64_t{blockDim.y}) {
    T* const row_y = y + row * shape.cols;
    HeldRow<T, N, packs_per_thread> held(x + row * shape.cols, static_cast<int>(shape.cols), boundary);
    finish_row<Op>(held.values, merge_threads_of_row<Op>);
    held.for_each_part([&](auto& part, int col) { store_pack(row_y + col, make_pack<T>(part)); });
  }
}

/// A row uses the first tile that holds its packs: few packs per thread as long as one warp is enough, then
/// about 64 bytes per thread, then as much as a block can hold.
struct PackTile {
  int packs_per_thread;
  std::int64_t most_packs;
  constexpr bool fits(std::int64_t packs) const { return packs <= most_packs; }
};
/// 32 elements for each of 1024 threads, less the elements by which a shifted row may begin before its first.
constexpr std::int64_t most_cols_in_registers = 32760;

/// Uses as few whole warps per row as hold its packs; if one is enough, a block has four rows.
inline dim3 block_of_rows(std::int64_t packs, int packs_per_thread) {
  const std::int64_t warps = max(std::int64_t{1}, divide_up(packs, packs_per_thread * 32));
  return {static_cast<unsigned>(32 * warps), warps == 1 ? 4u : 1u};
}

/// Calls launch.template operator()<packs_per_thread>() for rows of `packs` packs of N elements.
template <int N, class Launch>
void with_packs_per_thread(std::int64_t packs, Launch launch) {
  const auto launch_tile = [&]<PackTile tile>() { launch.template operator()<tile.packs_per_thread>(); };
  if constexpr (N == 1) {
    with_first_tile_that_fits<PackTile{8, 256}, PackTile{16, 16384}, PackTile{32, 32768}>(packs, launch_tile);
  } else if constexpr (N == 4) {
    with_first_tile_that_fits<PackTile{1, 32}, PackTile{2, 64}, PackTile{4, 4096}, PackTile{8, 8192}>(
        packs, launch_tile);
  } else {
    with_first_tile_that_fits<PackTile{1, 32}, PackTile{2, 64}, PackTile{4, 4096}>(packs, launch_tile);
  }
}

/// The alignment of a row's packs: a line of the cache, so that an access of a warp does not touch an
/// additional line. It is smaller if the head could have more elements than the row has threads.
template <class T>
unsigned boundary_of_packs(dim3 block) {
  constexpr int N = elements_per_16_bytes<T>;
  unsigned boundary = 128;
  while (boundary / sizeof(T) + N > block.x) boundary /= 2;
  return boundary;
}

template <class Op, int N, class T>
void launch_head_and_tail(const Tensors<T>& tensors, cudaStream_t stream) {
  const std::int64_t packs = tensors.shape.cols / N;
  with_packs_per_thread<N>(packs, [&]<int packs_per_thread>() {
    const dim3 block = block_of_rows(packs, packs_per_thread);
    const unsigned boundary = N == 1 ? sizeof(T) : boundary_of_packs<T>(block);
    const unsigned grid = grid_for(divide_up(tensors.shape.rows, block.y));
    head_and_tail_softmax<Op, N, packs_per_thread><<<grid, block, 0, stream>>>(
        tensors.x, tensors.y, tensors.shape, boundary, policy_of_reads<T>(2, tensors.shape));
    CUDA_CHECK(cudaGetLastError());
  });
}

// ---- The launchers. Each computes softmax (or log-softmax) of every row, cols <= most_cols_in_registers;
// rows = 0 does nothing.

/// Single elements, as kernels of earlier stages use them for these rows.
struct Scalar {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return at_most_columns(most_cols_in_registers, matrix, Why::registers_of_block);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    launch_head_and_tail<Op, 1>(tensors, stream);
  }
};

/// Uses single elements if x and y have different offsets from a pack.
struct HeadAndTail {
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) {
    return at_most_columns(most_cols_in_registers, matrix, Why::registers_of_block);
  }
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (elements_past<16>(tensors.x) != elements_past<16>(tensors.y))
      return Scalar::launch<Op>(tensors, stream);
    if (tensors.shape.rows == 0) return;
    launch_head_and_tail<Op, elements_per_16_bytes<T>>(tensors, stream);
  }
};

}  // namespace rowwise
