// From the stage backward: the two kernels of forward/split_row.cuh with two rows. Few rows of any width are
// shared by many blocks each. At f32 1 x 1048576 this reached 57.3 % of the ceiling; one block per row
// (`unaligned`) reached 1.9 % (H200).
#pragma once

#include "common/kernel/row_gradient.cuh"
#include "common/rowwise/kernels/forward/split_row.cuh"

namespace rowwise {

constexpr int gradient_packs_in_flight = 4;

/// Calls use(y, dy, offset in the matrices) for each pack of this thread in the block's part of a row. Four
/// packs of each matrix are requested before the first is used.
template <int N, class T, class Use>
__device__ void for_each_pack_of_part(const T* y, const T* dy, const PartOfRow& part, std::int64_t row_offset,
                                      Use use) {
  const int step = static_cast<int>(blockDim.x) * N;
  for (std::int64_t first = threadIdx.x * N; first < part.cols; first += gradient_packs_in_flight * step) {
    const auto exists = [&](int i) { return first + i * step < part.cols; };
    const auto offset = [&](int i) { return row_offset + part.first_col + first + i * step; };
    Pack<T, N> y_packs[gradient_packs_in_flight] = {};
    Pack<T, N> dy_packs[gradient_packs_in_flight] = {};
#pragma unroll
    for (int i = 0; i < gradient_packs_in_flight; ++i) {
      if (!exists(i)) continue;
      y_packs[i] = load_pack<N>(y + offset(i));
      dy_packs[i] = load_pack<N>(dy + offset(i));
    }
#pragma unroll
    for (int i = 0; i < gradient_packs_in_flight; ++i) {
      if (exists(i)) use(y_packs[i], dy_packs[i], offset(i));
    }
  }
}

/// First kernel: the sum of each part of each row. sums: rows x gridDim.x.
template <class Op, int N, class T>
__global__ void __launch_bounds__(split_block_size)
    sums_of_parts(const T* y, const T* dy, typename Op::State* sums, Shape shape, std::int64_t part_cols) {
  __shared__ typename Op::State storage[32];
  const PartOfRow part(part_cols, shape.cols);
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    typename Op::State sum{};
    const auto add = [&](auto y_pack, auto dy_pack, std::int64_t) { add_packs<Op>(sum, y_pack, dy_pack); };
    for_each_pack_of_part<N>(y, dy, part, row * shape.cols, add);
    sum = block_merge<Op>(sum, storage);
    if (threadIdx.x == 0) sums[row * gridDim.x + blockIdx.x] = sum;
  }
}

/// Second kernel: every block adds all sums of its row, in the same order, and writes its part.
template <class Op, int N, class T>
__global__ void __launch_bounds__(split_block_size)
    add_and_write(const T* y, const T* dy, T* dx, const typename Op::State* sums, Shape shape,
                  std::int64_t part_cols) {
  __shared__ typename Op::State storage[32];
  const PartOfRow part(part_cols, shape.cols);
  for (std::int64_t row = blockIdx.y; row < shape.rows; row += gridDim.y) {
    typename Op::State sum{};
    for (unsigned i = threadIdx.x; i < gridDim.x; i += split_block_size) {
      sum = Op::merge(sum, sums[row * gridDim.x + i]);
    }
    sum = block_merge<Op>(sum, storage);
    const auto write = [&](auto y_pack, auto dy_pack, std::int64_t offset) {
      store_pack(dx + offset, finish_packs<Op>(sum, y_pack, dy_pack));
    };
    for_each_pack_of_part<N>(y, dy, part, row * shape.cols, write);
  }
}

/// Rows of any width. If packs do not cover the rows of all three matrices, it reads single elements. The row
/// is split by split_over_gpu.
struct SplitInTwoKernels {
  using Operations = BackwardOperations;
  static Split split(Shape shape) { return split_over_gpu(shape); }
  static Need needs(const Matrix& matrix) {
    const std::int64_t sums = matrix.rows * split(matrix.shape()).parts;
    return {.workspace_bytes = static_cast<std::size_t>(sums) * sizeof(float)};
  }

  template <class Op, int N, class T>
  static void launch_packs(const T* y, const T* dy, T* dx, typename Op::State* sums, Shape shape,
                           cudaStream_t stream) {
    const auto [parts, part_cols] = split(shape);
    const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(min(shape.rows, max_grid_rows)));
    sums_of_parts<Op, N><<<grid, split_block_size, 0, stream>>>(y, dy, sums, shape, part_cols);
    CUDA_CHECK(cudaGetLastError());
    add_and_write<Op, N><<<grid, split_block_size, 0, stream>>>(y, dy, dx, sums, shape, part_cols);
    CUDA_CHECK(cudaGetLastError());
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    constexpr int N = elements_per_16_bytes<T>;
    auto* const sums = static_cast<typename Op::State*>(tensors.workspace);
    if (all_fit_packs<N>(tensors.y, tensors.dy, tensors.dx, tensors.shape.cols)) {
      launch_packs<Op, N>(tensors.y, tensors.dy, tensors.dx, sums, tensors.shape, stream);
    } else {
      launch_packs<Op, 1>(tensors.y, tensors.dy, tensors.dx, sums, tensors.shape, stream);
    }
  }
};

}  // namespace rowwise
