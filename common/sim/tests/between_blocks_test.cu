// Blocks that work together: correct kernels, in whatever order the blocks run, and mistakes.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cuda/atomic>
#include <numeric>
#include <vector>

#include "common/sim/tests/cuda_check.h"
#include "common/sim/tests/expect_fault.cuh"

namespace {

constexpr int threads = 64;
constexpr int blocks = 8;

// ---- The last block adds up the values that all have written (as in NVIDIA's sample threadFenceReduction).

template <bool bug>
__global__ void last_block_sums(const float* x, float* partial, unsigned* ticket, float* sum) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = x[blockIdx.x];
    if (!bug) __threadfence();
    is_last = atomicAdd(ticket, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  float total = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) total += partial[block];
  *sum = total;
  *ticket = 0;
}

// ---- Each block waits for the next one, which has not started when it begins to wait.

template <bool bug>
__global__ void waits_for_the_next(float* data, volatile int* flag, float* y) {
  if (threadIdx.x == 0) {
    data[blockIdx.x] = blockIdx.x;
    if (!bug) __threadfence();
    flag[blockIdx.x] = 1;
    const unsigned next = (blockIdx.x + 1) % gridDim.x;
    while (flag[next] == 0) {
    }
    __threadfence();
    y[blockIdx.x] = data[next];
  }
}

/// The same in the words of libcu++.
template <bool bug>
__global__ void releases(float* data, int* flag, float* y) {
  using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 7;
    Flag(*flag).store(1, bug ? cuda::memory_order_relaxed : cuda::memory_order_release);
  } else {
    while (Flag(*flag).load(cuda::memory_order_acquire) == 0) {
    }
    y[blockIdx.x] = data[0];
  }
}

/// As releases(). `bug`: the flag's scope, or the fence's, is the block alone.
template <bool bug>
__global__ void releases_so_far(float* data, int* flag, float* y) {
  using Flag = cuda::atomic_ref<int, bug ? cuda::thread_scope_block : cuda::thread_scope_device>;
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 7;
    Flag(*flag).store(1, cuda::memory_order_release);
  } else {
    while (cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).load(cuda::memory_order_acquire) == 0) {
    }
    y[blockIdx.x] = data[0];
  }
}
template <bool bug>
__global__ void acquires_from_so_far(float* data, int* flag, float* y) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 7;
    cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).store(1, cuda::memory_order_release);
  } else {
    while (cuda::atomic_ref < int,
           bug ? cuda::thread_scope_block
               : cuda::thread_scope_device > (*flag).load(cuda::memory_order_acquire) == 0) {
    }
    y[blockIdx.x] = data[0];
  }
}
template <bool bug>
__global__ void fences_so_far(float* data, int* flag, float* y) {
  using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 7;
    bug ? __threadfence_block() : __threadfence();
    Flag(*flag).store(1, cuda::memory_order_relaxed);
  } else {
    while (Flag(*flag).load(cuda::memory_order_relaxed) == 0) {
    }
    y[blockIdx.x] = data[0];
  }
}

/// All threads of the block have written and fenced before its barrier; then one of them says so. `bug`: the next time, no thread has
/// a fence.
template <bool bug>
__global__ void fenced_before_the_barrier(float* data, int* flag, float* y) {
  using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;
  for (int round = 0; round < 2; ++round) {
    if (blockIdx.x == 0) {
      data[round * threads + threadIdx.x] = 7;
      if (!bug || round == 0) __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) Flag(flag[round]).store(1, cuda::memory_order_relaxed);
    } else {
      while (Flag(flag[round]).load(cuda::memory_order_acquire) == 0) {
      }
      if (blockIdx.x == 1) y[threadIdx.x] = data[round * threads + threadIdx.x];
    }
    __syncthreads();
  }
}

