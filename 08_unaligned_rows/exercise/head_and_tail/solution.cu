// Exercise 08.1, write it, 15 minutes: head, packs and tail
//
// The head ends at the first multiple of 16 bytes, or with the row.
#include "common/exercise/launchers.cuh"
#include "common/kernel/warp_all_reduce.cuh"

constexpr int warps_per_block = 4;
constexpr int pack_size = 4;

/// The elements of a row, in this order.
struct Cut {
  int head;       ///< single elements before the first pack
  int num_packs;  ///< each at a multiple of 16 bytes
  int tail;       ///< single elements after the last pack
};

__device__ Cut cut_row(const float* row, int cols) {
  const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / sizeof(float) % pack_size);
  const int head = min((pack_size - past) % pack_size, cols);
  return {head, (cols - head) / pack_size, (cols - head) % pack_size};
}

// ---- Given: the walk over a row, and the kernel. Calls use(values, col) for each pack of this lane, and for
// each of its single elements.
template <class Use>
__device__ void for_each_of_lane(const float* row, Cut cut, Use use) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int single = lane; single < cut.head + cut.tail; single += 32) {
    const int col = single < cut.head ? single : single + cut.num_packs * pack_size;
    float values[1] = {row[col]};
    use(values, col);
  }
  for (int pack = lane; pack < cut.num_packs; pack += 32) {
    const int col = cut.head + pack * pack_size;
    const float4 four = *reinterpret_cast<const float4*>(row + col);
    float values[pack_size] = {four.x, four.y, four.z, four.w};
    use(values, col);
  }
}

__device__ void store(float* destination, const float (&values)[1]) {
  *destination = values[0];
}
__device__ void store(float* destination, const float (&values)[pack_size]) {
  *reinterpret_cast<float4*>(destination) = make_float4(values[0], values[1], values[2], values[3]);
}

__global__ void unaligned_softmax(const float* x, float* y, Shape shape) {
  const std::int64_t row = blockIdx.x * std::int64_t{warps_per_block} + threadIdx.x / 32;
  if (row >= shape.rows) return;
  const float* row_x = x + row * shape.cols;
  float* row_y = y + row * shape.cols;  // as far past a multiple of 16 bytes as row_x
  const Cut cut = cut_row(row_x, static_cast<int>(shape.cols));

  float max = MaxOp::identity;
  for_each_of_lane(row_x, cut, [&](auto& values, int) {
    for (const float value : values) max = fmaxf(max, value);
  });
  max = warp_all_reduce<MaxOp, 32>(max);

  float sum = 0;
  for_each_of_lane(row_x, cut, [&](auto& values, int) {
    for (const float value : values) sum += __expf(value - max);
  });
  const float reciprocal = 1.0f / warp_all_reduce<SumOp, 32>(sum);

  for_each_of_lane(row_x, cut, [&](auto& values, int col) {
    for (float& value : values) value = __expf(value - max) * reciprocal;
    store(row_y + col, values);
  });
}

void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  const unsigned grid = grid_for(divide_up(shape.rows, warps_per_block));
  unaligned_softmax<<<grid, warps_per_block * 32, 0, stream>>>(x, y, shape);
  CUDA_CHECK(cudaGetLastError());
}
