// Softmax and log-softmax: the launchers of the kernels, whose ideas are those of stages 03 to 10.
#include "common/rowwise/dispatch/launchers.cuh"
#include "common/rowwise/kernels/forward/cluster_registers.cuh"
#include "common/rowwise/kernels/forward/cluster_row.cuh"
#include "common/rowwise/kernels/forward/flat_span.cuh"
#include "common/rowwise/kernels/forward/head_and_tail.cuh"
#include "common/rowwise/kernels/forward/online.cuh"
#include "common/rowwise/kernels/forward/row_exchange.cuh"
#include "common/rowwise/kernels/forward/row_in_flight.cuh"
#include "common/rowwise/kernels/forward/tickets.cuh"
#include "common/rowwise/kernels/forward/unaligned_cluster.cuh"
#include "common/rowwise/kernels/forward/warp_reduce.cuh"

namespace rowwise {

/// For rows that are known to consist of whole packs: no kernels for single elements are compiled.
template <class Load>
struct OfPacks : Load {
  static constexpr bool of_whole_packs = true;
};
template <class T>
struct HintedPacksLoad : OfPacks<DirectLoad<T>> {
  L2Policy reads;

  template <int N>
  __device__ Pack<T, N> fetch(std::int64_t row, std::int64_t col) const {
    return load_pack<N>(with_policy(this->x, reads) + row * this->cols + col);
  }
};

/// A launcher's kernels only for rows of whole packs, without a kernel for single elements.
template <class Launcher>
struct OnPacks {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (const Refusal refusal = in_whole_packs(matrix)) return refusal;
    return Launcher::refuses(matrix, gpu);
  }
};
/// Reads with a hint for the L2 if the matrices are large.
template <class Launcher>
struct Hinted : OnPacks<Launcher> {
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const auto& shape = tensors.shape;
    const HintedPacksLoad<T> load{{{tensors.x, shape.cols}}, policy_of_reads<T>(2, shape)};
    Launcher::template launch<Op>(load, DirectStore<T>{tensors.y, shape.cols}, shape, stream);
  }
};
/// Reads with the hint in any case.
template <class Launcher>
struct EvictLast : OnPacks<Launcher> {
  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    const auto& shape = tensors.shape;
    const OfPacks<EvictLastLoad<T>> load{{{tensors.x, shape.cols}}};
    Launcher::template launch<Op>(load, DirectStore<T>{tensors.y, shape.cols}, shape, stream);
  }
};

Hinted<TwoOrThreePacks> launcher_of(Is<Forward::two_or_three_packs>);
EvictLast<NarrowGroups> launcher_of(Is<Forward::two_rows_evict_last>);
FromXToY<PaddedPacks> launcher_of(Is<Forward::padded_packs>);
Hinted<FusedRegisterSoftmax> launcher_of(Is<Forward::fused>);
FromXToY<OnlineSoftmax> launcher_of(Is<Forward::online>);
FromXToY<RowExchange> launcher_of(Is<Forward::row_exchange>);
HeadAndTail launcher_of(Is<Forward::head_and_tail>);
FlatSpan launcher_of(Is<Forward::flat_span>);
RowInFlight launcher_of(Is<Forward::row_in_flight>);
ClusterRow<2> launcher_of(Is<Forward::cluster_2>);
ClusterRow<4> launcher_of(Is<Forward::cluster_4>);
ClusterRow<16> launcher_of(Is<Forward::cluster_16>);
ClusterRegisters launcher_of(Is<Forward::registers>);
Tickets launcher_of(Is<Forward::tickets>);
UnalignedClusterRow launcher_of(Is<Forward::unaligned_cluster>);

ROWWISE_COMPILE(Forward)
ROWWISE_COMPILE_LAUNCH(Forward, Softmax)
ROWWISE_COMPILE_LAUNCH(Forward, LogSoftmax)

}  // namespace rowwise
