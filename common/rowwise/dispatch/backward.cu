// The gradients of softmax and log-softmax: the launchers of the kernels, those of stage 11.
#include <stdexcept>

#include "common/rowwise/dispatch/launch.cuh"
#include "common/rowwise/kernels/backward/exchange_gradient.cuh"
#include "common/rowwise/kernels/backward/flat_span.cuh"
#include "common/rowwise/kernels/backward/head_and_tail.cuh"
#include "common/rowwise/kernels/backward/in_cluster.cuh"
#include "common/rowwise/kernels/backward/in_registers.cuh"
#include "common/rowwise/kernels/backward/in_shared_memory.cuh"
#include "common/rowwise/kernels/backward/split_gradient.cuh"
#include "common/rowwise/kernels/backward/unaligned.cuh"

namespace rowwise {

namespace {

/// Beyond 8 single elements per lane it has half the speed of others.
struct WarpRegistersOfFewElements : WarpRegisters {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (matrix.in_single_elements() && !can_cut(matrix.lie_alike, matrix.element_bytes)) {
      return at_most_columns(8 * 32, matrix, Why::registers_of_warp_for_two);
    }
    return WarpRegisters::refuses(matrix, gpu);
  }
};
/// Otherwise it goes through shared memory, as `unaligned`.
struct HeadAndTailOfAlike : HeadAndTailOfTwoRows {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    return matrix.lie_alike ? HeadAndTailOfTwoRows::refuses(matrix, gpu) : Refusal{Why::other_places};
  }
};

/// Calls use() with the launcher of the kernel.
template <class Use>
auto with_launcher(Backward kernel, Use use) {
  using enum Backward;
  switch (kernel) {
    case warp_registers:
      return use(WarpRegistersOfFewElements{});
    case block_registers:
      return use(BlockRegisters{});
    case shared_memory:
      return use(SharedMemory{});
    case cluster:
      return use(Cluster{});
    case head_and_tail:
      return use(HeadAndTailOfAlike{});
    case flat_span:
      return use(SpanOfTwoRows{});
    case unaligned:
      return use(Unaligned{});
    case unaligned_cluster:
      return use(UnalignedCluster{});
    case two_kernels:
      return use(SplitInTwoKernels{});
    case row_exchange:
      return use(SplitWithExchange{});
  }
  throw std::logic_error("a kernel that is none");
}

}  // namespace

Refusal refusal(Backward kernel, const Matrix& matrix, const Gpu& gpu) {
  return with_launcher(
      kernel, [&](auto launcher) { return refusal_of<decltype(launcher), SoftmaxBackward>(matrix, gpu); });
}

Need need(Backward kernel, const Matrix& matrix) {
  return with_launcher(kernel, [&](auto launcher) { return need_of<decltype(launcher)>(matrix); });
}

template <class Op, class T>
void launch(Backward kernel, const Tensors<T>& tensors, cudaStream_t stream) {
  with_launcher(kernel, [&](auto launcher) { decltype(launcher)::template launch<Op>(tensors, stream); });
}

template void launch<SoftmaxBackward>(Backward, const Tensors<float>&, cudaStream_t);
template void launch<SoftmaxBackward>(Backward, const Tensors<__half>&, cudaStream_t);
template void launch<SoftmaxBackward>(Backward, const Tensors<__nv_bfloat16>&, cudaStream_t);
template void launch<LogSoftmaxBackward>(Backward, const Tensors<float>&, cudaStream_t);
template void launch<LogSoftmaxBackward>(Backward, const Tensors<__half>&, cudaStream_t);
template void launch<LogSoftmaxBackward>(Backward, const Tensors<__nv_bfloat16>&, cudaStream_t);

}  // namespace rowwise