/// All blocks add to one number.
template <bool bug>
__global__ void adds_so_far(int* sum) {
  bug ? atomicAdd_block(sum, 1) : atomicAdd(sum, 1);
}
/// One of them in its block's scope.
template <bool bug>
__global__ void adds_differently(int* sum) {
  bug&& blockIdx.x == 3 ? atomicAdd_block(sum, 1) : atomicAdd(sum, 1);
}

/// Block 0 learns of block 2's write; then it and block 1 learn from each other so often that all that they know is put
/// together now and then. In the end block 3 learns of it from block 0.
template <bool bug>
__global__ void learned_long_ago(float* data, int* flag, float* y) {
  using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;
  const auto wait = [&](unsigned block, int value) {
    if (threadIdx.x == 0) {
      while (Flag(flag[block]).load(cuda::memory_order_acquire) != value) {
      }
    }
    __syncthreads();
  };
  const auto say = [&](int value, auto order) {
    if (threadIdx.x == 0) Flag(flag[blockIdx.x]).store(value, order);
  };
  if (blockIdx.x == 2) {
    if (threadIdx.x == 0) data[0] = 7;
    return say(1, bug ? cuda::memory_order_relaxed : cuda::memory_order_release);
  }
  constexpr int rounds = 100;
  if (blockIdx.x == 0) wait(2, 1);
  for (int round = 1; round <= rounds && blockIdx.x < 2; ++round) {
    if (blockIdx.x == 1) wait(0, round);
    say(round, cuda::memory_order_release);
    if (blockIdx.x == 0) wait(1, round);
  }
  if (blockIdx.x == 0) return say(-1, cuda::memory_order_release);
  if (blockIdx.x == 3) wait(0, -1);
  if (blockIdx.x == 3 && threadIdx.x == 0) y[0] = data[0];
}

// ---- A barrier of the grid

constexpr int rounds = 3;

/// Without the barrier between write and read in the last rounds.
template <int right_rounds>
__global__ void grid_barrier(float* data, float* y) {
  const auto grid = cooperative_groups::this_grid();
  for (int round = 0; round < rounds; ++round) {
    data[blockIdx.x * blockDim.x + threadIdx.x] = round;
    if (round < right_rounds) grid.sync();
    y[blockIdx.x * blockDim.x + threadIdx.x] = data[(blockIdx.x + 1) % gridDim.x * blockDim.x + threadIdx.x];
    grid.sync();
  }
}

/// One thread writes the element that all threads of all blocks have read.
template <bool bug>
__global__ void all_read_one_writes(float* x, float* y) {
  const auto grid = cooperative_groups::this_grid();
  y[blockIdx.x * blockDim.x + threadIdx.x] = x[0];
  if (!bug) grid.sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) x[0] = 1;
}

/// A barrier of the grid without a cooperative launch: the GPU need not hold all of the blocks.
__global__ void own_grid_barrier(unsigned* arrived) {
  if (threadIdx.x != 0) return;
  __threadfence();
  atomicAdd(arrived, 1);
  while (*static_cast<volatile unsigned*>(arrived) < gridDim.x) {
  }
}

__global__ void spins(int n) {
  int i = 0;
  while (i < n) asm volatile("xor.b32 %0, %0, 1;" : "+r"(i));
}
__global__ void waits_for_nobody(volatile int* flag) {
  while (*flag == 0) __nanosleep(100);
}

// ---- Races between blocks

__global__ void two_blocks_write(float* y) {
  if (threadIdx.x == 0) y[0] = blockIdx.x;
}
__global__ void reads_what_another_block_wrote(float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = i;
  y[i] = x[gridDim.x * blockDim.x - 1 - i];
}
__global__ void writes_what_another_block_read(float* x) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = x[gridDim.x * blockDim.x - 1 - i] + 1;
}
__global__ void own_part(float* x) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = x[i] + 1;
}
__global__ void reads_the_same(const float* x, float* y) {
  y[blockIdx.x * blockDim.x + threadIdx.x] = x[0];
}

