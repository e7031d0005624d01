// Ranks on two devices that work together through NCCL: the results of its calls, and mistakes. Needs two GPUs and
// NCCL, or the simulator with SIM_DEVICES=2.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/sim/tests/captured.h"
#include "common/sim/tests/cuda_check.h"
#include "common/sim/tests/expect_fault.cuh"

// The layout of 2.28.7 is simulated; structures grew then.
#if __has_include(<nccl_device.h>) && NCCL_VERSION_CODE >= 22807 && NCCL_VERSION_CODE < 22900
#include <nccl_device.h>
#define HAS_DEVICE_API 1  // NOLINT(cppcoreguidelines-macro-usage)
#else
#define HAS_DEVICE_API 0  // NOLINT(cppcoreguidelines-macro-usage)
#endif

namespace {

constexpr int ranks = 2;
constexpr std::size_t count = 100;
constexpr std::size_t largest_type = 8;

template <class T>
__global__ void add_one(T* x) {
  x[threadIdx.x] = x[threadIdx.x] + T(1);
}

#if HAS_DEVICE_API
constexpr int exchange_blocks = 4;
constexpr int exchange_threads = 64;

/// Each rank writes into its own window and reads from the other's, in the words of NCCL's device API.
template <bool bug>
__global__ void exchange(ncclDevComm comm, ncclWindow_t window, float* y) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  auto* mine = static_cast<float*>(ncclGetLocalPointer(window, 0));
  mine[i] = 1000.0F * comm.rank + i;
  barrier.sync(ncclCoopCta(), bug ? cuda::memory_order_relaxed : cuda::memory_order_acq_rel);
  const int peer = (comm.rank + 1) % comm.nRanks;
  y[i] = static_cast<const float*>(ncclGetLsaPointer(window, 0, peer))[i];
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  mine[i] = 0;
}
#endif

struct Rank {
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;
  void* in = nullptr;
  void* out = nullptr;
};

