// Copies that go on by themselves, barriers in shared memory, clusters, kernels that begin early: right, and each with
// its usual mistake.
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cuda/barrier>
#include <cuda/ptx>
#include <numeric>
#include <string>
#include <vector>

#include "common/sim/tests/cuda_check.h"
#include "common/sim/tests/expect_fault.cuh"

namespace {

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

constexpr int threads = 64;
constexpr int n = 4 * threads;  // floats: a pack of 16 bytes per thread

// ---- cp.async

/// Each thread uses the pack that it has fetched itself: it needs a wait, but no barrier.
template <bool bug>
__global__ void own_packs(const float4* x, float4* y) {
  __shared__ float4 s[threads];
  __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], sizeof(float4));
  __pipeline_commit();
  if (!bug) __pipeline_wait_prior(0);
  y[threadIdx.x] = s[threadIdx.x];
}
template <bool bug>
__global__ void packs_of_others(const float4* x, float4* y) {
  __shared__ float4 s[threads];
  __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], sizeof(float4));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  if (!bug) __syncthreads();
  y[threadIdx.x] = s[threads - 1 - threadIdx.x];
}
/// The next is fetched while this one is used: of two groups one may still be on its way.
template <bool bug>
__global__ void double_buffer(const float* x, float* y) {
  __shared__ float s[2][threads];
  __pipeline_memcpy_async(&s[0][threadIdx.x], &x[threadIdx.x], sizeof(float));
  __pipeline_commit();
  for (int i = 0; i < 4; ++i) {
    if (i < 3)
      __pipeline_memcpy_async(&s[(i + 1) % 2][threadIdx.x], &x[(i + 1) * threads + threadIdx.x],
                              sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(bug ? 2 : 1);
    y[i * threads + threadIdx.x] = s[i % 2][threadIdx.x];
  }
}
/// Bytes that are not read become zero.
__global__ void zero_fill(const float4* x, float4* y) {
  __shared__ float4 s[threads];
  __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], sizeof(float4), threadIdx.x % 2 == 0 ? 0 : 8);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  y[threadIdx.x] = s[threadIdx.x];
}
template <bool bug>
__global__ void overwrites_what_is_read(const float* x, float* y) {
  __shared__ float s[threads];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threads - 1 - threadIdx.x];
  if (!bug) __syncthreads();
  __pipeline_memcpy_async(&s[threadIdx.x], &x[threads + threadIdx.x], sizeof(float));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  y[threads + threadIdx.x] = s[threadIdx.x];
}

// ---- Bulk copies

enum class Bulk { right, no_wait, no_fence_after_init, no_barrier_after_init, too_few_bytes };

template <Bulk bulk>
__global__ void bulk_load(const float* x, float* y) {
  __shared__ alignas(128) float s[n];
  __shared__ std::uint64_t arrived;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&arrived, 1);
    if (bulk != Bulk::no_fence_after_init) ptx::fence_proxy_async(ptx::space_shared);
  }
  if (bulk != Bulk::no_barrier_after_init) __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x, sizeof s, &arrived);
    const std::uint32_t bytes = bulk == Bulk::too_few_bytes ? sizeof s + 16 : sizeof s;
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &arrived, bytes);
  }
  if (bulk != Bulk::no_wait) {
    while (!ptx::mbarrier_try_wait_parity(&arrived, 0)) {
    }
  }
  for (int i = 0; i < 4; ++i) y[i * threads + threadIdx.x] = s[n - 1 - (i * threads + threadIdx.x)];
}

enum class Store { right, no_proxy_fence, overwrites, odd_size };

template <Store store>
__global__ void bulk_store(float* y) {
  __shared__ alignas(128) float s[n];
  for (int i = 0; i < 4; ++i) s[i * threads + threadIdx.x] = i * threads + threadIdx.x;
  if (store != Store::no_proxy_fence) ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y, s, store == Store::odd_size ? 8 : sizeof s);
    ptx::cp_async_bulk_commit_group();
    if (store != Store::overwrites) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
  }
  __syncthreads();
  s[threadIdx.x] = -1;
}