// ---- Within a block: atomics, bytes, volatile accesses, fences

template <bool bug>
__global__ void atomics_and_a_store(int* y) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  if (!bug) __syncthreads();
  atomicAdd(&sum, 1);
  __syncthreads();
  if (threadIdx.x == 0) *y = sum;
}

/// A warp's own histogram, as in CUB's radix sort: the lane that has cleared it counts, too.
__global__ void warp_histogram(int* y) {
  __shared__ int counts[threads / 32];
  int& count = counts[threadIdx.x / 32];
  if (threadIdx.x % 32 == 0) count = 0;
  __syncwarp();
  atomicAdd(&count, 1);
  __syncwarp();
  y[threadIdx.x] = count;
}
template <bool bug>
__global__ void bytes(char* y) {
  __shared__ char s[threads];
  s[threadIdx.x] = 0;
  __syncthreads();
  s[threadIdx.x] = static_cast<char>(threadIdx.x);
  if (!bug) __syncthreads();
  y[threadIdx.x] = s[threads - 1 - threadIdx.x];
}
template <bool bug>
__global__ void volatile_store(int* y) {
  __shared__ int s[threads];
  s[threadIdx.x] = 0;
  __syncthreads();
  *static_cast<volatile int*>(&s[threadIdx.x]) = threadIdx.x;
  if (!bug) __syncthreads();
  y[threadIdx.x] = s[threads - 1 - threadIdx.x];
}
/// A fence orders the memory of one thread; it does not wait for another.
template <bool bug>
__global__ void fence_for_a_barrier(int* y) {
  __shared__ int s[threads];
  s[threadIdx.x] = 0;
  __syncthreads();
  s[threadIdx.x] = threadIdx.x;
  __threadfence_block();
  if (!bug) __syncthreads();
  y[threadIdx.x] = s[threads - 1 - threadIdx.x];
}
/// Half of the warps fetch, the others use: barrier 1 is arrived at by the first and waited at by the others.
template <bool bug>
__global__ void producer_and_consumer(int* y) {
  __shared__ int s[threads];
  if (threadIdx.x < 32) {
    s[threadIdx.x] = threadIdx.x;
    if (!bug) asm volatile("barrier.cta.arrive 1, 64;" ::: "memory");
  } else {
    asm volatile("barrier.cta.sync 1, 64;" ::: "memory");
    y[threadIdx.x] = s[threadIdx.x - 32];
  }
}

// ---- Time

/// Each block writes shared memory and then reads it; the first one takes the time of some more barriers.
__global__ void passes_time(int more, int* y) {
  __shared__ int s[32];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (s[31 - threadIdx.x] < 0) y[0] = 1;
  for (int i = 0; i < more && blockIdx.x == 0; ++i) __syncthreads();
}

// ---- Addresses

/// Lanes that point into different spaces with one instruction.
__global__ void mixed_spaces(float* x, float* y) {
  __shared__ float s[32];
  s[threadIdx.x] = 100 + threadIdx.x;
  const float* from = threadIdx.x % 2 == 0 ? &s[threadIdx.x] : &x[threadIdx.x];
  asm volatile("" : "+l"(from));
  y[threadIdx.x] = *from;
}

}  // namespace