class Test {
 public:
  explicit Test(const Simulator& simulator) : simulator_(simulator) {
    for (int rank = 0; rank < ranks; ++rank) {
      use(rank);
      Rank& own = ranks_[rank];
      CUDA_CHECK(cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking));
      for (void** memory : {&own.in, &own.out}) CUDA_CHECK(cudaMalloc(memory, ranks * count * largest_type));
    }
    std::array<ncclComm_t, ranks> comms{};
    expect(ncclCommInitAll(comms.data(), ranks, nullptr), "ncclCommInitAll");
    for (int rank = 0; rank < ranks; ++rank) ranks_[rank].comm = comms[rank];
  }

  void use(int rank) const { CUDA_CHECK(cudaSetDevice(rank)); }
  /// visit(rank's, its number), on its device.
  template <class Visit>
  void on_each(Visit visit) const {
    for (int rank = 0; rank < ranks; ++rank) {
      use(rank);
      visit(ranks_[rank], rank);
    }
  }
  void expect(ncclResult_t got, const char* what, ncclResult_t wanted = ncclSuccess) const {
    simulator_.check(got == wanted, what, ncclGetErrorString(got));
  }
  /// Rank r's i-th input is r + i.
  template <class T>
  void fill(std::size_t values) const {
    on_each([&](const Rank& own, int rank) {
      std::vector<T> host(values);
      for (std::size_t i = 0; i < values; ++i) host[i] = T(static_cast<float>(rank + i));
      CUDA_CHECK(cudaMemcpy(own.in, host.data(), values * sizeof(T), cudaMemcpyHostToDevice));
      CUDA_CHECK(cudaMemset(own.out, 0, ranks * count * largest_type));
      CUDA_CHECK(cudaDeviceSynchronize());
    });
  }
  /// One group of visit(rank's, its number).
  template <class Visit>
  void in_a_group(Visit visit) const {
    expect(ncclGroupStart(), "ncclGroupStart");
    on_each(visit);
    expect(ncclGroupEnd(), "ncclGroupEnd");
  }
  /// One group of call(rank's, its number), and the wait for it.
  template <class Call>
  void together(const char* what, Call call) const {
    in_a_group([&](const Rank& own, int rank) { expect(call(own, rank), what); });
    wait(what);
  }
  void wait(const char* what, cudaError_t wanted = cudaSuccess) const {
    cudaError_t error = cudaSuccess;
    on_each([&](const Rank& own, int /*rank*/) {
      const cudaError_t found = cudaStreamSynchronize(own.stream);
      error = error != cudaSuccess ? error : found;
    });
    simulator_.check(error == wanted, what, cudaGetErrorName(error));
    (void)cudaGetLastError();
  }
  /// wanted(i)
  template <class T, class Wanted>
  void expect_values(int rank, std::size_t values, const char* what, Wanted wanted) const {
    std::vector<T> host(values);
    CUDA_CHECK(cudaMemcpy(host.data(), ranks_[rank].out, values * sizeof(T), cudaMemcpyDefault));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values; ++i) {
      if (static_cast<float>(host[i]) != static_cast<float>(wanted(static_cast<float>(i)))) ++wrong;
    }
    simulator_.check(wrong == 0, what, std::to_string(wrong) + " wrong");
  }

  /// The same of every rank: wanted(i)
  template <class T, class Wanted>
  void expect_everywhere(std::size_t values, const char* what, Wanted wanted) const {
    for (int rank = 0; rank < ranks; ++rank) expect_values<T>(rank, values, what, wanted);
  }

  template <class T>
  void test_type(ncclDataType_t type) const {
    const std::array reductions{std::pair{ncclSum, +[](float a, float b) { return a + b; }},
                                std::pair{ncclProd, +[](float a, float b) { return a * b; }},
                                std::pair{ncclMax, +[](float a, float b) { return a < b ? b : a; }},
                                std::pair{ncclMin, +[](float a, float b) { return a < b ? a : b; }}};
    constexpr std::size_t few = 10;  // whose products fit every type
    for (const auto& [reduction, wanted] : reductions) {
      fill<T>(few);
      together("ncclAllReduce", [&, op = reduction](const Rank& own, int) {
        return ncclAllReduce(own.in, own.out, few, type, op, own.comm, own.stream);
      });
      expect_everywhere<T>(few, "ncclAllReduce of a type",
                           [&, combine = wanted](float i) { return combine(i, i + 1); });
    }
  }

  void test_collectives() const {
    const auto zero = [](float) { return 0.0F; };
    fill<float>(count);
    together("ncclReduce", [](const Rank& own, int) {
      return ncclReduce(own.in, own.out, count, ncclFloat, ncclSum, 1, own.comm, own.stream);
    });
    expect_values<float>(0, count, "ncclReduce, not its root", zero);
    expect_values<float>(1, count, "ncclReduce, its root", [](float i) { return 2 * i + 1; });
    fill<float>(count);
    together("ncclBroadcast", [](const Rank& own, int) {
      return ncclBroadcast(own.in, own.out, count, ncclFloat, 1, own.comm, own.stream);
    });
    expect_everywhere<float>(count, "ncclBroadcast", [](float i) { return i + 1; });
    fill<float>(count);
    together("ncclAllGather", [](const Rank& own, int) {
      return ncclAllGather(own.in, own.out, count, ncclFloat, own.comm, own.stream);
    });
    expect_everywhere<float>(ranks * count, "ncclAllGather",
                             [](float i) { return i < count ? i : i - count + 1; });
    fill<float>(ranks * count);
    together("ncclReduceScatter", [](const Rank& own, int) {
      return ncclReduceScatter(own.in, own.out, count, ncclFloat, ncclSum, own.comm, own.stream);
    });
    for (int rank = 0; rank < ranks; ++rank) {
      expect_values<float>(rank, count, "ncclReduceScatter",
                           [rank](float i) { return 2 * (i + rank * static_cast<float>(count)) + 1; });
    }
    fill<float>(count);
    together("ncclSend and ncclRecv", [&](const Rank& own, int rank) {
      expect(ncclSend(own.in, count, ncclFloat, 1 - rank, own.comm, own.stream), "ncclSend");
      return ncclRecv(own.out, count, ncclFloat, 1 - rank, own.comm, own.stream);
    });
    for (int rank = 0; rank < ranks; ++rank) {
      expect_values<float>(rank, count, "ncclSend and ncclRecv", [rank](float i) { return i + 1 - rank; });
    }
  }

  /// A kernel, a sum, and a kernel in each stream, in a graph that is launched twice.
  void test_graphs() const {
    fill<float>(count);
    std::array<cudaGraphExec_t, ranks> execs{};
    on_each([](const Rank& own, int /*rank*/) {
      CUDA_CHECK(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeRelaxed));
    });
    in_a_group([&](const Rank& own, int /*rank*/) {
      add_one<<<1, count, 0, own.stream>>>(static_cast<float*>(own.in));
      expect(ncclAllReduce(own.in, own.out, count, ncclFloat, ncclSum, own.comm, own.stream), "captured");
    });
    on_each([&](const Rank& own, int rank) {
      cudaGraph_t graph = nullptr;
      add_one<<<1, count, 0, own.stream>>>(static_cast<float*>(own.out));
      CUDA_CHECK(cudaStreamEndCapture(own.stream, &graph));
      CUDA_CHECK(cudaGraphInstantiate(&execs[rank], graph, 0));
      CUDA_CHECK(cudaGraphDestroy(graph));
    });
    for (int round = 0; round < 2; ++round) {
      on_each([&](const Rank& own, int rank) { CUDA_CHECK(cudaGraphLaunch(execs[rank], own.stream)); });
    }
    wait("graphs");
    expect_values<float>(0, count, "what graphs add up", [](float i) { return 2 * (i + 2) + 1 + 1; });
    for (cudaGraphExec_t exec : execs) CUDA_CHECK(cudaGraphExecDestroy(exec));
  }

  void test_threads() const {
    ncclUniqueId id;
    expect(ncclGetUniqueId(&id), "ncclGetUniqueId");
    fill<float>(count);
    std::vector<std::thread> hosts;
    for (int rank = 0; rank < ranks; ++rank) {
      hosts.emplace_back([&, rank] {
        use(rank);
        const Rank& own = ranks_[rank];
        ncclComm_t comm = nullptr;
        int number = -1;
        const bool right =
            ncclCommInitRank(&comm, ranks, id, rank) == ncclSuccess &&
            ncclCommUserRank(comm, &number) == ncclSuccess &&
            ncclAllReduce(own.in, own.out, count, ncclFloat, ncclSum, comm, own.stream) == ncclSuccess &&
            cudaStreamSynchronize(own.stream) == cudaSuccess && number == rank &&
            ncclCommDestroy(comm) == ncclSuccess;
        if (!right) failures_[rank] = 1;
      });
    }
    for (std::thread& host : hosts) host.join();
    simulator_.check(failures_[0] + failures_[1] == 0, "a thread for each rank", "");
    expect_values<float>(1, count, "what they add up", [](float i) { return 2 * i + 1; });
  }

  /// The sum is read in another stream than that in which it was made.
  void read_elsewhere(bool ordered) const {
    fill<float>(count);
    in_a_group([](const Rank& own, int /*rank*/) {
      (void)ncclAllReduce(own.in, own.out, count, ncclFloat, ncclSum, own.comm, own.stream);
    });
    use(0);
    cudaStream_t other = nullptr;
    CUDA_CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    cudaEvent_t event = nullptr;
    CUDA_CHECK(cudaEventCreate(&event));
    CUDA_CHECK(cudaEventRecord(event, ranks_[0].stream));
    if (ordered) CUDA_CHECK(cudaStreamWaitEvent(other, event, 0));
    add_one<<<1, count, 0, other>>>(static_cast<float*>(ranks_[0].out));
    (void)cudaStreamSynchronize(other);
    CUDA_CHECK(cudaStreamDestroy(other));
    CUDA_CHECK(cudaEventDestroy(event));
    on_each([](const Rank& own, int /*rank*/) { (void)cudaStreamSynchronize(own.stream); });
  }

  /// Checks the simulator's report of a mistake.
  template <class Call>
  void mistake(const char* name, const char* part, Call call) const {
    const auto before = simulator_.api().faults();
    call();
    on_each([](const Rank& /*own*/, int /*rank*/) { (void)cudaDeviceSynchronize(); });
    (void)cudaGetLastError();
    const std::string fault = simulator_.api().last_fault();
    simulator_.check(simulator_.api().faults() > before && fault.find(part) != fault.npos, name, fault);
  }
  void test_mistakes() const {
    const auto& [first, second] = ranks_;
    mistake("a rank that does not come", "waits for ncclAllReduce of rank 1", [&] {
      fill<float>(count);
      (void)ncclGroupStart();
      (void)ncclAllReduce(first.in, first.out, count, ncclFloat, ncclSum, first.comm, first.stream);
      (void)ncclGroupEnd();
      wait("its stream", cudaErrorLaunchFailure);
    });
  }
  /// Mistakes after which the communicators cannot be used.
  void test_last_mistakes() const {
    const auto& [first, second] = ranks_;
    mistake("ranks that do not do the same", "rank 1 ncclAllReduce of 99 elements", [&] {
      fill<float>(count);
      (void)ncclGroupStart();
      (void)ncclAllReduce(first.in, first.out, count, ncclFloat, ncclSum, first.comm, first.stream);
      (void)ncclAllReduce(second.in, second.out, count - 1, ncclFloat, ncclSum, second.comm, second.stream);
      (void)ncclGroupEnd();
    });
    mistake("more than there is", "out of bounds: a collective reads", [&] {
      fill<float>(count);
      (void)ncclGroupStart();
      for (const Rank& own : ranks_) {
        (void)ncclAllReduce(own.in, own.out, ranks * count * largest_type, ncclFloat, ncclSum, own.comm,
                            own.stream);
      }
      (void)ncclGroupEnd();
    });
    mistake("another stream that does not wait", "and nothing orders the two",
            [&] { read_elsewhere(false); });
    (void)captured(stderr, [&] {
      expect(ncclAllReduce(first.in, first.out, count, ncclFloat, ncclSum, first.comm, first.stream),
             "one thread without a group", ncclInvalidUsage);
      std::array<ncclComm_t, ranks> comms{};
      const std::array<int, ranks> same{0, 0};
      expect(ncclCommInitAll(comms.data(), ranks, same.data()), "two ranks on a device", ncclInvalidUsage);
    });
  }
