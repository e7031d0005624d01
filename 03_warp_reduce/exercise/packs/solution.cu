// Exercise 03.2, write it, 15 minutes: 16 bytes per access
//
// float4 is 16 bytes: 32 lanes request 512 bytes at once, with a quarter of the instructions.
#include "common/exercise/launchers.cuh"
#include "common/kernel/warp_all_reduce.cuh"

constexpr int warps_per_block = 4;
constexpr int pack_size = 4;
constexpr int packs_per_lane = 8;

/// Reads the pack whose first element `source` points to.
__device__ void load_pack(const float* source, float (&values)[pack_size]) {
  const float4 pack = *reinterpret_cast<const float4*>(source);
  values[0] = pack.x;
  values[1] = pack.y;
  values[2] = pack.z;
  values[3] = pack.w;
}

/// Writes it.
__device__ void store_pack(float* destination, const float (&values)[pack_size]) {
  *reinterpret_cast<float4*>(destination) = make_float4(values[0], values[1], values[2], values[3]);
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