// As libcu++ says to do for its barriers in shared memory.
#pragma nv_diag_suppress static_var_with_dynamic_init

/// libcu++'s barrier, as a barrier of the block that is not __syncthreads.
template <bool bug>
__global__ void barrier_of_libcuxx(float* y) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ float s[threads];
  if (threadIdx.x == 0) init(&barrier, threads);
  __syncthreads();
  for (int round = 0; round < 3; ++round) {
    s[threadIdx.x] = threadIdx.x + round;
    barrier.arrive_and_wait();
    y[threadIdx.x] = s[threads - 1 - threadIdx.x];
    if (!bug) barrier.arrive_and_wait();
  }
}

// ---- Clusters

enum class Clustered { right, not_started, returns_early, no_barrier_between };

template <Clustered way>
__global__ void cluster_sum(const float* x, float* y) {
  __shared__ float own;
  const auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) own = x[blockIdx.x];
  if (way == Clustered::right || way == Clustered::returns_early) cluster.sync();
  if (way == Clustered::no_barrier_between) {
    cluster.sync();
    if (threadIdx.x == 0) own = x[blockIdx.x] + 1;
  }
  if (threadIdx.x == 0) {
    float sum = 0;
    for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) sum += *cluster.map_shared_rank(&own, rank);
    y[blockIdx.x] = sum;
  }
  if (way != Clustered::returns_early) cluster.sync();
}
/// A block reads the value that the next has written, in enough rounds that all they know of each other is put together
/// now and then. The mistake is in the last round.
template <bool bug>
__global__ void many_rounds(const float* x, float* y) {
  constexpr int rounds = 60;
  __shared__ float own;
  const auto cluster = cg::this_cluster();
  float sum = 0;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) own = x[blockIdx.x];
    if (!bug || round < rounds - 1) cluster.sync();
    const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    if (threadIdx.x == 0) sum += *cluster.map_shared_rank(&own, next);
    cluster.sync();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = sum / rounds;
}
__global__ void __cluster_dims__(2, 1, 1) compiled_for_two(unsigned* y) {
  const auto cluster = cg::this_cluster();
  if (threadIdx.x == 0)
    y[blockIdx.x] = 100 * cluster.num_blocks() + 10 * cluster.block_rank() + cluster.block_index().x;
}
/// One block fetches for all of the cluster.
__global__ void multicast(const float* x, float* y) {
  __shared__ alignas(128) float s[n];
  __shared__ std::uint64_t arrived;
  const auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&arrived, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &arrived, sizeof s);
  }
  cluster.sync();
  if (threadIdx.x == 0 && cluster.block_rank() == 0) {
    asm volatile(  // libcu++ has it for the architectures alone on which it is fast
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], "
        "%2, [%3], %4;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(s))),
        "l"(__cvta_generic_to_global(x)), "r"(static_cast<unsigned>(sizeof s)),
        "r"(static_cast<unsigned>(__cvta_generic_to_shared(&arrived))), "h"(std::uint16_t{3})
        : "memory");
  }
  while (!ptx::mbarrier_try_wait_parity(&arrived, 0)) {
  }
  y[blockIdx.x * threads + threadIdx.x] = s[threadIdx.x];
  cluster.sync();
}

// ---- Kernels that begin before the one before has ended

__global__ void first_kernel(float* x) {
  asm volatile("griddepcontrol.launch_dependents;");
  x[threadIdx.x] = threadIdx.x;
}
template <bool bug>
__global__ void second_kernel(const float* x, float* y) {
  if (!bug) asm volatile("griddepcontrol.wait;" ::: "memory");
  y[threadIdx.x] = x[threadIdx.x];
}