int main() {
  Simulator sim(__FILE__);
  constexpr int n = blocks * threads;
  const DeviceMemory memory_x = allocate_device(n * sizeof(float));
  const DeviceMemory memory_y = allocate_device(n * sizeof(float));
  const DeviceMemory memory_flags = allocate_device(n * sizeof(int));
  auto* x = static_cast<float*>(memory_x.get());
  auto* y = static_cast<float*>(memory_y.get());
  auto* flags = static_cast<int*>(memory_flags.get());
  auto* ticket = reinterpret_cast<unsigned*>(flags);
  int multiprocessors = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  sim.before_each = [&] {
    std::vector<float> ascending(n);
    std::iota(ascending.begin(), ascending.end(), 0.0f);
    CUDA_CHECK(cudaMemcpy(x, ascending.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(y, 0, n * sizeof(float)));
    CUDA_CHECK(cudaMemset(flags, 0, n * sizeof(int)));
  };
  const auto y_begins_with = [&](float wanted) {
    float value = 0;
    CUDA_CHECK(cudaMemcpy(&value, y, sizeof value, cudaMemcpyDeviceToHost));
    sim.check(value == wanted, "    what it writes", std::to_string(value));
  };
  const auto cooperative = [&](auto* kernel, int grid) {
    void* arguments[] = {&x, &y};
    (void)cudaLaunchCooperativeKernel(kernel, grid, threads, arguments, 0, nullptr);
  };
  const auto add_atomically = [&](auto bug) { atomics_and_a_store<bug><<<1, threads>>>(flags); };
  const char* const unordered = "nothing orders the two blocks";
  const char* const write_races = "race: write of 4 bytes of global memory";

  int seeds_that_show_it = 0;
  sim.in_every_order([&](int seed) {
    sim.both("last_block_sums", unordered,
             [&](auto bug) { last_block_sums<bug><<<blocks, threads>>>(x, x + 32, ticket, y); });
    y_begins_with(28);
    sim.both("waits_for_the_next", unordered,
             [&](auto bug) { waits_for_the_next<bug><<<blocks, threads>>>(x, flags, y); });
    y_begins_with(1);
    sim.both("releases", unordered, [&](auto bug) { releases<bug><<<blocks, threads>>>(x, flags, y); });
    const std::string too_narrow = "of block or cluster scope, which does not reach so far";
    sim.both("releases_so_far", too_narrow,
             [&](auto bug) { releases_so_far<bug><<<blocks, threads>>>(x, flags, y); });
    sim.both("acquires_from_so_far", too_narrow,
             [&](auto bug) { acquires_from_so_far<bug><<<blocks, threads>>>(x, flags, y); });
    sim.both("fences_so_far", too_narrow,
             [&](auto bug) { fences_so_far<bug><<<blocks, threads>>>(x, flags, y); });
    sim.both("fenced_before_the_barrier", unordered,
             [&](auto bug) { fenced_before_the_barrier<bug><<<blocks, threads>>>(x, flags, y); });
    sim.both("adds_so_far", too_narrow, [&](auto bug) { adds_so_far<bug><<<blocks, threads>>>(flags); });
    sim.both("adds_differently", too_narrow,
             [&](auto bug) { adds_differently<bug><<<blocks, threads>>>(flags); });
    sim.both("learned_long_ago", unordered,
             [&](auto bug) { learned_long_ago<bug><<<4, threads>>>(x, flags, y); });
    y_begins_with(7);
    sim.both("grid_barrier", unordered,
             [&](auto bug) { cooperative(grid_barrier<(bug ? 0 : rounds)>, blocks); });
    y_begins_with(rounds - 1);
    // A block that comes to the next barrier before another goes on from the one before is known to that: not every order shows it.
    if (seed > 0) {
      sim.before_each();
      const auto before = sim.api().faults();
      cooperative(grid_barrier<rounds - 1>, blocks);
      (void)cudaGetLastError();
      if (sim.api().faults() != before) ++seeds_that_show_it;
    }
    sim.both("all_read_one_writes", write_races,
             [&](auto bug) { cooperative(all_read_one_writes<bug>, blocks); });
    sim.wrong("two_blocks_write", write_races, [&] { two_blocks_write<<<2, threads>>>(y); });
    sim.wrong("reads_what_another_block_wrote", "nothing orders",
              [&] { reads_what_another_block_wrote<<<blocks, threads>>>(x, y); });
    sim.wrong("writes_what_another_block_read", "nothing orders",
              [&] { writes_what_another_block_read<<<blocks, threads>>>(x); });
    sim.right("own_part", [&] { own_part<<<blocks, threads>>>(x); });
    sim.right("reads_the_same", [&] { reads_the_same<<<blocks, threads>>>(x, y); });
    sim.right("atomics_and_a_store, right", [&] { add_atomically(std::false_type()); });
    sim.right("warp_histogram", [&] { warp_histogram<<<1, threads>>>(flags); });
    sim.both("bytes", "race", [&](auto bug) { bytes<bug><<<1, threads>>>(reinterpret_cast<char*>(y)); });
    sim.both("volatile_store", "race", [&](auto bug) { volatile_store<bug><<<1, threads>>>(flags); });
    sim.both("fence_for_a_barrier", "race",
             [&](auto bug) { fence_for_a_barrier<bug><<<1, threads>>>(flags); });
    sim.both("producer_and_consumer", "barrier 1 is never reached by all",
             [&](auto bug) { producer_and_consumer<bug><<<1, threads>>>(flags); });
    sim.right("mixed_spaces", [&] { mixed_spaces<<<1, 32>>>(x, y); });
    y_begins_with(100);
  });
  sim.check(sim.on_gpu() || seeds_that_show_it > 30, "grid_barrier, without the last one",
            "seen with " + std::to_string(seeds_that_show_it) + " of 50 seeds");
  sim.wrong("atomics_and_a_store", "race", [&] { add_atomically(std::true_type()); });
  sim.right("own_grid_barrier, that fits", [&] { own_grid_barrier<<<2 * multiprocessors, 1024>>>(ticket); });
  sim.wrong("own_grid_barrier", "waits for ever",
            [&] { own_grid_barrier<<<2 * multiprocessors + 1, 1024>>>(ticket); });
  sim.wrong("waits_for_nobody", "byte 0 of 2048 (cudaMalloc) again and again",
            [&] { waits_for_nobody<<<2, threads>>>(flags); });
  // The simulator's time begins anew once in each of these launches, within a block or where one begins.
  setenv("SIM_THREADS", "1", 1);
  for (int more = 0; more < 6; ++more) {
    sim.right("passes_time", [&] { passes_time<<<350'000, 32>>>(more, flags); });
  }
  unsetenv("SIM_THREADS");
  sim.wrong("spins", "endless loop", [&] { spins<<<2, threads>>>(2); });
  sim.expect("grid_barrier that is too large", cudaErrorCooperativeLaunchTooLarge, "",
             [&] { cooperative(grid_barrier<rounds>, 32 * multiprocessors + 1); });

  // Scans whose tiles wait for earlier ones (decoupled look-back).
  constexpr int many = 100'003;
  const DeviceMemory memory_in = allocate_device(many * sizeof(int));
  const DeviceMemory memory_out = allocate_device(many * sizeof(int));
  auto* in = static_cast<int*>(memory_in.get());
  auto* out = static_cast<int*>(memory_out.get());
  std::vector<int> host(many, 1);
  CUDA_CHECK(cudaMemcpy(in, host.data(), many * sizeof(int), cudaMemcpyHostToDevice));
  for (const char* seed : {"", "1", "2"}) {
    setenv("SIM_SEED", seed, 1);
    std::size_t bytes_needed = 0;
    CUDA_CHECK(cub::DeviceScan::InclusiveSum(nullptr, bytes_needed, in, out, many));
    const DeviceMemory workspace = allocate_device(bytes_needed);
    sim.right("cub::DeviceScan",
              [&] { (void)cub::DeviceScan::InclusiveSum(workspace.get(), bytes_needed, in, out, many); });
    CUDA_CHECK(cudaMemcpy(host.data(), out, many * sizeof(int), cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < many; ++i) wrong += host[i] == i + 1 ? 0 : 1;
    sim.check(wrong == 0, "its sums", std::to_string(wrong) + " wrong");
  }
  return sim.result();
}
