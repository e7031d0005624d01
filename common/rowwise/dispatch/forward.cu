// Softmax and log-softmax: what the kernels of stages 03 to 10 can do, and their launches.
#include "03_warp_reduce/warp_reduce.cuh"
#include "06_online/online.cuh"
#include "07_split_row/row_exchange.cuh"
#include "08_unaligned_rows/flat_span.cuh"
#include "08_unaligned_rows/head_and_tail.cuh"
#include "08_unaligned_rows/row_in_flight.cuh"
#include "10_cluster/cluster_registers.cuh"
#include "10_cluster/cluster_row.cuh"
#include "10_cluster/tickets.cuh"
#include "10_cluster/unaligned_cluster.cuh"
#include "common/rowwise/dispatch/cluster_limits.cuh"
#include "common/rowwise/dispatch/launch.cuh"

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

using Exchange = RowExchange<SplitBy::rows_and_cols>;
using Online = OnlineSoftmax<Rescale::per_chunk, Direction::forward>;

/// A pack for each lane of a warp in each block, and no more than shared memory holds.
template <class Launcher>
bool on_cluster(const Matrix& matrix, const Gpu& gpu) {
  return matrix.in_packs() && matrix.row_bytes() >= Launcher::cluster_size * 32 * 16 &&
         fits_cluster<Launcher>(matrix, gpu, static_cast<std::size_t>(matrix.element_bytes));
}

/// The largest cluster of blocks that fill an SM.
int most_blocks_of_cluster_on(int shared_bytes) {
  const auto kernel = cluster_row_softmax<Softmax, float, 16>;
  cudaFuncAttributes attributes{};
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  if (attributes.ptxVersion < 90) return 0;  // compiled for older GPUs, it is empty on a newer one, too
  for (int size = most_blocks_of_cluster; size > 1; size /= 2) {
    const RowOnCluster row{.cluster_size = size,
                           .part_packs = 16 * 1024,
                           .packs_per_thread = 16,
                           .shared_bytes = shared_bytes - static_cast<int>(most_static_bytes)};
    if (clusters_at_once(kernel, row) > 0) return size;
  }
  return 0;
}

}  // namespace

const Gpu& current_gpu() {
  thread_local Gpu gpu;
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  if (device == gpu.device) return gpu;
  const int shared_bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  gpu.multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  gpu.shared_bytes = shared_bytes;
  gpu.most_blocks_of_cluster =
      device_attribute(cudaDevAttrComputeCapabilityMajor) < 9 ? 0 : most_blocks_of_cluster_on(shared_bytes);
  gpu.device = device;  // last: of a device that has failed nothing is known
  return gpu;
}

bool can_do(Forward kernel, const Matrix& matrix, const Gpu& gpu) {
  using enum Forward;
  switch (kernel) {
    case two_or_three_packs:
      return matrix.in_packs() && matrix.row_bytes() <= 3 * 32 * 16;
    case two_rows_evict_last:
      return matrix.in_packs() && matrix.row_bytes() <= 32 * 16;  // a pack for each lane of a warp
    case padded_packs:
      return matrix.cols <= max_warp_reduce_cols;
    case fused:
      return matrix.in_packs() && matrix.cols <= widest_tile.cols();
    case online:
      return true;
    case row_exchange:
      return matrix.cols <= Exchange::max_cols();
    case head_and_tail:
      return matrix.cols <= most_cols_in_registers;
    case flat_span:
      return matrix.cols <= most_cols_of_span_in(gpu.shared_bytes, matrix.element_bytes);
    case row_in_flight:
      return matrix.cols <= 1 << 30;
    case cluster_2:
      return on_cluster<ClusterRow<2>>(matrix, gpu);
    case cluster_4:
      return on_cluster<ClusterRow<4>>(matrix, gpu);
    case cluster_16:
      return on_cluster<ClusterRow<16>>(matrix, gpu);
    case registers:
      return matrix.row_bytes() <= ClusterRegisters::most_row_bytes &&
             on_cluster<ClusterRegisters>(matrix, gpu);
    case tickets:
      return on_cluster<Tickets>(matrix, gpu);
    case unaligned_cluster:
      return fits_cluster<UnalignedClusterRow>(matrix, gpu, static_cast<std::size_t>(matrix.element_bytes));
  }
  return false;
}

Need need(Forward kernel, const Matrix& matrix) {
  using enum Forward;
  switch (kernel) {
    case row_exchange:
      return {.bytes = Exchange::workspace_bytes({matrix.rows, matrix.cols})};
    case tickets:
      return {.bytes = sizeof(TicketCounter), .clusters = true};
    case cluster_2:
    case cluster_4:
    case cluster_16:
    case registers:
    case unaligned_cluster:
      return {.clusters = true};
    default:
      return {};
  }
}

template <class Op, class T>
void launch(Forward kernel, const T* x, T* y, void* workspace, Shape shape, cudaStream_t stream) {
  using enum Forward;
  const DirectLoad load{x, shape.cols};
  const auto hinted_packs = [&] { return HintedPacksLoad<T>{{{load}}, policy_of_reads<T>(2, shape)}; };
  const DirectStore store{y, shape.cols};
  switch (kernel) {
    case two_or_three_packs:
      return TwoOrThreePacks::launch<Op>(hinted_packs(), store, shape, stream);
    case two_rows_evict_last:
      return NarrowGroups<1, 2>::launch<Op>(OfPacks<EvictLastLoad<T>>{{load}}, store, shape, stream);
    case padded_packs:
      return Packs<true>::launch<Op>(load, store, shape, stream);
    case fused:
      return FusedRegisterSoftmax::launch<Op>(hinted_packs(), store, shape, stream);
    case online:
      return Online::launch<Op>(load, store, shape, stream);
    case row_exchange:
      return Exchange::launch<Op>(load, store, workspace, shape, stream);
    case head_and_tail:
      return HeadAndTail::launch<Op>(x, y, shape, stream);
    case flat_span:
      return FlatSpan::launch<Op>(x, y, shape, stream);
    case row_in_flight:
      return RowInFlight::launch<Op>(x, y, shape, stream);
    case cluster_2:
      return ClusterRow<2>::launch<Op>(x, y, shape, stream);
    case cluster_4:
      return ClusterRow<4>::launch<Op>(x, y, shape, stream);
    case cluster_16:
      return ClusterRow<16>::launch<Op>(x, y, shape, stream);
    case registers:
      return ClusterRegisters::launch<Op>(x, y, shape, stream);
    case tickets:
      return Tickets::launch<Op>(x, y, workspace, shape, stream);
    case unaligned_cluster:
      return UnalignedClusterRow::launch<Op>(x, y, shape, stream);
  }
}

template void launch<Softmax>(Forward, const float*, float*, void*, Shape, cudaStream_t);
template void launch<Softmax>(Forward, const __half*, __half*, void*, Shape, cudaStream_t);
template void launch<Softmax>(Forward, const __nv_bfloat16*, __nv_bfloat16*, void*, Shape, cudaStream_t);
template void launch<LogSoftmax>(Forward, const float*, float*, void*, Shape, cudaStream_t);
template void launch<LogSoftmax>(Forward, const __half*, __half*, void*, Shape, cudaStream_t);
template void launch<LogSoftmax>(Forward, const __nv_bfloat16*, __nv_bfloat16*, void*, Shape, cudaStream_t);

}  // namespace rowwise
