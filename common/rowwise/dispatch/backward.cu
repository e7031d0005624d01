// The gradients of softmax and log-softmax: what the kernels of stage 11 can do, and their launches.
#include "11_backward/exchange_gradient.cuh"
#include "11_backward/flat_span.cuh"
#include "11_backward/head_and_tail.cuh"
#include "11_backward/in_cluster.cuh"
#include "11_backward/in_registers.cuh"
#include "11_backward/in_shared_memory.cuh"
#include "11_backward/split_gradient.cuh"
#include "11_backward/unaligned.cuh"
#include "common/rowwise/dispatch/cluster_limits.cuh"
#include "common/rowwise/dispatch/launch.cuh"

namespace rowwise {

bool can_do(Backward kernel, const Matrix& matrix, const Gpu& gpu) {
  using enum Backward;
  switch (kernel) {
    case warp_registers:
      // Beyond 8 single elements a lane it has half the speed of others.
      if (matrix.in_single_elements() && !WarpRegisters::can_cut(matrix.lie_alike, matrix.element_bytes)) {
        return matrix.cols <= 8 * 32;
      }
      return matrix.cols <= WarpRegisters::most_cols(matrix.lie_alike, matrix.element_bytes);
    case block_registers:
      return matrix.in_packs(8) && matrix.cols <= BlockRegisters::most_cols(matrix.in_packs());
    case shared_memory:
      return matrix.in_packs() &&
             2 * round_up(matrix.row_bytes(), 128) <= gpu.shared_bytes - most_static_bytes;
    case cluster:
      return matrix.in_packs() && fits_cluster<Cluster>(matrix, gpu);
    case head_and_tail:
      return matrix.lie_alike && matrix.cols <= widest_gradient_tile.cols();
    case flat_span:
      return matrix.lie_alike && matrix.in_odd_packs() &&
             matrix.cols <= SpanOfTwoRows::most_cols_in(gpu.shared_bytes, matrix.element_bytes);
    case unaligned:
      return matrix.cols <= 1 << 30;
    case unaligned_cluster:
      return fits_cluster<UnalignedCluster>(matrix, gpu);
    case two_kernels:
      return true;
    case row_exchange:
      return matrix.in_packs() && matrix.cols <= SplitWithExchange::max_cols();
  }
  return false;
}

Need need(Backward kernel, const Matrix& matrix) {
  const Shape shape{matrix.rows, matrix.cols};
  if (kernel == Backward::row_exchange) return {.bytes = SplitWithExchange::workspace_bytes(shape)};
  if (kernel == Backward::two_kernels) {
    return {.bytes = SplitInTwoKernels::workspace_bytes(shape), .left_zero = false};
  }
  return {.clusters = kernel == Backward::cluster || kernel == Backward::unaligned_cluster};
}

template <class Op, class T>
void launch(Backward kernel, const T* y, const T* dy, T* dx, void* workspace, Shape shape,
            cudaStream_t stream) {
  using enum Backward;
  switch (kernel) {
    case warp_registers:
      return WarpRegisters::launch<Op>(y, dy, dx, shape, stream);
    case block_registers:
      return BlockRegisters::launch<Op>(y, dy, dx, shape, stream);
    case shared_memory:
      return SharedMemory::launch<Op>(y, dy, dx, shape, stream);
    case cluster:
      return Cluster::launch<Op>(y, dy, dx, shape, stream);
    case head_and_tail:
      return HeadAndTailOfTwoRows::launch<Op>(y, dy, dx, shape, stream);
    case flat_span:
      return SpanOfTwoRows::launch<Op>(y, dy, dx, shape, stream);
    case unaligned:
      return Unaligned::launch<Op>(y, dy, dx, shape, stream);
    case unaligned_cluster:
      return UnalignedCluster::launch<Op>(y, dy, dx, shape, stream);
    case two_kernels:
      return SplitInTwoKernels::launch<Op>(y, dy, dx, workspace, shape, stream);
    case row_exchange:
      return SplitWithExchange::launch<Op>(y, dy, dx, workspace, shape, stream);
  }
}

template void launch<SoftmaxBackward>(Backward, const float*, const float*, float*, void*, Shape,
                                      cudaStream_t);
template void launch<SoftmaxBackward>(Backward, const __half*, const __half*, __half*, void*, Shape,
                                      cudaStream_t);
template void launch<SoftmaxBackward>(Backward, const __nv_bfloat16*, const __nv_bfloat16*, __nv_bfloat16*,
                                      void*, Shape, cudaStream_t);
template void launch<LogSoftmaxBackward>(Backward, const float*, const float*, float*, void*, Shape,
                                         cudaStream_t);
template void launch<LogSoftmaxBackward>(Backward, const __half*, const __half*, __half*, void*, Shape,
                                         cudaStream_t);
template void launch<LogSoftmaxBackward>(Backward, const __nv_bfloat16*, const __nv_bfloat16*, __nv_bfloat16*,
                                         void*, Shape, cudaStream_t);

}  // namespace rowwise
