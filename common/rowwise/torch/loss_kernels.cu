#include "common/kernel/constants.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/pack.cuh"
#include "common/rowwise/torch/loss_kernels.h"

namespace rowwise {

namespace {

constexpr int block_size = 512;
constexpr int rows_per_block = 32 * block_size;
constexpr int most_blocks = 256;

/// In double: a sum of 2^24 losses has a larger error in float than a loss has.
struct SumOfRows {
  double sum;
  double count;
};

unsigned blocks_for(std::int64_t rows) {
  return static_cast<unsigned>(
      min(max(divide_up(rows, rows_per_block), std::int64_t{1}), std::int64_t{most_blocks}));
}

/// The sum over the block's threads; thread 0 returns it.
__device__ SumOfRows block_sum(SumOfRows value) {
  const auto over_warp = [](SumOfRows one) {
    for (int distance = 16; distance > 0; distance /= 2) {
      one.sum += __shfl_down_sync(0xffffffff, one.sum, distance);
      one.count += __shfl_down_sync(0xffffffff, one.count, distance);
    }
    return one;
  };
  __shared__ SumOfRows of_warp[block_size / 32];
  value = over_warp(value);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x >= 32) return value;
  return over_warp(threadIdx.x < block_size / 32 ? of_warp[threadIdx.x] : SumOfRows{});
}

__device__ void write_result(SumOfRows rows, bool is_mean, float* loss, float* factor) {
  const double divisor = is_mean ? rows.count : 1;
  *loss = static_cast<float>(rows.sum / divisor);
  if (factor != nullptr) *factor = static_cast<float>(divisor == 0 ? 0 : 1 / divisor);
}

/// A block that is alone writes the result; otherwise each block leaves its part for reduce_parts.
__global__ void reduce_rows(const float* losses, const std::int64_t* labels, std::int64_t rows, bool is_mean,
                            float* loss, float* factor, SumOfRows* parts) {
  SumOfRows mine{};
  const std::int64_t stride = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t row = std::int64_t{blockIdx.x} * block_size + threadIdx.x; row < rows; row += stride) {
    mine.sum += losses[row];
    mine.count += labels[row] != ignored_label;
  }
  const SumOfRows all = block_sum(mine);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    write_result(all, is_mean, loss, factor);
  } else {
    parts[blockIdx.x] = all;
  }
}

__global__ void reduce_parts(const SumOfRows* parts, int count, bool is_mean, float* loss, float* factor) {
  const int part = static_cast<int>(threadIdx.x);
  const SumOfRows all = block_sum(part < count ? parts[part] : SumOfRows{});
  if (part == 0) write_result(all, is_mean, loss, factor);
}
static_assert(most_blocks <= block_size);

template <class T>
__global__ void scale(T* dx, std::int64_t elements, const float* d_loss, const float* factor) {
  constexpr int N = elements_per_16_bytes<T>;
  const float by = *d_loss * *factor;
  const std::int64_t thread = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  if (thread < elements / N) {
    float values[N];
    unpack(load_pack<N>(dx + thread * N), values);
    for (float& value : values) value *= by;
    store_pack(dx + thread * N, make_pack<T>(values));
  } else if (const std::int64_t last = thread - elements / N + elements / N * N; last < elements) {
    dx[last] = static_cast<T>(static_cast<float>(dx[last]) * by);
  }
}

template <class T>
void launch_scale(void* dx, std::int64_t elements, const float* d_loss, const float* factor,
                  cudaStream_t stream) {
  constexpr int N = elements_per_16_bytes<T>;
  const std::int64_t threads = elements / N + elements % N;
  scale<<<grid_for(divide_up(threads, block_size)), block_size, 0, stream>>>(static_cast<T*>(dx), elements,
                                                                             d_loss, factor);
}

}  // namespace

std::size_t bytes_of_parts(std::int64_t rows) {
  const unsigned blocks = blocks_for(rows);
  return blocks == 1 ? 0 : blocks * sizeof(SumOfRows);
}

cudaError_t launch_reduction(const float* losses, const std::int64_t* labels, std::int64_t rows, bool is_mean,
                             float* loss, float* factor, void* parts, cudaStream_t stream) {
  const unsigned blocks = blocks_for(rows);
  const auto sums = static_cast<SumOfRows*>(parts);
  reduce_rows<<<blocks, block_size, 0, stream>>>(losses, labels, rows, is_mean, loss, factor, sums);
  if (blocks > 1)
    reduce_parts<<<1, block_size, 0, stream>>>(sums, static_cast<int>(blocks), is_mean, loss, factor);
  return cudaGetLastError();
}

cudaError_t launch_scaling(rowwise_dtype dtype, void* dx, std::int64_t elements, const float* d_loss,
                           const float* factor, cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  switch (dtype) {
    case ROWWISE_F32:
      launch_scale<float>(dx, elements, d_loss, factor, stream);
      break;
    case ROWWISE_F16:
      launch_scale<__half>(dx, elements, d_loss, factor, stream);
      break;
    case ROWWISE_BF16:
      launch_scale<__nv_bfloat16>(dx, elements, d_loss, factor, stream);
      break;
  }
  return cudaGetLastError();
}

}  // namespace rowwise