/// Each block sends a value and a sum to the other one of its cluster, whose barrier waits for the bytes.
template <bool bug>
__global__ void sends(const float* x, float* y) {
  __shared__ __align__(16) float received[4];
  __shared__ unsigned sum;
  __shared__ std::uint64_t arrived;
  const auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    sum = 0;
    ptx::mbarrier_init(&arrived, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    (void)ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &arrived,
                                         sizeof received + 8 * sizeof sum);
  }
  cluster.sync();
  const unsigned other = 1 - cluster.block_rank();
  const auto address = [&](const void* own) {
    unsigned mapped = 0;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(mapped)
        : "r"(static_cast<unsigned>(__cvta_generic_to_shared(own))), "r"(other));
    return mapped;
  };
  if (threadIdx.x == 0) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::
            "r"(address(received)),
        "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3] + cluster.block_rank()), "r"(address(&arrived))
        : "memory");
  }
  if (threadIdx.x < 8) {
    asm volatile(
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::
            "r"(address(&sum)),
        "r"(threadIdx.x), "r"(address(&arrived))
        : "memory");
  }
  if (!bug) {
    while (!ptx::mbarrier_try_wait_parity(&arrived, 0)) {
    }
  }
  if (threadIdx.x == 0) y[blockIdx.x] = received[0] + received[3] + static_cast<float>(sum);
  cluster.sync();
}

/// The blocks of a cluster send each other a number again and again, to two places by turns. `bug`: to one place, which the other
/// one may not have read yet.
template <bool bug>
__global__ void sends_by_turns(float* y) {
  __shared__ __align__(8) unsigned received[2];
  __shared__ std::uint64_t arrived[2];
  const auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    for (std::uint64_t& one : arrived) ptx::mbarrier_init(&one, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  cluster.sync();
  const unsigned other = 1 - cluster.block_rank();
  unsigned sum = 0;
  for (unsigned round = 0; round < 6; ++round) {
    const unsigned turn = round % 2;
    unsigned* const place = &received[bug ? 0 : turn];
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &arrived[turn],
                                     sizeof *place);
      ptx::st_async(cluster.map_shared_rank(place, other), round,
                    cluster.map_shared_rank(&arrived[turn], other));
    }
    while (
        !ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrived[turn], round / 2 % 2)) {
    }
    sum += *place;
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = static_cast<float>(sum);
}

enum class Wait { right, no_fence, block_scope };

/// All warps wait for the bytes, after a cluster barrier that makes known only the writes that the fence before it names.
template <Wait wait>
__global__ void waits_in_all_warps(const float* x, float* y) {
  __shared__ float received;
  __shared__ std::uint64_t arrived;
  const auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&arrived, 1);
    if (wait != Wait::no_fence) ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    (void)ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &arrived,
                                         sizeof received);
  }
  ptx::barrier_cluster_arrive(ptx::sem_relaxed);
  ptx::barrier_cluster_wait();
  const unsigned other = 1 - cluster.block_rank();
  if (threadIdx.x == 0) {
    ptx::st_async(cluster.map_shared_rank(&received, other), x[0] + 4,
                  cluster.map_shared_rank(&arrived, other));
  }
  const auto has_arrived = [] {
    if constexpr (wait == Wait::block_scope) {
      return ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cta, &arrived, 0);
    } else {
      return ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrived, 0);
    }
  };
  while (!has_arrived()) {
  }
  if (threadIdx.x == threads - 1) y[blockIdx.x] = received;
}

/// As waits_in_all_warps, and each block's own warps know of its barrier. `bug`: the other block does not.
template <bool bug>
__global__ void sends_to_a_barrier(float* y) {
  __shared__ float received;
  __shared__ std::uint64_t arrived;
  const auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&arrived, 1);
    if (!bug) ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    (void)ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &arrived,
                                         sizeof received);
  }
  ptx::barrier_cluster_arrive(ptx::sem_relaxed);
  __syncthreads();
  ptx::barrier_cluster_wait();
  const unsigned other = 1 - cluster.block_rank();
  if (threadIdx.x == 0) {
    ptx::st_async(cluster.map_shared_rank(&received, other), 4.0F, cluster.map_shared_rank(&arrived, other));
  }
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrived, 0)) {
  }
  if (threadIdx.x == threads - 1) y[blockIdx.x] = received;
}

