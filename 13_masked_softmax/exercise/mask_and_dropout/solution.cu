// Exercise 13.1, write it, 15 minutes: the mask comes with the load, dropout with the store
//
// A warp loads the scores that its query sees, and makes y of the softmax on its way to memory.
#include "13_masked_softmax/philox.cuh"
#include "common/exercise/launchers.cuh"

constexpr float scale = 0.125f;
constexpr unsigned dropped_of_65536 = 6554;
constexpr float kept_factor = 65536.0f / (65536 - dropped_of_65536);

/// The scores, scaled, of columns col to col + 3: -inf if the query does not see the column, which comes
/// after its own. Four columns that it does not see are not read.
__device__ void load_scores(const float* row_x, int col, int query, float (&scores)[4]) {
  float4 pack{};
  if (col <= query) pack = *reinterpret_cast<const float4*>(row_x + col);
  const float x[4] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) scores[i] = col + i <= query ? x[i] * scale : -INFINITY;
}

/// Four elements of the softmax become those of y. The first is element `index` of the matrix, a multiple of
/// 4. Element i takes word i % 8, of 16 bits, of philox4x32(i / 8, seed): if it is less than
/// dropped_of_65536, the element is dropped, otherwise multiplied by kept_factor.
__device__ void drop(float (&values)[4], std::int64_t index, std::uint64_t seed) {
  const uint4 bits = philox4x32(index / 8, seed);
  const bool is_first_half = index % 8 == 0;
  const unsigned words[2] = {is_first_half ? bits.x : bits.z, is_first_half ? bits.y : bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned drawn = words[i / 2] >> (i % 2 * 16) & 0xffff;
    values[i] = drawn < dropped_of_65536 ? 0 : values[i] * kept_factor;
  }
}

// ---- Given: the kernel. A warp for each row of up to 1024 columns, a multiple of 4.
constexpr int warps_per_block = 4;
constexpr int packs_per_lane = 8;

/// Over all 32 lanes, in every lane.
template <class Op>
__device__ float warp_reduce(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = Op{}(value, __shfl_xor_sync(0xffffffff, value, mask));
  return value;
}

__global__ void masked_softmax(const float* x, float* softmax, float* y, std::uint64_t seed, Shape shape) {
  const std::int64_t row = blockIdx.x * std::int64_t{warps_per_block} + threadIdx.x / 32;
  if (row >= shape.rows) return;  // the whole warp: no lane is missing in a shuffle
  const int cols = static_cast<int>(shape.cols);
  const int query = static_cast<int>(row % cols);
  const auto col_of_pack = [](int pack) { return (pack * 32 + static_cast<int>(threadIdx.x) % 32) * 4; };

  float values[packs_per_lane][4];
  float max = MaxOp::identity;
#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    for (float& value : values[pack]) value = MaxOp::identity;
    if (col_of_pack(pack) < cols) load_scores(x + row * cols, col_of_pack(pack), query, values[pack]);
    for (const float value : values[pack]) max = MaxOp{}(max, value);
  }
  max = warp_reduce<MaxOp>(max);
  float sum = 0;
#pragma unroll
  for (auto& pack : values) {
    for (float& value : pack) {
      value = __expf(value - max);
      sum += value;
    }
  }
  sum = warp_reduce<SumOp>(sum);

#pragma unroll
  for (int pack = 0; pack < packs_per_lane; ++pack) {
    if (col_of_pack(pack) >= cols) continue;
    const std::int64_t index = row * cols + col_of_pack(pack);
    auto& of = values[pack];
    for (float& value : of) value /= sum;
    *reinterpret_cast<float4*>(softmax + index) = {of[0], of[1], of[2], of[3]};
    drop(of, index, seed);
    *reinterpret_cast<float4*>(y + index) = {of[0], of[1], of[2], of[3]};
  }
}

void causal_softmax(const float* x, float* softmax, float* y, std::uint64_t seed, Shape shape,
                    cudaStream_t stream) {
  const unsigned grid = grid_for(divide_up(shape.rows, warps_per_block));
  masked_softmax<<<grid, warps_per_block * 32, 0, stream>>>(x, softmax, y, seed, shape);
  CUDA_CHECK(cudaGetLastError());
}
