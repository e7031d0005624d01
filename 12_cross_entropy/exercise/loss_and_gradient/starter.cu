// Exercise 12.1, write it, 15 minutes: the loss of a row and its gradient
//
// A warp has read a row: each lane holds up to 32 elements in registers, and knows the row's maximum and sum.
// The steps that turn it into cross-entropy are missing.
#include "common/exercise/launchers.cuh"

// Lane l holds the columns l, l + 32, l + 64, ...
constexpr int cols_per_lane = 32;
constexpr std::int64_t ignored_label = -100;

/// loss = log(sum) + (max - x[label]), written once; and in place dx = exp(x - max) / sum, less 1 at the label: x becomes dx.
/// In an ignored row the loss and each dx are 0, whatever x is: a NaN, too.
__device__ void make_loss_and_gradient(float (&x)[cols_per_lane], float max, float sum, std::int64_t label,
                                       float* loss) {
  // TODO (roughly 8 lines): element i of this lane is that of column i * 32 + lane. x[label] is in a register of some lane:
  // nothing has to be read again.
}

// ---- Given: the kernel.
constexpr int warps_per_block = 4;

/// Over all 32 lanes, in every lane.
template <class Op>
__device__ float warp_reduce(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = Op{}(value, __shfl_xor_sync(0xffffffff, value, mask));
  return value;
}

__global__ void loss_and_gradient(const float* x, const std::int64_t* labels, float* loss, float* dx,
                                  Shape shape) {
  const std::int64_t row = blockIdx.x * std::int64_t{warps_per_block} + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= shape.rows) return;  // the whole warp: no lane is missing in a shuffle

  const std::int64_t label = labels[row];
  float values[cols_per_lane];
  float max = MaxOp::identity;
#pragma unroll
  for (int i = 0; i < cols_per_lane; ++i) {
    const int col = i * 32 + lane;
    values[i] = col < shape.cols ? x[row * shape.cols + col] : MaxOp::identity;
    max = MaxOp{}(max, values[i]);
  }
  max = warp_reduce<MaxOp>(max);
  float sum = 0;
#pragma unroll
  for (const float value : values) sum += __expf(value - max);
  sum = warp_reduce<SumOp>(sum);

  make_loss_and_gradient(values, max, sum, label, &loss[row]);
#pragma unroll
  for (int i = 0; i < cols_per_lane; ++i) {
    const int col = i * 32 + lane;
    if (col < shape.cols) dx[row * shape.cols + col] = values[i];
  }
}

void cross_entropy(const float* x, const std::int64_t* labels, float* loss, float* dx, Shape shape,
                   cudaStream_t stream) {
  const unsigned grid = grid_for(divide_up(shape.rows, warps_per_block));
  loss_and_gradient<<<grid, warps_per_block * 32, 0, stream>>>(x, labels, loss, dx, shape);
  CUDA_CHECK(cudaGetLastError());
}
