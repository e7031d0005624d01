// Stage 07: few rows. If each row has one block, most of the GPU is idle. Here many blocks share a row: the
// pair (m, d) goes up one more level, to the grid.
//
// Cost: two_kernels makes 3 passes, 2 reads and 1 write. The first kernel writes a pair per part of a row,
// and the second merges the pairs and writes the results; its read hits the L2, which still holds the row.
// row_exchange makes 2 passes in one kernel: the blocks keep their parts in registers and send each other
// their pairs through the L2.
// Sources: the split of a row is that of FlashDecoding and of cub::DeviceReduce's two kernels; grid-wide
// exchange by polling is as old as the inter-block barriers of Xiao and Feng (2010); the use of a value as
// its own flag is how cub's decoupled look-back sends its partial sums; the CUDA programming guide describes
// dependent launch.
#pragma once

#include <cuda/atomic>
#include <cuda/std/bit>

#include "06_online/online.cuh"
#include "common/kernel/current_device.cuh"
#include "common/kernel/tensors.h"

constexpr int split_block_size = 256;
constexpr std::int64_t max_grid_rows = 65535;  // the most blocks in y

/// How a row is split: into parts of part_cols columns; the last part may be narrower.
struct Split {
  std::int64_t parts;
  std::int64_t part_cols;
};

/// Splits rows of `cols` columns into at most `wanted` parts. Each begins at a multiple of 16 columns, which
/// are at least 32 bytes, or one sector.
inline Split split_columns(std::int64_t cols, std::int64_t wanted) {
  const std::int64_t part_cols = round_up(divide_up(cols, wanted), 16);
  return {.parts = divide_up(cols, part_cols), .part_cols = part_cols};
}

/// The block's part of a row: blockIdx.x is its number.
struct PartOfRow {
  std::int64_t first_col;
  int cols;
  __device__ PartOfRow(std::int64_t part_cols, std::int64_t row_cols)
      : first_col(blockIdx.x * part_cols), cols(static_cast<int>(min(part_cols, row_cols - first_col))) {}
};

// ---- Two kernels.

/// When the second kernel may begin: after the end of the first, or as soon as all blocks of the first have
/// called cudaTriggerProgrammaticLaunchCompletion() and an SM has space for a block.
enum class Dependence { complete, programmatic };

/// First kernel: a pair for each part of each row. pairs: rows x gridDim.x.
template <class Op, Dependence dependence, int pack_size, class T>
__global__ void __launch_bounds__(split_block_size)
    pairs_of_parts(const T* x, MaxSum* pairs, Shape shape, std::int64_t part_cols) {
  __shared__ MaxSum storage[32];
#if __CUDA_ARCH__ >= 900
  // Once all blocks of this kernel have called this, blocks of the second may start on any SM that has space.
  if constexpr (dependence == Dependence::programmatic) cudaTriggerProgrammaticLaunchCompletion();
#endif
  const PartOfRow part(part_cols, shape.cols);
  const DirectLoad<T> load{x + part.first_col, shape.cols};  // its column 0 is the first column of the part
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    MaxSum pair;
    const auto add_to_pair = [&](const float(&values)[pack_size], std::int64_t) { Op::add(pair, values); };
    for_each_pack<pack_size>(load, row, part.cols, add_to_pair);
    pair = block_merge<Op>(pair, storage);
    if (threadIdx.x == 0) pairs[row * gridDim.x + blockIdx.x] = pair;
  }
}

/// Second kernel: every block merges all pairs of its row, in the same order, and writes its part.
template <class Op, Dependence dependence, int pack_size, class T>
__global__ void __launch_bounds__(split_block_size)
    merge_and_write(const T* x, T* y, const MaxSum* pairs, Shape shape, std::int64_t part_cols) {
  __shared__ MaxSum storage[32];
  const PartOfRow part(part_cols, shape.cols);
  const DirectLoad<T> load{x + part.first_col, shape.cols};
  const DirectStore<T> store{y + part.first_col, shape.cols};
#if __CUDA_ARCH__ >= 900
  // Waits for the end of the first kernel, whose pairs can be read from here on.
  if constexpr (dependence == Dependence::programmatic) cudaGridDependencySynchronize();
#endif
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    MaxSum total;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += split_block_size) {
      total = Op::merge(total, pairs[row * gridDim.x + i]);
    }
    total = block_merge<Op>(total, storage);

    const auto write_result = [&, result = RowResult<Op>(total)](float(&values)[pack_size],
                                                                 std::int64_t col) {
#pragma unroll
      for (float& value : values) value = result(value);
      store.template store<pack_size>(values, row, col);
    };
    for_each_pack<pack_size>(load, row, part.cols, write_result);
  }
}

