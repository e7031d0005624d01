// The gradients of softmax and log-softmax: the launchers of the kernels, whose idea is that of stage 11.
#include "common/rowwise/dispatch/launchers.cuh"
#include "common/rowwise/kernels/backward/exchange_gradient.cuh"
#include "common/rowwise/kernels/backward/flat_span.cuh"
#include "common/rowwise/kernels/backward/head_and_tail.cuh"
#include "common/rowwise/kernels/backward/in_cluster.cuh"
#include "common/rowwise/kernels/backward/in_registers.cuh"
#include "common/rowwise/kernels/backward/in_shared_memory.cuh"
#include "common/rowwise/kernels/backward/split_gradient.cuh"
#include "common/rowwise/kernels/backward/unaligned.cuh"

namespace rowwise {

/// Otherwise it goes through shared memory, as `unaligned`.
struct HeadAndTailOfAlike : HeadAndTailOfTwoRows {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    return matrix.lie_alike ? HeadAndTailOfTwoRows::refuses(matrix, gpu) : Refusal{Why::other_places};
  }
};

WarpRegisters launcher_of(Is<Backward::warp_registers>);
BlockRegisters launcher_of(Is<Backward::block_registers>);
SharedMemory launcher_of(Is<Backward::shared_memory>);
Cluster launcher_of(Is<Backward::cluster>);
HeadAndTailOfAlike launcher_of(Is<Backward::head_and_tail>);
SpanOfTwoRows launcher_of(Is<Backward::flat_span>);
Unaligned launcher_of(Is<Backward::unaligned>);
UnalignedCluster launcher_of(Is<Backward::unaligned_cluster>);
SplitInTwoKernels launcher_of(Is<Backward::two_kernels>);
SplitWithExchange launcher_of(Is<Backward::row_exchange>);

ROWWISE_COMPILE(Backward)
ROWWISE_COMPILE_LAUNCH(Backward, SoftmaxBackward)
ROWWISE_COMPILE_LAUNCH(Backward, LogSoftmaxBackward)

}  // namespace rowwise