#if HAS_DEVICE_API
  void test_device_api() const {
    constexpr std::size_t bytes = exchange_blocks * exchange_threads * sizeof(float);
    std::array<void*, ranks> memory{};
    std::array<ncclWindow_t, ranks> windows{};
    std::array<ncclDevComm, ranks> comms{};
    ncclDevCommRequirements wanted{};
    wanted.lsaBarrierCount = exchange_blocks;
    on_each(
        [&](const Rank& /*own*/, int rank) { expect(ncclMemAlloc(&memory[rank], bytes), "ncclMemAlloc"); });
    together("ncclCommWindowRegister", [&](const Rank& own, int rank) {
      return ncclCommWindowRegister(own.comm, memory[rank], bytes, &windows[rank], NCCL_WIN_COLL_SYMMETRIC);
    });
    together("ncclDevCommCreate",
             [&](const Rank& own, int rank) { return ncclDevCommCreate(own.comm, &wanted, &comms[rank]); });
    const auto launch = [&](auto* kernel) {
      on_each([&](const Rank& own, int rank) {
        kernel<<<exchange_blocks, exchange_threads, 0, own.stream>>>(comms[rank], windows[rank],
                                                                     static_cast<float*>(own.out));
      });
    };
    for (int round = 0; round < 3; ++round) launch(exchange<false>);
    wait("the device API");
    for (int rank = 0; rank < ranks; ++rank) {
      expect_values<float>(rank, exchange_blocks * exchange_threads, "what it exchanges",
                           [rank](float i) { return 1000 * (1 - rank) + i; });
    }
    if (!simulator_.on_gpu()) {
      mistake("a barrier that orders nothing", "and nothing orders the two", [&] { launch(exchange<true>); });
    }
    on_each([&](const Rank& own, int rank) {
      expect(ncclDevCommDestroy(own.comm, &comms[rank]), "ncclDevCommDestroy");
      expect(ncclCommWindowDeregister(own.comm, windows[rank]), "ncclCommWindowDeregister");
      expect(ncclMemFree(memory[rank]), "ncclMemFree");
    });
  }