/// Softmax (or log-softmax) of each row, any width; rows = 0 does nothing. If packs do not cover the rows, it
/// reads single elements. A GPU without programmatic dependent launch (before compute capability 9.0) runs
/// the kernels one after the other. Throws CudaError.
template <Dependence dependence>
struct TwoKernels {
  /// Parts for four blocks per multiprocessor, or fewer if a thread would then have fewer than about 8
  /// elements.
  static Split split(Shape shape) {
    const std::int64_t wanted = divide_up(4 * multiprocessors(), max(shape.rows, std::int64_t{1}));
    return split_columns(shape.cols, min(wanted, divide_up(shape.cols, 8 * split_block_size)));
  }
  static Need needs(const Matrix& matrix) {
    const std::int64_t pairs = matrix.rows * split(matrix.shape()).parts;
    return {.workspace_bytes = static_cast<std::size_t>(pairs) * sizeof(MaxSum)};
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const Shape shape = tensors.shape;
    if (shape.rows == 0) return;
    const auto [parts, part_cols] = split(shape);
    auto* const pairs = static_cast<MaxSum*>(tensors.workspace);
    const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(min(shape.rows, max_grid_rows)));
    // For the second kernel. An attribute requests what <<<...>>> cannot express; cudaLaunchKernelEx takes
    // attributes. This one allows an early start. Only a dependent launch has it: numAttrs is 0 otherwise.
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = split_block_size;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = dependence == Dependence::programmatic && current_gpu().compute_capability >= 9 ? 1 : 0;
    const DirectLoad<T> load{tensors.x, shape.cols};
    const DirectStore<T> store{tensors.y, shape.cols};
    with_widest_packs(load, store, [&]<int pack_size>() {
      pairs_of_parts<Op, dependence, pack_size>
          <<<grid, split_block_size, 0, stream>>>(tensors.x, pairs, shape, part_cols);
      CUDA_CHECK(cudaGetLastError());
      CUDA_CHECK(cudaLaunchKernelEx(&config, merge_and_write<Op, dependence, pack_size, T>, tensors.x,
                                    tensors.y, static_cast<const MaxSum*>(pairs), shape, part_cols));
    });
  }
};

// ---- One kernel, whose blocks wait for each other. So all blocks of the grid must be on the GPU together. A
// cooperative launch refuses a grid that does not fit; a plain launch of it would hang.

/// A pair as one word, which is written and read in one piece. No pair consists of 64 zero bits: with a finite
/// maximum, the sum is at least 1, and the pair (-inf, 0) contains the bits of -inf. So a slot that is not 0
/// holds a pair.
using PairBits = unsigned long long;

/// Merges the pairs of all blocks of a row, in the same order in each block; every thread gets the result.
/// slots: gridDim.x x gridDim.x for this row, 0 before and after. slot(to, from) is for the pair that block
/// `from` sends to block `to`, its only reader. Relaxed accesses are enough, because a slot announces no
/// other data.
template <class Op>
__device__ MaxSum merge_over_grid(MaxSum pair, PairBits* slots, MaxSum (&storage)[32]) {
  using Slot = cuda::atomic_ref<PairBits, cuda::thread_scope_device>;
  const auto slot = [&](unsigned to, unsigned from) { return Slot(slots[to * gridDim.x + from]); };
  // Thread i sends to block i, and later waits for the pair of block i; the loops are for more than 256 blocks.
  for (unsigned to = threadIdx.x; to < gridDim.x; to += split_block_size) {
    slot(to, blockIdx.x).store(cuda::std::bit_cast<PairBits>(pair), cuda::memory_order_relaxed);
  }
  MaxSum total;
  for (unsigned from = threadIdx.x; from < gridDim.x; from += split_block_size) {
    const Slot mine = slot(blockIdx.x, from);
    PairBits bits = 0;
    while (bits == 0) bits = mine.load(cuda::memory_order_relaxed);
    mine.store(0, cuda::memory_order_relaxed);  // for the next launch
    total = Op::merge(total, cuda::std::bit_cast<MaxSum>(bits));
  }
  return block_merge<Op>(total, storage);
}

