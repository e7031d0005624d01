// One planted bug for each kind of fault, which must be found, and its correct twin, which must not.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cassert>
#include <cub/block/block_reduce.cuh>

#include "common/sim/tests/cuda_check.h"
#include "common/sim/tests/expect_fault.cuh"

namespace {

constexpr int threads = 64;

template <bool bug>
__global__ void past_the_end(float* x) {
  x[threadIdx.x + (bug ? 1 : 0)] = 1;
}
template <bool bug>
__global__ void misaligned(const float* x, float4* y) {
  y[0] = *reinterpret_cast<const float4*>(x + (bug ? 1 : 4));
}
template <bool bug>
__global__ void past_the_shared_end(float* y) {
  extern __shared__ float s[];
  s[threadIdx.x + (bug ? 1 : 0)] = 1;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}
__global__ void past_the_shared_end_behind_a_variable(float* y) {
  extern __shared__ float s[];
  __shared__ float first[4];
  first[threadIdx.x % 4] = threadIdx.x % 4;
  s[threadIdx.x + 1] = 1;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x] + first[y[0] > 0];
}
template <bool bug>
__global__ void reads_unwritten_shared(float* y) {
  __shared__ float s[threads];
  if (!bug || threadIdx.x != 5) s[threadIdx.x] = 1;
  y[threadIdx.x] = s[threadIdx.x];
}
__global__ void copy(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];
}
__global__ void copy_pack(const float* x, float* y) {
  *reinterpret_cast<float4*>(y) = *reinterpret_cast<const float4*>(x);
}
template <bool bug>
__global__ void shared_race(float* y) {
  __shared__ float s[threads];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  const float other = s[threads - 1 - threadIdx.x];
  if (!bug) __syncthreads();
  s[threadIdx.x] = other;
  y[threadIdx.x] = s[threadIdx.x];
}
// Whole warps that access neighbouring words: the simulator checks these 32 at a time.
template <bool bug>
__global__ void reads_what_another_warp_wrote(float* y) {
  __shared__ float s[32];
  if (threadIdx.x < 32) s[threadIdx.x] = threadIdx.x;
  if (!bug) __syncthreads();
  y[threadIdx.x] = s[threadIdx.x % 32];
}
constexpr int line_of_write = __LINE__ - 4;
template <bool bug>
__global__ void writes_what_another_warp_read(float* y) {
  __shared__ float s[32];
  if (threadIdx.x < 32) s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  const float value = threadIdx.x < 32 ? s[threadIdx.x] : 7;
  if (!bug) __syncthreads();
  if (threadIdx.x >= 32) s[threadIdx.x % 32] = value;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x % 32] + value;
}
template <bool bug>
__global__ void writes_what_another_warp_wrote(float* y) {
  __shared__ float s[32];
  if (threadIdx.x < 32) s[threadIdx.x] = threadIdx.x;
  if (!bug) __syncthreads();
  if (threadIdx.x >= 32) s[threadIdx.x % 32] = threadIdx.x;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x % 32];
}
template <bool bug>
__global__ void warp_race(float* y) {
  __shared__ float s[32];
  s[threadIdx.x] = threadIdx.x;
  if (!bug) __syncwarp();
  y[threadIdx.x] = s[31 - threadIdx.x];
}
template <bool bug>
__global__ void global_race(float* y) {
  y[threadIdx.x] = threadIdx.x;
  if (!bug) __syncthreads();
  y[threads + threadIdx.x] = y[threads - 1 - threadIdx.x];
}
template <bool bug>
__global__ void reads_of_two_stores_one(float* y) {
  y[threadIdx.x] = 1;
  y[threads + threadIdx.x] = 2;
  if (!bug) __syncthreads();
  y[threads + threadIdx.x] = y[threadIdx.x % 32];
}
constexpr int line_of_store = __LINE__ - 5;
/// All threads write the same: nothing depends on their order.
__global__ void same_value(float* y) {
  y[0] = 1;
}
template <bool bug>
__global__ void storage_used_twice(const float* x, float* y) {
  using Reduce = cub::BlockReduce<float, threads>;
  __shared__ typename Reduce::TempStorage storage;
  const float once = Reduce(storage).Sum(x[threadIdx.x]);
  if (!bug) __syncthreads();
  const float twice = Reduce(storage).Sum(once + 1);
  if (threadIdx.x == 0) y[0] = twice;
}
template <bool bug>
__global__ void shuffle_after_return(float* y, int n) {
  if (static_cast<int>(threadIdx.x) >= n) return;
  const unsigned mask = bug ? 0xffffffffu : (1u << n) - 1;
  y[threadIdx.x] = __shfl_xor_sync(mask, threadIdx.x, 1);
}
template <bool bug>
__global__ void shuffle_in_a_branch(float* y) {
  float value = threadIdx.x;
  if (threadIdx.x < 16) value = __shfl_xor_sync(bug ? 0xffffffffu : 0xffffu, value, 1);
  __syncthreads();
  y[threadIdx.x] = value;
}
/// Tiles of several warps meet in shared memory that is none of the program's.
template <bool bug>
__global__ void tile_of_two_warps(float* y) {
  extern __shared__ float s[];
  __shared__ cooperative_groups::block_tile_memory<threads> scratch;
  const auto block = cooperative_groups::this_thread_block(scratch);
  const auto tile = cooperative_groups::tiled_partition<threads>(block);
  s[threadIdx.x + (bug ? 1 : 0)] = 1;
  tile.sync();
  y[threadIdx.x] = cooperative_groups::reduce(tile, s[threadIdx.x], cooperative_groups::plus<float>());
}
enum class Reads { wanted_lanes, more_and_uses_them, more_and_leaves_them, lanes_that_read_more };
/// The sum of the first n lanes. The mask names all that take part, whatever is read.
template <Reads reads>
__global__ void sum_by_few_lanes(float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned mask = __ballot_sync(0xffffffffu, lane < n);
  if (lane >= n) return;
  float sum = 1;
  if (reads == Reads::lanes_that_read_more) sum += __shfl_down_sync(mask, sum, n / 2);
  for (int distance = reads == Reads::wanted_lanes || reads == Reads::lanes_that_read_more ? n / 2 : 16;
       distance > 0; distance /= 2) {
    const float other = __shfl_down_sync(mask, sum, distance);
    if (reads != Reads::more_and_leaves_them || lane + distance < n) sum += other;
  }
  if (lane == 0) y[0] = sum;
}
template <bool bug>
__global__ void barrier_after_return(float* y, int n) {
  if (bug && static_cast<int>(threadIdx.x) >= n) return;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < n) y[threadIdx.x] = 1;
}
template <bool bug>
__global__ void asserts(float* y) {
  assert(threadIdx.x < (bug ? 3 : threads));
  y[threadIdx.x] = 1;
}
template <bool bug>
__global__ void matrix_in_a_branch(const half* a, float* y) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0F);
  wmma::fill_fragment(left, __float2half(1.0F));
  if (bug && threadIdx.x >= 24) return;
  wmma::load_matrix_sync(right, a, 16);
  wmma::mma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(y, sum, 16, wmma::mem_row_major);
}
template <bool bug>
__global__ void tile_row_misaligned(const half* a, float* y) {
  __shared__ __align__(16) half tile[72];
  for (int i = threadIdx.x; i < 72; i += 32) tile[i] = a[i];
  __syncwarp();
  unsigned value = 0;
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
      : "=r"(value)
      : "r"(static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x % 8 * (bug ? 9 : 8)))));
  y[threadIdx.x] = value;
}

}  // namespace

