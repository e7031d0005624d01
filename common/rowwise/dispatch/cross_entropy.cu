// Cross-entropy, alone and with its gradient: the launchers of the kernels, those of stage 12.
#include <stdexcept>

#include "common/rowwise/dispatch/launch.cuh"
#include "common/rowwise/kernels/loss/cluster_loss.cuh"
#include "common/rowwise/kernels/loss/in_registers.cuh"
#include "common/rowwise/kernels/loss/kept_row.cuh"
#include "common/rowwise/kernels/loss/loss.cuh"
#include "common/rowwise/kernels/loss/narrow_rows.cuh"
#include "common/rowwise/kernels/loss/span_loss.cuh"
#include "common/rowwise/kernels/loss/split_loss.cuh"
#include "common/rowwise/kernels/loss/unaligned_cluster.cuh"

namespace rowwise {

namespace {

/// Calls use() with the launcher of the kernel.
template <class Use>
auto with_launcher(Loss kernel, Use use) {
  using enum Loss;
  switch (kernel) {
    case narrow_rows:
      return use(NarrowRows{});
    case flat_span:
      return use(SpanOfRows{});
    case one_read:
      return use(OneRead{});
    case drawn_rows:
      return use(DrawnRows{});
    case split_row:
      return use(SplitLoss{});
    case cluster_loss:
      return use(ClusterLoss{});
    case cluster_registers:
      return use(ClusterAtOnce{});
  }
  throw std::logic_error("a kernel that is none");
}

/// Calls use() with the launcher of the kernel.
template <class Use>
auto with_launcher(Gradient kernel, Use use) {
  using enum Gradient;
  switch (kernel) {
    case narrow_rows:
      return use(NarrowRows{});
    case flat_span:
      return use(SpanOfRows{});
    case in_registers:
      return use(InRegisters{});
    case unaligned_cluster:
      return use(UnalignedInCluster{});
    case kept_row:
      return use(KeptRows<true>{});
  }
  throw std::logic_error("a kernel that is none");
}

}  // namespace

Refusal refusal(Loss kernel, const Matrix& matrix, const Gpu& gpu) {
  return with_launcher(
      kernel, [&](auto launcher) { return refusal_of<decltype(launcher), CrossEntropy>(matrix, gpu); });
}

Need need(Loss kernel, const Matrix& matrix) {
  return with_launcher(kernel, [&](auto launcher) { return need_of<decltype(launcher)>(matrix); });
}

template <class Op, class T>
void launch(Loss kernel, const Tensors<T>& tensors, cudaStream_t stream) {
  with_launcher(kernel, [&](auto launcher) { decltype(launcher)::template launch<Op>(tensors, stream); });
}

Refusal refusal(Gradient kernel, const Matrix& matrix, const Gpu& gpu) {
  return with_launcher(kernel, [&](auto launcher) {
    return refusal_of<decltype(launcher), WithGradient<CrossEntropy>>(matrix, gpu);
  });
}

Need need(Gradient kernel, const Matrix& matrix) {
  return with_launcher(kernel, [&](auto launcher) { return need_of<decltype(launcher)>(matrix); });
}

template <class Op, class T>
void launch(Gradient kernel, const Tensors<T>& tensors, cudaStream_t stream) {
  with_launcher(kernel, [&](auto launcher) { decltype(launcher)::template launch<Op>(tensors, stream); });
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
