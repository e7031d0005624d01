// Rows of any width at any place, three matrices that may each lie otherwise between two packs: as row_in_flight of stage
// 08, whose block holds one row.
#pragma once

#include "08_unaligned_rows/row_in_flight.cuh"
#include "09_async_copy/own_packs.cuh"
#include "11_backward/row_gradient.cuh"

/// Sends what there is of columns 0 to `count` on its way to its place_in shared memory; single elements are there at once.
/// Returns that place.
template <class T>
__device__ T* request_columns(unsigned char* buffer, const T* row, int count) {
  constexpr int N = elements_per_16_bytes<T>;
  T* const kept = place_in(buffer, row);
  const Cut<N> cut(row, count);
  const int thread = static_cast<int>(threadIdx.x);
  for (int pack = thread; pack < cut.num_packs; pack += static_cast<int>(blockDim.x)) {
    __pipeline_memcpy_async(kept + cut.col_of_pack(pack), row + cut.col_of_pack(pack), 16);
  }
  if (thread < cut.num_singles()) kept[cut.col_of_single(thread)] = row[cut.col_of_single(thread)];
  return kept;
}

/// Keeps most_kept columns of both rows, and reads the rest again. y and dy may begin at different places of a pack, so a
/// thread needs what others have copied: there is a barrier before the sum.
template <class Op, class T>
__global__ void __launch_bounds__(1024)
    unaligned_backward(const T* y, const T* dy, T* dx, Shape shape, int most_kept) {
  constexpr int N = elements_per_16_bytes<T>;
  extern __shared__ __align__(line_bytes) unsigned char buffer[];
  __shared__ typename Op::State storage[32];
  const int cols = static_cast<int>(shape.cols);
  const int kept_cols = min(cols, most_kept);
  unsigned char* const buffer_dy = buffer + bytes_with_place(kept_cols * std::int64_t{sizeof(T)});

  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const T* row_y = y + row * cols;
    const T* row_dy = dy + row * cols;
    T* row_dx = dx + row * cols;
    const T* kept_y = request_columns(buffer, row_y, kept_cols);
    const T* kept_dy = request_columns(buffer_dy, row_dy, kept_cols);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();

    // Packs as dx has them: where all three lie alike, every access is of 16 bytes.
    const Cut<N> cut(row_dx, cols);
    const auto read = [&]<int count>(int col, float(&of_y)[count], float(&of_dy)[count]) {
      if (col + count <= kept_cols) {
        read_neighbours(kept_y + col, of_y);
        read_neighbours(kept_dy + col, of_dy);
      } else {
        read_neighbours(row_y + col, of_y);
        read_neighbours(row_dy + col, of_dy);
      }
    };
    const auto for_each_of_thread = [&](auto use) {
      const int thread = static_cast<int>(threadIdx.x);
      for (int pack = thread; pack < cut.num_packs; pack += static_cast<int>(blockDim.x)) {
        use.template operator()<N>(cut.col_of_pack(pack));
      }
      if (thread < cut.num_singles()) use.template operator()<1>(cut.col_of_single(thread));
    };

    typename Op::State sum{};
    for_each_of_thread([&]<int count>(int col) {
      float of_y[count];
      float of_dy[count];
      read(col, of_y, of_dy);
      Op::add(sum, of_y, of_dy);
    });
    sum = block_merge<Op>(sum, storage);
    for_each_of_thread([&]<int count>(int col) {
      float of_y[count];
      float of_dy[count];
      read(col, of_y, of_dy);
#pragma unroll
      for (int i = 0; i < count; ++i) of_dy[i] = Op::finish(sum, of_y[i], of_dy[i]);
      store_pack(row_dx + col, make_pack<T>(of_dy));
    });
    __syncthreads();  // the next rows are copied over these
  }
}

/// cols <= 2^30.
struct Unaligned {
  /// Columns that are kept of each row, where a block has so many bytes of shared memory.
  static std::int64_t most_kept(std::int64_t cols, std::int64_t element_bytes, std::int64_t shared_bytes) {
    const std::int64_t of_a_row = (shared_bytes - most_static_bytes) / 2 - 2 * std::int64_t{line_bytes};
    return min(cols, of_a_row / element_bytes);
  }

  template <class Op, class T>
  static void launch(const T* y, const T* dy, T* dx, Shape shape, cudaStream_t stream) {
    if (shape.rows == 0) return;
    const auto kernel = unaligned_backward<Op, T>;
    const int most_bytes = most_shared_bytes();
    const std::int64_t kept = most_kept(shape.cols, sizeof(T), most_bytes);
    const auto shared_bytes = static_cast<int>(2 * bytes_with_place(kept * std::int64_t{sizeof(T)}));
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    // Two packs a thread or more, and no more threads than an SM takes, in one block or two.
    const std::int64_t most_threads = 2 * shared_bytes > most_bytes ? 1024 : 512;
    const std::int64_t threads = round_up(divide_up(shape.cols, 2 * elements_per_16_bytes<T>), 32);
    kernel<<<grid_for(shape.rows), static_cast<unsigned>(min(threads, most_threads)), shared_bytes, stream>>>(
        y, dy, dx, shape, static_cast<int>(kept));
    CUDA_CHECK(cudaGetLastError());
  }
};
