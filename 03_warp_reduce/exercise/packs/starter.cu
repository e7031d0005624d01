// Exercise 03.2, write it, 15 minutes: 16 bytes per access
//
// A warp takes a row; each lane works on packs of four neighbouring columns, but reads and writes them one
// float at a time. Let it take each pack with one access of 16 bytes. CUDA's type for that is float4: four
// floats, and a pointer to it may point to any address that is a multiple of 16. Every width here is a
// multiple of 4.
#include "common/exercise/launchers.cuh"
#include "common/kernel/warp_all_reduce.cuh"

constexpr int warps_per_block = 4;
constexpr int pack_size = 4;
constexpr int packs_per_lane = 8;

/// Reads the pack whose first element `source` points to.
__device__ void load_pack(const float* source, float (&values)[pack_size]) {
  // TODO (roughly 5 lines): one access instead of four. reinterpret_cast<const float4*>(source) points to the
  // pack.
  for (int i = 0; i < pack_size; ++i) values[i] = source[i];
}

/// Writes it.
__device__ void store_pack(float* destination, const float (&values)[pack_size]) {
  // TODO (roughly 2 lines): one access instead of four; make_float4(a, b, c, d) makes a pack.
  for (int i = 0; i < pack_size; ++i) destination[i] = values[i];
}

// ---- Given: the kernel. Lane l holds the packs l, l + 32, l + 64, ...
__global__ void packed_softmax(const float* x, float* y, Shape shape) {
  const std::int64_t row = blockIdx.x * std::int64_t{warps_per_block} + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= shape.rows) return;

  float values[packs_per_lane][pack_size];
  float max = MaxOp::identity;
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    const int col = (pack * 32 + lane) * pack_size;
    for (float& value : values[pack]) value = MaxOp::identity;
    if (col < shape.cols) load_pack(x + row * shape.cols + col, values[pack]);
    for (const float value : values[pack]) max = fmaxf(max, value);
  }
  max = warp_all_reduce<MaxOp, 32>(max);

  float sum = 0;
#pragma unroll
  for (auto& pack : values) {
    for (float& value : pack) {
      value = __expf(value - max);
      sum += value;
    }
  }
  const float reciprocal = 1.0f / warp_all_reduce<SumOp, 32>(sum);

#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    const int col = (pack * 32 + lane) * pack_size;
    for (float& value : values[pack]) value *= reciprocal;
    if (col < shape.cols) store_pack(y + row * shape.cols + col, values[pack]);
  }
}

void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  const unsigned grid = grid_for(divide_up(shape.rows, warps_per_block));
  packed_softmax<<<grid, warps_per_block * 32, 0, stream>>>(x, y, shape);
  CUDA_CHECK(cudaGetLastError());
}
