// From the stage split_row, for few rows. A block per row leaves most of the GPU idle. Here many blocks share
// a row: the pair (m, d) goes up one more level, to the grid.
//
// Cost: 3 passes, 2 reads and 1 write, in two kernels: the first writes a pair per part of a row to memory,
// the second merges the pairs and writes the results. Its read hits the L2, which still holds the data that
// the first kernel has read. With programmatic dependent launch, blocks of the second kernel start while the
// first still runs: 39.2 % of the copy's speed at f32 1 x 32000, and 34.9 % without (H200). row_exchange.cuh
// does the same in one kernel and 2 passes.
// Sources: the split of a row is that of FlashDecoding and of cub::DeviceReduce's two kernels; the CUDA
// programming guide describes dependent launch.
#pragma once

#include "common/kernel/current_device.cuh"
#include "common/rowwise/kernels/forward/online.cuh"

namespace rowwise {

/// How a row is split: into parts of part_cols columns; the last part may be narrower.
struct Split {
  std::int64_t parts;
  std::int64_t part_cols;
};

/// Splits rows of `cols` columns into at most `wanted` parts, at 32-byte boundaries of the row in every type.
inline Split split_columns(std::int64_t cols, std::int64_t wanted) {
  const std::int64_t part_cols = round_up(divide_up(cols, wanted), 16);
  return {.parts = divide_up(cols, part_cols), .part_cols = part_cols};
}

/// A block's view of a row: `load`, starting at first_col.
template <class Load>
struct LoadFrom {
  Load load;
  std::int64_t first_col;
  template <int N>
  __device__ auto fetch(std::int64_t row, std::int64_t col) const {
    return load.template fetch<N>(row, first_col + col);
  }
  template <int N>
  __device__ void unpack(const auto& fetched, float (&values)[N]) const {
    load.template unpack<N>(fetched, values);
  }
};

/// The same for writes.
template <class Store>
struct StoreFrom {
  Store destination;
  std::int64_t first_col;
  template <int N>
  __device__ void store(const float (&values)[N], std::int64_t row, std::int64_t col) const {
    destination.template store<N>(values, row, first_col + col);
  }
};

/// The block's part of a row: blockIdx.x is its number, and the last part may be narrower.
struct PartOfRow {
  std::int64_t first_col;
  std::int64_t cols;
  __device__ PartOfRow(std::int64_t part_cols, std::int64_t row_cols)
      : first_col(blockIdx.x * part_cols), cols(min(part_cols, row_cols - first_col)) {}
};

constexpr int split_block_size = 256;

/// When the second kernel may begin: after the first, or as soon as an SM has space for its blocks.
enum class Dependence { complete, programmatic };

/// First kernel: a pair for each part of each row. pairs: rows x gridDim.x.
template <class Op, Dependence dependence, int pack_size, class Load>
__global__ void __launch_bounds__(split_block_size)
    pairs_of_parts(Load load, typename Op::State* pairs, Shape shape, std::int64_t part_cols) {
  __shared__ typename Op::State storage[32];
#if __CUDA_ARCH__ >= 900
  // From here on, blocks of the second kernel may start on whatever the first leaves free.
  if constexpr (dependence == Dependence::programmatic) cudaTriggerProgrammaticLaunchCompletion();
#endif
  const PartOfRow part(part_cols, shape.cols);
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    typename Op::State pair{};
    const auto add_to_pair = [&](const float(&values)[pack_size], std::int64_t) { Op::add(pair, values); };
    for_each_pack<pack_size>(LoadFrom<Load>{load, part.first_col}, row, part.cols, add_to_pair);
    pair = block_merge<Op>(pair, storage);
    if (threadIdx.x == 0) pairs[row * gridDim.x + blockIdx.x] = pair;
  }
}

/// Second kernel: every block merges all pairs of its row, in the same order, and writes its part.
template <class Op, Dependence dependence, int pack_size, class Load, class Store>
__global__ void __launch_bounds__(split_block_size)
    merge_and_write(Load load, Store store, const typename Op::State* pairs, Shape shape,
                    std::int64_t part_cols) {
  __shared__ typename Op::State storage[32];
  const PartOfRow part(part_cols, shape.cols);
#if __CUDA_ARCH__ >= 900
  // From here on, the first kernel is done, and its pairs can be read.
  if constexpr (dependence == Dependence::programmatic) cudaGridDependencySynchronize();
#endif
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    typename Op::State total{};
    for (unsigned i = threadIdx.x; i < gridDim.x; i += split_block_size) {
      total = Op::merge(total, pairs[row * gridDim.x + i]);
    }
    total = block_merge<Op>(total, storage);

    const auto write_result = [&, result = RowResult<Op>(total)](float(&values)[pack_size],
                                                                 std::int64_t col) {
#pragma unroll
      for (float& value : values) value = result(value);
      store.template store<pack_size>(values, row, part.first_col + col);
    };
    for_each_pack<pack_size>(LoadFrom<Load>{load, part.first_col}, row, part.cols, write_result);
  }
}

constexpr std::int64_t max_grid_rows = 65535;  // the most blocks in y

/// Softmax (or log-softmax) of each row, any width; rows = 0 does nothing. If packs do not cover the rows, it
/// reads single elements. A GPU without programmatic dependent launch (before compute capability 9.0) runs
/// the kernels one after the other. Throws CudaError.
template <Dependence dependence>
struct TwoKernels {
  /// Uses four blocks per multiprocessor, unless their threads would have fewer than two packs to read.
  static Split split(Shape shape) {
    const std::int64_t blocks = 4 * multiprocessors();
    const std::int64_t wanted = divide_up(blocks, max(shape.rows, std::int64_t{1}));
    return split_columns(shape.cols, min(wanted, divide_up(shape.cols, 8 * split_block_size)));
  }

  static Need needs(const Matrix& matrix) {
    const std::int64_t pairs = matrix.rows * split(matrix.shape()).parts;
    return {.workspace_bytes = static_cast<std::size_t>(pairs) * sizeof(MaxSum)};
  }

  template <class Op, class Load, class Store>
  static void launch(Load load, Store store, void* workspace, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    const auto [parts, part_cols] = split(shape);
    auto* const pairs = static_cast<typename Op::State*>(workspace);
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = {static_cast<unsigned>(parts), static_cast<unsigned>(min(shape.rows, max_grid_rows))};
    config.blockDim = split_block_size;
    config.stream = stream;
    with_widest_packs(load, store, [&]<int pack_size>() {
      pairs_of_parts<Op, dependence, pack_size>
          <<<config.gridDim, config.blockDim, 0, stream>>>(load, pairs, shape, part_cols);
      CUDA_CHECK(cudaGetLastError());
      if (dependence == Dependence::programmatic &&
          device_attribute(cudaDevAttrComputeCapabilityMajor) >= 9) {
        config.attrs = &early;
        config.numAttrs = 1;
      }
      CUDA_CHECK(cudaLaunchKernelEx(&config, merge_and_write<Op, dependence, pack_size, Load, Store>, load,
                                    store, static_cast<const typename Op::State*>(pairs), shape, part_cols));
    });
  }
};

}  // namespace rowwise