int main() {
  Simulator sim(__FILE__);
  if (sim.on_gpu()) return 3;
  const DeviceMemory in = allocate_device(threads * sizeof(float));
  const DeviceMemory out = allocate_device(2 * threads * sizeof(float));
  auto* x = static_cast<float*>(in.get());
  auto* y = static_cast<float*>(out.get());
  constexpr int bytes = threads * sizeof(float);
  constexpr auto no_access = cudaErrorIllegalAddress;
  constexpr auto misaligned_access = cudaErrorMisalignedAddress;

  const auto copy_x = [&] { copy<<<1, threads>>>(x, y); };
  const auto copy_next = [&] { copy<<<1, threads>>>(x + 1, y); };
  sim.wrong("reads_unwritten_global", "nobody has written", copy_x);
  CUDA_CHECK(cudaMemset(x, 0, bytes));
  sim.right("reads_written_global", copy_x);
  sim.api().forget(x + 7, sizeof(float));
  sim.wrong("reads_forgotten_global", "thread (7, 0, 0)", copy_x);
  // Reads next to the written elements: the report names the index.
  CUDA_CHECK(cudaMemset(x, 0, bytes));
  sim.api().forget(x, sizeof(float));
  sim.wrong("reads_before_what_is_written",
            "yet: 4 bytes before the 252 bytes that are written there (is the index too small?)\n", copy_x);
  sim.api().forget(x + 63, sizeof(float));
  sim.wrong("reads_past_what_is_written",
            "yet: element 62 of an array whose elements 0 to 61 are written (is the index too large?)\n",
            copy_next);
  sim.wrong("reads_a_pack_past_what_is_written",
            "yet: byte 236 of an array whose bytes 0 to 247 are written (is the index too large?)\n",
            [&] { copy_pack<<<1, 1>>>(x + 60, y); });
  sim.api().forget(x + 7, sizeof(float));
  sim.wrong("reads_between_what_is_written", "which nobody has written yet\n", copy_next);
  CUDA_CHECK(cudaMemset(x, 0, bytes));
  sim.expect("reads_where_nothing_is", no_access, "which belongs to no array\n",
             [&] { copy<<<1, threads>>>(x + (std::int64_t{1} << 32), y); });

  const auto past_the_end_of_x = [&](auto bug) { past_the_end<bug><<<1, threads>>>(x); };
  sim.both("past_the_end", no_access, "thread (63, 0, 0)", past_the_end_of_x);
  auto* packs = reinterpret_cast<float4*>(y);
  sim.both("misaligned", misaligned_access, "misaligned read of 16 bytes of global memory",
           [&](auto bug) { misaligned<bug><<<1, 1>>>(x, packs); });
  sim.both("past_the_shared_end", no_access, "shared memory at byte 256, and the block has 256 bytes\n",
           [&](auto bug) { past_the_shared_end<bug><<<1, threads, bytes>>>(y); });
  sim.expect("past_the_shared_end, two kinds of memory", no_access,
             "at byte 272, and the block has 272 bytes: 16 of its __shared__ variables, then the 256 of the "
             "launch\n",
             [&] { past_the_shared_end_behind_a_variable<<<1, threads, bytes>>>(y); });
  const auto reads_unwritten = [&](auto bug) { reads_unwritten_shared<bug><<<1, threads>>>(y); };
  sim.both("reads_unwritten_shared", "thread (5, 0, 0)", reads_unwritten);
  sim.both("reads_unwritten_shared, at which byte",
           "at byte 20 (word 5 of `s`), which nobody has written yet (is a barrier missing, or "
           "is the index too large?)\n",
           reads_unwritten);
  sim.both("shared_race", "race", [&](auto bug) { shared_race<bug><<<bug ? 1 : 2, threads>>>(y); });
  const auto reads_a_warp = [&](auto bug) { reads_what_another_warp_wrote<bug><<<1, threads>>>(y); };
  sim.both("reads_what_another_warp_wrote",
           "race: read of 4 bytes of shared memory at byte 0 (word 0 of `s`), which thread (0, "
           "0, 0) of the block wrote with",
           reads_a_warp);
  // The other one's line is followed by the kernel, this one's by the thread.
  const auto other_at = [](int line) { return "faults_test.cu:" + std::to_string(line) + "\n    in "; };
  sim.both("reads_what_another_warp_wrote, the other's line", other_at(line_of_write), reads_a_warp);
  sim.both("writes_what_another_warp_read", "which thread (0, 0, 0) of the block read with no barrier",
           [&](auto bug) { writes_what_another_warp_read<bug><<<1, threads>>>(y); });
  sim.both("writes_what_another_warp_wrote", "which thread (0, 0, 0) of the block wrote with no barrier",
           [&](auto bug) { writes_what_another_warp_wrote<bug><<<1, threads>>>(y); });
  sim.both("warp_race", "race", [&](auto bug) { warp_race<bug><<<1, 32>>>(y); });
  CUDA_CHECK(cudaMemset(y, 0, 2 * bytes));
  sim.both("global_race", "race", [&](auto bug) { global_race<bug><<<1, threads>>>(y); });
  // The addresses in the other thread's registers tell which store it was.
  sim.both("reads_of_two_stores_one", other_at(line_of_store),
           [&](auto bug) { reads_of_two_stores_one<bug><<<1, threads>>>(y); });
  sim.right("same_value", [&] { same_value<<<2, threads>>>(y); });
  sim.both("storage_used_twice", "race", [&](auto bug) { storage_used_twice<bug><<<1, threads>>>(x, y); });
  sim.both("shuffle_after_return", "lanes 16-31, which have ended the kernel without coming here",
           [&](auto bug) { shuffle_after_return<bug><<<1, 32>>>(y, 16); });
  sim.both("shuffle_in_a_branch", "lanes 16-31", [&](auto bug) { shuffle_in_a_branch<bug><<<1, 32>>>(y); });
  const auto value_of = [&](int i) {
    float value = 0;
    CUDA_CHECK(cudaMemcpy(&value, y + i, sizeof value, cudaMemcpyDeviceToHost));
    return value;
  };
  const char* const uses_a_stranger = "uses what a shuffle read from a lane that took no part";
  sim.wrong("sum_by_few_lanes", uses_a_stranger,
            [&] { sum_by_few_lanes<Reads::more_and_uses_them><<<1, 32>>>(y, 8); });
  sim.wrong("sum_by_few_lanes, of those who read more", uses_a_stranger,
            [&] { sum_by_few_lanes<Reads::lanes_that_read_more><<<1, 32>>>(y, 8); });
  sim.right("sum_by_few_lanes, right", [&] { sum_by_few_lanes<Reads::wanted_lanes><<<1, 32>>>(y, 8); });
  sim.check(value_of(0) == 8, "its result", "sum_by_few_lanes ");
  sim.right("sum_by_few_lanes, which leaves them",
            [&] { sum_by_few_lanes<Reads::more_and_leaves_them><<<1, 32>>>(y, 8); });
  sim.check(value_of(0) == 8, "its result", "sum_by_few_lanes ");
  sim.both("tile_of_two_warps", no_access, "out of bounds",
           [&](auto bug) { tile_of_two_warps<bug><<<1, threads, bytes>>>(y); });
  sim.check(value_of(threads - 1) == threads, "its result", "tile_of_two_warps ");
  sim.both("barrier_after_return", "barrier not reached by all",
           [&](auto bug) { barrier_after_return<bug><<<1, threads>>>(y, 40); });
  const auto asserts_of_y = [&](auto bug) { asserts<bug><<<1, threads>>>(y); };
  sim.both("asserts", cudaErrorAssert, "threadIdx.x <", asserts_of_y);
  const DeviceMemory matrix = allocate_device(256 * sizeof(half));
  const DeviceMemory product = allocate_device(256 * sizeof(float));
  const auto* a = static_cast<const half*>(matrix.get());
  auto* d = static_cast<float*>(product.get());
  sim.wrong("matrix nobody wrote", "nobody has written", [&] { matrix_in_a_branch<false><<<1, 32>>>(a, d); });
  CUDA_CHECK(cudaMemset(matrix.get(), 0, 256 * sizeof(half)));
  sim.both("matrix_in_a_branch", "needs all 32 lanes of the warp, and lanes 24-31 take no part",
           [&](auto bug) { matrix_in_a_branch<bug><<<1, 32>>>(a, d); });
  sim.expect("matrix past its end", no_access, "out of bounds",
             [&] { matrix_in_a_branch<false><<<1, 32>>>(a + 16, d); });
  sim.both("tile_row_misaligned", misaligned_access, "no multiple of 16",
           [&](auto bug) { tile_row_misaligned<bug><<<1, 32>>>(a, d); });
  sim.expect("too_many_threads", cudaErrorInvalidConfiguration, "", [&] { same_value<<<1, 1025>>>(y); });
  const auto with_64_kib = [&] { past_the_shared_end<false><<<1, threads, 64 * 1024>>>(y); };
  sim.expect("too_much_shared_memory", cudaErrorInvalidValue, "", with_64_kib);
  CUDA_CHECK(cudaFuncSetAttribute(past_the_shared_end<false>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  64 * 1024));
  sim.right("opted in to shared memory", with_64_kib);

  // Faults that need not be mistakes: reported once per source line, or not at all. All others stay faults.
  const auto races = [&] { shared_race<true><<<1, threads>>>(y); };
  for (const auto& [check, says] :
       {std::pair{"off", false}, {"warn", true}, {"off", false}, {"warn", false}}) {
    setenv("SIM_CHECK", check, 1);
    sim.said = std::string("SIM_CHECK=") + check + " ";
    const auto goes_on = [&](const char* name, const std::string& part, auto launch) {
      sim.expect(name, cudaSuccess, says ? part : "", launch);
    };
    goes_on("reads_unwritten_shared", "nobody has written", [&] { reads_unwritten(std::true_type()); });
    goes_on("shared_race", "race", races);
    sim.check(value_of(3) == threads - 1 - 3, "its result", "");
    goes_on("shuffle_after_return", "which have ended the kernel",
            [&] { shuffle_after_return<true><<<1, 32>>>(y, 16); });
    goes_on("shuffle_in_a_branch", "lanes 16-31", [&] { shuffle_in_a_branch<true><<<1, 32>>>(y); });
    sim.check(value_of(31) == 31, "its result", "");
    goes_on("barrier_after_return", "returned without it",
            [&] { barrier_after_return<true><<<1, threads>>>(y, 40); });
    sim.check(value_of(39) == 1, "its result", "");
    sim.expect("past_the_end", no_access, "out of bounds", [&] { past_the_end_of_x(std::true_type()); });
    sim.expect("asserts", cudaErrorAssert, "threadIdx.x <", [&] { asserts_of_y(std::true_type()); });
  }
  setenv("SIM_CHECK", "stop", 1);
  sim.said = "SIM_CHECK=stop ";
  sim.wrong("shared_race", "race", races);
  unsetenv("SIM_CHECK");
  return sim.result();
}