/// Block 1 writes into the shared memory of block 0 and arrives at its barrier. `bug`: it releases its writes to its own block.
template <bool bug>
__global__ void arrives_elsewhere(float* y) {
  __shared__ float received;
  __shared__ std::uint64_t arrived;
  const auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&arrived, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  cluster.sync();
  if (cluster.block_rank() == 1 && threadIdx.x == 0) {
    *cluster.map_shared_rank(&received, 0) = 3;
    std::uint64_t* const there = cluster.map_shared_rank(&arrived, 0);
    if constexpr (bug) {
      asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(
                       static_cast<unsigned>(__cvta_generic_to_shared(there)))
                   : "memory");
    } else {
      ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, there);
    }
  }
  if (cluster.block_rank() == 0) {
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrived, 0)) {
    }
    y[threadIdx.x] = received;
  }
  cluster.sync();
}

cudaLaunchAttribute cluster_of(unsigned blocks) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = blocks;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  return attribute;
}
cudaLaunchAttribute early() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}
template <class... Parameters, class... Arguments>
void launch_with(cudaLaunchAttribute attribute, unsigned blocks, void (*kernel)(Parameters...),
                 Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.attrs = &attribute;
  config.numAttrs = 1;
  (void)cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// How often n floats are read from and written to global memory, and by how many requests.
template <class Launch>
void expect_one_pass(const Simulator& simulator, const char* name, std::uint64_t load_requests,
                     std::uint64_t store_requests, Launch launch) {
  simulator.api().begin();
  launch();
  simulator.api().end();
  const SimCounters& counted = simulator.api().launch(0)->counters;
  constexpr std::uint64_t bytes = n * sizeof(float);
  const auto check = [&](const SimAccesses& accesses, std::uint64_t requests, const char* what) {
    const std::uint64_t once = requests == 0 ? 0 : 1;
    simulator.check(accesses.requests == requests && accesses.bytes == once * bytes &&
                        accesses.sectors == once * bytes / 32,
                    name,
                    what + std::to_string(accesses.requests) + " requests, " +
                        std::to_string(accesses.bytes) + " bytes, " + std::to_string(accesses.sectors) +
                        " sectors");
  };
  check(counted.global_loads, load_requests, "loads: ");
  check(counted.global_stores, store_requests, "stores: ");
}

}  // namespace

