// Softmax and log-softmax: the launchers of the kernels, most of them of stages 03 to 10.
#include <stdexcept>

#include "common/rowwise/dispatch/launch.cuh"
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

/// Of rows that are known to be made of whole packs: no kernels for single elements.
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

namespace {

/// A launcher's kernels for rows of whole packs alone, of which there is no kernel for single elements.
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

/// Calls use() with the launcher of the kernel.
template <class Use>
auto with_launcher(Forward kernel, Use use) {
  using enum Forward;
  switch (kernel) {
    case two_or_three_packs:
      return use(Hinted<TwoOrThreePacks>{});
    case two_rows_evict_last:
      return use(EvictLast<NarrowGroups<1, 2>>{});
    case padded_packs:
      return use(FromXToY<Packs<true>>{});
    case fused:
      return use(Hinted<FusedRegisterSoftmax>{});
    case online:
      return use(FromXToY<OnlineSoftmax<Rescale::per_chunk, Direction::forward>>{});
    case row_exchange:
      return use(FromXToY<RowExchange<SplitBy::rows_and_cols>>{});
    case head_and_tail:
      return use(HeadAndTail{});
    case flat_span:
      return use(FlatSpan{});
    case row_in_flight:
      return use(RowInFlight{});
    case cluster_2:
      return use(ClusterRow<2>{});
    case cluster_4:
      return use(ClusterRow<4>{});
    case cluster_16:
      return use(ClusterRow<16>{});
    case registers:
      return use(ClusterRegisters{});
    case tickets:
      return use(Tickets{});
    case unaligned_cluster:
      return use(UnalignedClusterRow{});
  }
  throw std::logic_error("a kernel that is none");
}

}  // namespace

Refusal refusal(Forward kernel, const Matrix& matrix, const Gpu& gpu) {
  return with_launcher(kernel,
                       [&](auto launcher) { return refusal_of<decltype(launcher), Softmax>(matrix, gpu); });
}

Need need(Forward kernel, const Matrix& matrix) {
  return with_launcher(kernel, [&](auto launcher) { return need_of<decltype(launcher)>(matrix); });
}

template <class Op, class T>
void launch(Forward kernel, const Tensors<T>& tensors, cudaStream_t stream) {
  with_launcher(kernel, [&](auto launcher) { decltype(launcher)::template launch<Op>(tensors, stream); });
}

template void launch<Softmax>(Forward, const Tensors<float>&, cudaStream_t);
template void launch<Softmax>(Forward, const Tensors<__half>&, cudaStream_t);
template void launch<Softmax>(Forward, const Tensors<__nv_bfloat16>&, cudaStream_t);
template void launch<LogSoftmax>(Forward, const Tensors<float>&, cudaStream_t);
template void launch<LogSoftmax>(Forward, const Tensors<__half>&, cudaStream_t);
template void launch<LogSoftmax>(Forward, const Tensors<__nv_bfloat16>&, cudaStream_t);

}  // namespace rowwise
