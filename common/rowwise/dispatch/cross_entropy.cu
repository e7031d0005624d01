// Cross-entropy, alone and with its gradient: what the kernels of stage 12 can do, and their launches.
#include "12_fusion/cluster_loss.cuh"
#include "12_fusion/in_registers.cuh"
#include "12_fusion/kept_row.cuh"
#include "12_fusion/loss.cuh"
#include "12_fusion/narrow_rows.cuh"
#include "12_fusion/span_loss.cuh"
#include "12_fusion/split_loss.cuh"
#include "12_fusion/unaligned_cluster.cuh"
#include "common/rowwise/dispatch/cluster_limits.cuh"
#include "common/rowwise/dispatch/launch.cuh"

namespace rowwise {

/// Op: the loss, or with the gradient; smoothed or not.
template <class Op>
bool fits_lanes(const Matrix& matrix) {
  return matrix.cols <= NarrowRows::most_cols<Op>(matrix.lie_alike, matrix.element_bytes);
}

bool fits_span(const Matrix& matrix, const Gpu& gpu) {
  return matrix.in_odd_packs() && matrix.cols <= most_cols_of_span_in(gpu.shared_bytes, matrix.element_bytes);
}

bool can_do(Loss kernel, const Matrix& matrix, const Gpu& gpu) {
  using enum Loss;
  switch (kernel) {
    case narrow_rows:
      return fits_lanes<CrossEntropy>(matrix);
    case flat_span:
      return fits_span(matrix, gpu);
    case drawn_rows:
      return matrix.rows <= most_rows_to_draw;
    case cluster_loss:
      return ClusterLoss::layout(matrix.row_bytes(), matrix.rows).cluster_size <= gpu.most_blocks_of_cluster;
    case cluster_registers:
      return matrix.row_bytes() <= ClusterAtOnce::most_row_bytes &&
             fits_cluster<ClusterAtOnce>(matrix, gpu, matrix.rows);
    case one_read:
    case split_row:
      return true;
  }
  return false;
}

bool can_do(Gradient kernel, const Matrix& matrix, const Gpu& gpu) {
  using enum Gradient;
  switch (kernel) {
    case narrow_rows:
      return fits_lanes<WithGradient<CrossEntropy>>(matrix);
    case flat_span:
      return fits_span(matrix, gpu);
    case in_registers:
      return matrix.lie_alike && matrix.cols <= most_cols_in_registers;
    case unaligned_cluster:
      return fits_cluster<UnalignedInCluster>(matrix, gpu, matrix.rows);
    case kept_row:
      return true;
  }
  return false;
}

Need need(Loss kernel, const Matrix& matrix) {
  if (kernel == Loss::drawn_rows) return {.bytes = sizeof(TicketCounter)};
  if (kernel == Loss::split_row) {
    return {.bytes = SplitLoss::workspace_bytes({matrix.rows, matrix.cols}), .left_zero = false};
  }
  return {.clusters = kernel == Loss::cluster_loss || kernel == Loss::cluster_registers};
}

Need need(Gradient kernel, const Matrix& /*matrix*/) {
  return {.clusters = kernel == Gradient::unaligned_cluster};
}

template <class Op, class T>
void launch(Loss kernel, const Tensors<T>& tensors, cudaStream_t stream) {
  using enum Loss;
  switch (kernel) {
    case narrow_rows:
      return NarrowRows::launch<Op>(tensors, stream);
    case flat_span:
      return SpanOfRows::launch<Op>(tensors, stream);
    case one_read:
      return OneRead::launch<Op>(tensors, stream);
    case drawn_rows:
      return DrawnRows::launch<Op>(tensors, stream);
    case split_row:
      return SplitLoss::launch<Op>(tensors, stream);
    case cluster_loss:
      return ClusterLoss::launch<Op>(tensors, stream);
    case cluster_registers:
      return ClusterAtOnce::launch<Op>(tensors, stream);
  }
}

template <class Op, class T>
void launch(Gradient kernel, const Tensors<T>& tensors, cudaStream_t stream) {
  using enum Gradient;
  switch (kernel) {
    case narrow_rows:
      return NarrowRows::launch<Op>(tensors, stream);
    case flat_span:
      return SpanOfRows::launch<Op>(tensors, stream);
    case in_registers:
      return InRegisters::launch<Op>(tensors, stream);
    case unaligned_cluster:
      return UnalignedInCluster::launch<Op>(tensors, stream);
    case kept_row:
      return KeptRows<true>::launch<Op>(tensors, stream);
  }
}

template void launch<CrossEntropy>(Loss, const Tensors<float>&, cudaStream_t);
template void launch<CrossEntropy>(Loss, const Tensors<__half>&, cudaStream_t);
template void launch<CrossEntropy>(Loss, const Tensors<__nv_bfloat16>&, cudaStream_t);
template void launch<SmoothedCrossEntropy>(Loss, const Tensors<float>&, cudaStream_t);
template void launch<SmoothedCrossEntropy>(Loss, const Tensors<__half>&, cudaStream_t);
template void launch<SmoothedCrossEntropy>(Loss, const Tensors<__nv_bfloat16>&, cudaStream_t);
template void launch<WithGradient<CrossEntropy>>(Gradient, const Tensors<float>&, cudaStream_t);
template void launch<WithGradient<CrossEntropy>>(Gradient, const Tensors<__half>&, cudaStream_t);
template void launch<WithGradient<CrossEntropy>>(Gradient, const Tensors<__nv_bfloat16>&, cudaStream_t);
template void launch<WithGradient<SmoothedCrossEntropy>>(Gradient, const Tensors<float>&, cudaStream_t);
template void launch<WithGradient<SmoothedCrossEntropy>>(Gradient, const Tensors<__half>&, cudaStream_t);
template void launch<WithGradient<SmoothedCrossEntropy>>(Gradient, const Tensors<__nv_bfloat16>&,
                                                         cudaStream_t);

}  // namespace rowwise