int main() {
  Simulator sim(__FILE__);
  const DeviceMemory memory_x = allocate_device(n * sizeof(float));
  const DeviceMemory memory_y = allocate_device(n * sizeof(float));
  auto* x = static_cast<float*>(memory_x.get());
  auto* y = static_cast<float*>(memory_y.get());
  auto* packs_x = reinterpret_cast<const float4*>(x);
  auto* packs_y = reinterpret_cast<float4*>(y);
  std::vector<float> host(n);
  sim.before_each = [&] {
    std::iota(host.begin(), host.end(), 0.0f);
    CUDA_CHECK(cudaMemcpy(x, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(y, 0, n * sizeof(float)));
  };
  /// Checks an element that the previous launch has written.
  const auto y_is = [&](float wanted, int at) {
    CUDA_CHECK(cudaMemcpy(host.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost));
    sim.check(host[at] == wanted, "    its result", std::to_string(host[at]));
  };
  const char* const on_its_way = "an asynchronous copy is on its way";
  sim.in_every_order([&](int seed) {
    sim.both("own_packs", on_its_way, [&](auto bug) { own_packs<bug><<<1, threads>>>(packs_x, packs_y); });
    y_is(77, 77);
    sim.both("packs_of_others", "a",
             [&](auto bug) { packs_of_others<bug><<<1, threads>>>(packs_x, packs_y); });
    y_is(252, 0);
    sim.both("double_buffer", on_its_way, [&](auto bug) { double_buffer<bug><<<1, threads>>>(x, y); });
    y_is(200, 200);
    sim.right("zero_fill", [&] { zero_fill<<<1, threads>>>(packs_x, packs_y); });
    y_is(5, 5);
    y_is(0, 6);
    // A race; or, if the other warp has not waited for its copies yet, a read of the bytes that they write.
    sim.both("overwrites_what_is_read", "4 bytes of shared memory at byte",
             [&](auto bug) { overwrites_what_is_read<bug><<<1, threads>>>(x, y); });
    y_is(64, 64);
    sim.wrong("bulk_load, no_wait", "a", [&] { bulk_load<Bulk::no_wait><<<1, threads>>>(x, y); });
    sim.wrong("bulk_load, no_fence_after_init", "initialised without a fence.proxy.async",
              [&] { bulk_load<Bulk::no_fence_after_init><<<1, threads>>>(x, y); });
    sim.wrong("bulk_load, no_barrier_after_init", "a",
              [&] { bulk_load<Bulk::no_barrier_after_init><<<1, threads>>>(x, y); });
    if (seed % 10 == 0) {
      sim.wrong("bulk_load, too_few_bytes", "waits for ever",
                [&] { bulk_load<Bulk::too_few_bytes><<<1, threads>>>(x, y); });
    }
    sim.right("bulk_load, right", [&] { bulk_load<Bulk::right><<<1, threads>>>(x, y); });
    y_is(255, 0);
    sim.wrong("bulk_store, no_proxy_fence", "without a fence.proxy.async",
              [&] { bulk_store<Store::no_proxy_fence><<<1, threads>>>(y); });
    sim.wrong("bulk_store, overwrites", "which a bulk copy may still be reading",
              [&] { bulk_store<Store::overwrites><<<1, threads>>>(y); });
    sim.right("bulk_store, right", [&] { bulk_store<Store::right><<<1, threads>>>(y); });
    y_is(255, 255);
    sim.both("barrier_of_libcuxx", "race", [&](auto bug) { barrier_of_libcuxx<bug><<<1, threads>>>(y); });
    y_is(65, 0);
    const auto sum_in_cluster = [&](auto* kernel) { launch_with(cluster_of(4), 8, kernel, x, y); };
    sim.wrong("cluster_sum, not_started", "need not have started",
              [&] { sum_in_cluster(cluster_sum<Clustered::not_started>); });
    sim.wrong("cluster_sum, returns_early", "cluster",
              [&] { sum_in_cluster(cluster_sum<Clustered::returns_early>); });
    sim.wrong("cluster_sum, no_barrier_between", "nothing orders the two blocks",
              [&] { sum_in_cluster(cluster_sum<Clustered::no_barrier_between>); });
    sim.right("cluster_sum, right", [&] { sum_in_cluster(cluster_sum<Clustered::right>); });
    y_is(6, 3);
    sim.both("many_rounds", "nothing orders the two blocks",
             [&](auto bug) { sum_in_cluster(many_rounds<bug>); });
    y_is(0, 3);
    sim.both("sends", "of shared memory at byte 0",
             [&](auto bug) { launch_with(cluster_of(2), 2, sends<bug>, x, y); });
    y_is(31, 1);
    sim.wrong("waits_in_all_warps, no_fence",
              "race: ", [&] { launch_with(cluster_of(2), 2, waits_in_all_warps<Wait::no_fence>, x, y); });
    sim.wrong("waits_in_all_warps, block_scope", "a wait of block scope",
              [&] { launch_with(cluster_of(2), 2, waits_in_all_warps<Wait::block_scope>, x, y); });
    if (seed == 0) {  // in other orders, later accesses to the barrier may hide it
      sim.both("sends_to_a_barrier", "whose mbarrier another thread initialised",
               [&](auto bug) { launch_with(cluster_of(2), 2, sends_to_a_barrier<bug>, y); });
    }
    sim.both("arrives_elsewhere", "which does not reach so far",
             [&](auto bug) { launch_with(cluster_of(2), 2, arrives_elsewhere<bug>, y); });
    sim.right("waits_in_all_warps, right",
              [&] { launch_with(cluster_of(2), 2, waits_in_all_warps<Wait::right>, x, y); });
    y_is(4, 1);
    sim.both("sends_by_turns", "a", [&](auto bug) { launch_with(cluster_of(2), 2, sends_by_turns<bug>, y); });
    y_is(15, 1);
    sim.right("multicast", [&] { launch_with(cluster_of(2), 2, multicast, x, y); });
    y_is(5, 64 + 5);
    sim.both("second_kernel", "griddepcontrol.wait is missing", [&](auto bug) {
      first_kernel<<<1, threads>>>(x);
      launch_with(early(), 1, second_kernel<bug>, x, y);
    });
    y_is(9, 9);
  });
  sim.before_each();
  if (!sim.on_gpu()) {
    constexpr int warps = threads / 32;
    expect_one_pass(sim, "cp.async, counted", warps, warps,
                    [&] { own_packs<false><<<1, threads>>>(packs_x, packs_y); });
    const SimAccesses& stores = sim.api().launch(0)->counters.shared_stores;
    sim.check(stores.requests == warps && stores.wavefronts == 4 * warps && stores.bank_conflicts == 0,
              "    its stores", std::to_string(stores.requests) + " requests");
    const std::uint64_t copied = sim.api().launch(0)->counters.async_copy_bytes;
    sim.check(copied == n * sizeof(float), "    its copies", std::to_string(copied) + " bytes");
    expect_one_pass(sim, "cp.async of 4 bytes, counted", 4 * warps, 4 * warps,
                    [&] { double_buffer<false><<<1, threads>>>(x, y); });
    expect_one_pass(sim, "a bulk load, counted", 1, 4 * warps,
                    [&] { bulk_load<Bulk::right><<<1, threads>>>(x, y); });
    const SimCounters& loaded = sim.api().launch(0)->counters;
    sim.check(loaded.shared_loads.requests == 4 * warps && loaded.shared_stores.requests == 0,
              "    its mbarrier is none of its accesses",
              std::to_string(loaded.shared_loads.requests) + " loads, " +
                  std::to_string(loaded.shared_stores.requests) + " stores");
    expect_one_pass(sim, "a bulk store, counted", 0, 1, [&] { bulk_store<Store::right><<<1, threads>>>(y); });
    sim.api().begin();
    zero_fill<<<1, threads>>>(packs_x, packs_y);
    sim.api().end();
    const SimAccesses& loads = sim.api().launch(0)->counters.global_loads;
    // nvcc makes two instructions of it: half of the threads read 16 bytes, the others 8.
    sim.check(
        loads.requests == 2 * warps && loads.bytes == threads / 2 * (16 + 8) && loads.sectors == threads,
        "zero_fill, counted",
        std::to_string(loads.requests) + " requests, " + std::to_string(loads.bytes) + " bytes, " +
            std::to_string(loads.sectors) + " sectors");
  }
  sim.expect("bulk_store, odd_size", cudaErrorMisalignedAddress, "no multiple of 16",
             [&] { bulk_store<Store::odd_size><<<1, threads>>>(y); });
  compiled_for_two<<<4, threads>>>(reinterpret_cast<unsigned*>(y));
  unsigned ranks[4] = {};
  CUDA_CHECK(cudaMemcpy(ranks, y, sizeof ranks, cudaMemcpyDeviceToHost));
  sim.check(ranks[0] == 200 && ranks[1] == 211 && ranks[2] == 200 && ranks[3] == 211, "compiled_for_two",
            std::to_string(ranks[1]));
  sim.expect("a grid that is no multiple of its cluster", cudaErrorInvalidClusterSize, "",
             [&] { compiled_for_two<<<3, threads>>>(reinterpret_cast<unsigned*>(y)); });
  sim.expect("a cluster of 16", cudaErrorInvalidClusterSize, "",
             [&] { launch_with(cluster_of(16), 16, cluster_sum<Clustered::right>, x, y); });
  CUDA_CHECK(
      cudaFuncSetAttribute(cluster_sum<Clustered::right>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  sim.right("a cluster of 16, asked for",
            [&] { launch_with(cluster_of(16), 16, cluster_sum<Clustered::right>, x, y); });
  y_is(120, 0);
  return sim.result();
}