/// blockIdx.x: the part, blockIdx.y: the row, or the first of several rows.
template <class Op, int pack_size, int elements, class T>
__global__ void __launch_bounds__(split_block_size)
    exchange_softmax(const T* x, T* y, PairBits* slots, Shape shape, std::int64_t part_cols) {
  __shared__ MaxSum storage[32];
  const PartOfRow part(part_cols, shape.cols);
  const DirectLoad<T> load{x + part.first_col, shape.cols};
  const DirectStore<T> store{y + part.first_col, shape.cols};
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    float values[elements];
    load_row<pack_size, split_block_size>(load, row, part.cols, values);
    replace_by_results<Op>(values, [&](MaxSum own) {
      const MaxSum pair = block_merge<Op>(own, storage);
      return merge_over_grid<Op>(pair, slots + row * gridDim.x * gridDim.x, storage);
    });
    store_row<pack_size, split_block_size>(store, row, part.cols, values);
  }
}

/// Elements per thread. Narrow parts keep more SMs busy. But every block of a row sends a pair to every other:
/// measured on an H200, more than 48 narrow parts are slower than half as many wide ones.
constexpr int narrow_part_elements = 16;
constexpr int wide_part_elements = 32;
constexpr std::int64_t most_narrow_cols = std::int64_t{48} * narrow_part_elements * split_block_size;
/// An SM has 65536 registers. They are enough for three blocks with wide parts if a thread has at most 85, and
/// it has 64.
constexpr int wide_blocks_per_sm = 3;

/// Softmax (or log-softmax) of rows that fit in the registers of the GPU; any alignment. Only the number of
/// columns decides how a row is split. Throws CudaError for wider rows, and if the GPU cannot hold the blocks
/// of a row together. The workspace is 0 before and after.
struct RowExchange {
  static Split split(std::int64_t cols) {
    const int elements = cols <= most_narrow_cols ? narrow_part_elements : wide_part_elements;
    return split_columns(cols, divide_up(cols, elements * split_block_size));
  }
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    const std::int64_t blocks = std::int64_t{wide_blocks_per_sm} * gpu.multiprocessors;
    return at_most_columns(blocks * wide_part_elements * split_block_size, matrix, Why::registers_of_gpu);
  }
  static Need needs(const Matrix& matrix) {
    const std::int64_t parts = split(matrix.cols).parts;
    return {.workspace_bytes = static_cast<std::size_t>(matrix.rows * parts * parts) * sizeof(PairBits),
            .zeroed = true};
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const DirectLoad<T> load{tensors.x, tensors.shape.cols};
    const DirectStore<T> store{tensors.y, tensors.shape.cols};
    with_widest_packs(load, store, [&]<int pack_size>() {
      if (tensors.shape.cols <= most_narrow_cols) {
        launch_parts<Op, pack_size, narrow_part_elements>(tensors, stream);
      } else {
        launch_parts<Op, pack_size, wide_part_elements>(tensors, stream);
      }
    });
  }
  template <class Op, int pack_size, int elements, class T>
  static void launch_parts(const Tensors<T>& tensors, cudaStream_t stream) {
    const Shape shape = tensors.shape;
    const auto [parts, part_cols] = split(shape.cols);
    const auto kernel = exchange_softmax<Op, pack_size, elements, T>;
    int blocks_per_sm = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_sm, kernel, split_block_size, 0));
    // The GPU holds the blocks of this many rows together, and the kernel loops over the other rows. If it
    // holds not even one row, the cooperative launch fails.
    const std::int64_t rows_at_once = max(blocks_per_sm * multiprocessors() / parts, std::int64_t{1});
    cudaLaunchAttribute together{};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = {static_cast<unsigned>(parts), static_cast<unsigned>(min(shape.rows, rows_at_once))};
    config.blockDim = split_block_size;
    config.stream = stream;
    config.attrs = &together;
    config.numAttrs = 1;
    CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, tensors.x, tensors.y,
                                  static_cast<PairBits*>(tensors.workspace), shape, part_cols));
  }
};