#else
  void test_device_api() const {
    std::printf("skip the device API: needs nccl_device.h of NCCL 2.28.7 to 2.28.9\n");
  }
#endif
  void destroy() const {
    for (const Rank& own : ranks_) expect(ncclCommDestroy(own.comm), "ncclCommDestroy");
  }

 private:
  const Simulator& simulator_;
  std::array<Rank, ranks> ranks_{};
  mutable std::array<int, ranks> failures_{};
};

}  // namespace

int main() {
  Simulator simulator(__FILE__);
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  if (devices < ranks) {
    std::printf("skipped: needs two devices\n");
    return 3;
  }
  Test test(simulator);
  int version = 0;
  test.expect(ncclGetVersion(&version), "ncclGetVersion");
  test.test_type<char>(ncclChar);
  test.test_type<unsigned char>(ncclUint8);
  test.test_type<int>(ncclInt);
  test.test_type<unsigned>(ncclUint32);
  test.test_type<long long>(ncclInt64);
  test.test_type<unsigned long long>(ncclUint64);
  test.test_type<__half>(ncclHalf);
  test.test_type<float>(ncclFloat);
  test.test_type<double>(ncclDouble);
  test.test_type<__nv_bfloat16>(ncclBfloat16);
  test.test_threads();
  simulator.in_every_order([&](int /*seed*/) {
    test.test_collectives();
    test.test_graphs();
    if (version == NCCL_VERSION_CODE) {
      test.test_device_api();
    } else {
      std::printf("skip the device API: compiled with NCCL %d, and the library is %d\n", NCCL_VERSION_CODE,
                  version);
    }
    const auto faults = simulator.on_gpu() ? 0 : simulator.api().faults();
    test.read_elsewhere(true);
    if (!simulator.on_gpu())
      simulator.check(simulator.api().faults() == faults, "another stream that waits", "");
    if (!simulator.on_gpu()) test.test_last_mistakes();
  });
  if (!simulator.on_gpu()) test.test_mistakes();
  test.destroy();
  return simulator.result();
}
