// Two devices: the objects of each, peer access, and kernels, copies and events that work together across them. Needs
// two GPUs, or the simulator with SIM_DEVICES=2.
#include <cuda_runtime.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <cuda/atomic>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/sim/tests/cuda_check.h"
#include "common/sim/tests/expect_fault.cuh"

namespace {

constexpr int threads = 64;
constexpr int blocks = 4;
constexpr int n = blocks * threads;

// ---- Kernels

__device__ int on_each_device = 5;

__global__ void sets_variable(int value) {
  on_each_device = value;
}
__global__ void fills(int* x, int value) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
__global__ void adds_one(const int* x, int* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] + 1;
}
__global__ void uses_shared_memory(int* x) {
  extern __shared__ int shared[];
  shared[threadIdx.x] = 1;
  x[threadIdx.x] = shared[threadIdx.x];
}

enum class Order { system, device, none };

/// Each device gives the other one a value and waits for the other's, block by block.
template <Order order>
__global__ void exchanges(int mine, int* my_data, volatile int* my_flags, const int* other_data,
                          volatile const int* other_flags, int* y) {
  my_data[blockIdx.x * blockDim.x + threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    if constexpr (order == Order::system) __threadfence_system();
    if constexpr (order == Order::device) __threadfence();
    my_flags[blockIdx.x] = 1;
    while (other_flags[blockIdx.x] == 0) {
    }
    if constexpr (order == Order::system) __threadfence_system();
  }
  __syncthreads();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = other_data[i];
}

/// Twice, so that data already read may be written again: also by the next kernel of the stream.
__global__ void exchanges_again(int* my_data, volatile int* my_flags, const int* other_data,
                                volatile const int* other_flags, int flag) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  my_data[i] = flag;
  for (const int step : {1, 2}) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence_system();
      my_flags[blockIdx.x] = flag + step;
      while (other_flags[blockIdx.x] < flag + step) {
      }
      __threadfence_system();
    }
    __syncthreads();
    if (step == 1 && other_data[i] != flag) __trap();
  }
}

/// The same in the words of libcu++, by one thread, which pushes its value to the other device.
template <cuda::thread_scope scope>
__global__ void pushes(int mine, int* other_data, int* other_flag, const int* my_data, int* my_flag, int* y) {
  using Flag = cuda::atomic_ref<int, scope>;
  other_data[0] = mine;
  Flag(*other_flag).store(1, cuda::memory_order_release);
  while (Flag(*my_flag).load(cuda::memory_order_acquire) == 0) {
  }
  y[0] = my_data[0];
}

template <bool system>
__global__ void counts(int* counter) {
  if constexpr (system) {
    atomicAdd_system(counter, 1);
  } else {
    atomicAdd(counter, 1);
  }
}

__global__ void waits_for(volatile const int* flag) {
  while (*flag == 0) __nanosleep(100);
}

// ---- The objects of a device

struct Device {
  int ordinal = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  int* x = nullptr;
  int* y = nullptr;
  int* flags = nullptr;
};

void use(const Device& device) {
  CUDA_CHECK(cudaSetDevice(device.ordinal));
}

Device make_device(int ordinal) {
  Device device{ordinal};
  use(device);
  CUDA_CHECK(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaEventCreateWithFlags(&device.event, cudaEventDisableTiming));
  for (int** memory : {&device.x, &device.y, &device.flags}) CUDA_CHECK(cudaMalloc(memory, n * sizeof(int)));
  return device;
}

using Devices = std::array<Device, 2>;

void reset(const Devices& devices) {
  for (const Device& device : devices) {
    use(device);
    for (int* memory : {device.x, device.y, device.flags}) CUDA_CHECK(cudaMemset(memory, 0, n * sizeof(int)));
    CUDA_CHECK(cudaDeviceSynchronize());
  }
}

void wait_for_both(const Devices& devices) {
  for (const Device& device : devices) {
    use(device);
    (void)cudaDeviceSynchronize();
  }
}

int last_of(const int* x) {
  int value = -1;
  CUDA_CHECK(cudaMemcpy(&value, x + n - 1, sizeof value, cudaMemcpyDefault));
  return value;
}

/// Later work in `after`'s stream comes after all work that `before`'s has been given.
void order(const Device& before, const Device& after) {
  CUDA_CHECK(cudaEventRecord(before.event, before.stream));
  CUDA_CHECK(cudaStreamWaitEvent(after.stream, before.event, 0));
}

/// Device 0 writes and device 1 reads; `between` orders the two.
template <class Between>
void write_and_read(const Devices& devices, Between between) {
  const auto& [writer, reader] = devices;
  use(writer);
  fills<<<blocks, threads, 0, writer.stream>>>(writer.x, 7);
  between();
  use(reader);
  adds_one<<<blocks, threads, 0, reader.stream>>>(writer.x, reader.y);
  wait_for_both(devices);
}

/// launch(own, other, i) for both devices.
template <class Launch>
void launch_on_both(const Devices& devices, Launch launch) {
  for (int i = 0; i < 2; ++i) {
    use(devices[i]);
    launch(devices[i], devices[1 - i], i);
  }
}
template <class Launch>
void run_on_both(const Devices& devices, Launch launch) {
  launch_on_both(devices, launch);
  wait_for_both(devices);
}

template <Order order>
void exchange(const Device& own, const Device& other, int i) {
  exchanges<order><<<blocks, threads, 0, own.stream>>>(10 + i, own.x, own.flags, other.x, other.flags, own.y);
}

class Expectations {
 public:
  explicit Expectations(const Simulator& simulator) : simulator_(simulator) {}
  void success(cudaError_t got, const char* what) const { error(got, cudaSuccess, what); }
  void error(cudaError_t got, cudaError_t wanted, const char* what) const {
    simulator_.check(got == wanted, what, cudaGetErrorName(got));
    (void)cudaGetLastError();
  }
  void equal(int got, int wanted, const char* what) const {
    simulator_.check(got == wanted, what, std::to_string(got));
  }

 private:
  const Simulator& simulator_;
};

void test_calls(const Expectations& expect, const Devices& devices) {
  const auto& [first, second] = devices;
  int ordinal = -1;
  use(second);
  std::thread([&] {
    expect.success(cudaGetDevice(&ordinal), "another thread has a device of its own");
  }).join();
  expect.equal(ordinal, 0, "the first");
  CUDA_CHECK(cudaGetDevice(&ordinal));
  expect.equal(ordinal, 1, "this one the second");
  expect.error(cudaSetDevice(-1), cudaErrorInvalidDevice, "there is no device -1");
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  expect.error(cudaSetDevice(count), cudaErrorInvalidDevice, "nor one after the last");

  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, second.x));
  expect.equal(attributes.device, 1, "memory knows its device");
  std::array<char, 16> bus_id{};
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), 1));
  expect.success(cudaDeviceGetByPCIBusId(&ordinal, bus_id.data()), "a device is found by its bus");
  expect.equal(ordinal, 1, "the right one");
  std::array<cudaDeviceProp, 2> properties{};
  for (int i = 0; i < 2; ++i) CUDA_CHECK(cudaGetDeviceProperties(&properties[i], i));
  expect.equal(std::memcmp(&properties[0].uuid, &properties[1].uuid, sizeof properties[0].uuid) == 0, 0,
               "each has a UUID");
  const auto free_bytes = [](const Device& device) {
    std::size_t free = 0;
    std::size_t total = 0;
    use(device);
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return free;
  };
  const std::size_t before = free_bytes(first);
  use(second);
  void* large = nullptr;
  constexpr std::size_t large_bytes = std::size_t{64} << 20;
  CUDA_CHECK(cudaMalloc(&large, large_bytes));
  expect.equal(free_bytes(first) == before, 1, "what one allocates the other one still has");
  use(second);
  CUDA_CHECK(cudaFree(large));

  use(second);
  fills<<<blocks, threads, 0, first.stream>>>(first.x, 1);
  expect.success(cudaGetLastError(), "a kernel runs on its stream's device, whichever is current");
  expect.error(cudaEventRecord(second.event, first.stream), cudaErrorInvalidResourceHandle,
               "an event is for its device's streams");
  expect.success(cudaStreamWaitEvent(first.stream, second.event, 0), "but any stream waits for it");
  expect.success(cudaMemsetAsync(first.x, 0, sizeof(int), first.stream),
                 "and a fill goes where its stream is");
  CUDA_CHECK(cudaStreamSynchronize(first.stream));

  sets_variable<<<1, 1>>>(6);
  std::array<int, 2> values{};
  for (int i = 0; i < 2; ++i) {
    use(devices[i]);
    CUDA_CHECK(cudaMemcpyFromSymbol(&values[i], on_each_device, sizeof(int)));
  }
  expect.equal(values[0] * 10 + values[1], 56, "each has variables of its own");

  constexpr int shared_bytes = 100 * 1024;
  use(first);
  CUDA_CHECK(
      cudaFuncSetAttribute(uses_shared_memory, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  use(second);
  uses_shared_memory<<<1, threads, shared_bytes>>>(second.x);
  expect.error(cudaGetLastError(), cudaErrorInvalidValue, "an attribute of a kernel is for one device");
}

/// Copies go through the host there.
void test_without_peers(const Expectations& expect, const Devices& devices) {
  int can = -1;
  CUDA_CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
  expect.equal(can, 0, "no two devices are peers");
  CUDA_CHECK(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrAccessSupported, 0, 1));
  expect.equal(can, 0, "nor is access an attribute of them");
  use(devices[0]);
  expect.error(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessUnsupported, "access cannot be enabled");
  expect.success(cudaMemcpyPeer(devices[0].x, 0, devices[1].x, 1, n * sizeof(int)), "a copy needs none");
}

void test_peer_access(const Simulator& simulator, const Expectations& expect, const Devices& devices) {
  const auto& [first, second] = devices;
  int can = -1;
  CUDA_CHECK(cudaDeviceCanAccessPeer(&can, 0, 0));
  expect.equal(can, 0, "no device is its own peer");
  CUDA_CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
  expect.equal(can, 1, "two devices are");
  use(first);
  simulator.expect("without access", cudaErrorIllegalAddress,
                   "(cudaMalloc) of device 1, to which device 0 has no access", [&] {
                     use(first);
                     fills<<<blocks, threads>>>(second.x, 1);
                   });
  expect.success(cudaMemcpyPeer(first.x, 0, second.x, 1, n * sizeof(int)), "a copy needs none");
  expect.success(cudaMemcpy(second.x, first.x, n * sizeof(int), cudaMemcpyDeviceToDevice), "by either call");
  expect.error(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled, "what is not enabled");
  expect.error(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessUnsupported, "access to itself");
  expect.error(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue,
               "with flags, of which there are none");
  for (int i = 0; i < 2; ++i) {
    use(devices[i]);
    expect.success(cudaDeviceEnablePeerAccess(1 - i, 0), "is enabled");
  }
  use(first);
  expect.error(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled, "and only once");
  simulator.right("with access", [&] { fills<<<blocks, threads>>>(second.x, 3); });
  CUDA_CHECK(cudaDeviceSynchronize());
  expect.equal(last_of(second.x), 3, "a peer writes");
  int* pinned = nullptr;
  int* managed = nullptr;
  CUDA_CHECK(cudaMallocHost(&pinned, n * sizeof(int)));
  CUDA_CHECK(cudaMallocManaged(&managed, n * sizeof(int)));
  for (const Device& device : devices) {
    use(device);
    adds_one<<<blocks, threads>>>(device.ordinal == 0 ? second.x : pinned,
                                  device.ordinal == 0 ? pinned : managed);
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  expect.equal(managed[n - 1], 5, "memory of the host is for all");
  CUDA_CHECK(cudaFreeHost(pinned));
  CUDA_CHECK(cudaFree(managed));
}

/// Kernels of two graphs that wait for each other.
void test_graphs(const Simulator& simulator, const Expectations& expect, const Devices& devices) {
  std::array<cudaGraphExec_t, 2> execs{};
  launch_on_both(devices, [&](const Device& own, const Device& other, int i) {
    cudaGraph_t graph = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal));
    CUDA_CHECK(cudaMemsetAsync(own.y, 0, n * sizeof(int), own.stream));
    exchange<Order::system>(own, other, i);
    CUDA_CHECK(cudaStreamEndCapture(own.stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&execs[i], graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
  });
  for (int round = 0; round < 2; ++round) {
    reset(devices);
    simulator.right("graphs that wait for each other", [&] {
      run_on_both(devices, [&](const Device& own, const Device& /*other*/, int i) {
        CUDA_CHECK(cudaGraphLaunch(execs[i], own.stream));
      });
    });
    expect.equal(last_of(devices[0].y) * 100 + last_of(devices[1].y), 1110, "they exchange their values");
  }
  for (cudaGraphExec_t exec : execs) CUDA_CHECK(cudaGraphExecDestroy(exec));

  // As on two H200s: not while the other device's capture goes on, unless that one is relaxed.
  const auto instantiated_beside = [&](cudaStreamCaptureMode mode) {
    std::array<cudaGraph_t, 2> graphs{};
    cudaGraphExec_t exec = nullptr;
    for (const Device& device : devices) CUDA_CHECK(cudaStreamBeginCapture(device.stream, mode));
    CUDA_CHECK(cudaStreamEndCapture(devices[0].stream, &graphs[0]));
    const cudaError_t found = cudaGraphInstantiate(&exec, graphs[0], 0);
    if (found == cudaSuccess) CUDA_CHECK(cudaGraphExecDestroy(exec));
    expect.error(cudaStreamEndCapture(devices[1].stream, &graphs[1]),
                 found == cudaSuccess ? cudaSuccess : cudaErrorStreamCaptureInvalidated,
                 "a refusal makes the other capture invalid");
    for (cudaGraph_t graph : graphs) {
      if (graph != nullptr) CUDA_CHECK(cudaGraphDestroy(graph));
    }
    return found;
  };
  expect.error(instantiated_beside(cudaStreamCaptureModeThreadLocal), cudaErrorStreamCaptureUnsupported,
               "no graph is instantiated during a capture of this thread");
  expect.error(instantiated_beside(cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported,
               "nor during another one");
  expect.error(instantiated_beside(cudaStreamCaptureModeRelaxed), cudaSuccess, "but if that one is relaxed");
  (void)cudaGetLastError();

  // Both kernels in one graph.
  const auto& [first, second] = devices;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  reset(devices);
  use(first);
  CUDA_CHECK(cudaStreamBeginCapture(first.stream, cudaStreamCaptureModeThreadLocal));
  order(first, second);
  launch_on_both(devices, exchange<Order::system>);
  order(second, first);
  CUDA_CHECK(cudaStreamEndCapture(first.stream, &graph));
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_CHECK(cudaGraphDestroy(graph));
  simulator.right("a graph of two devices", [&] {
    use(first);
    CUDA_CHECK(cudaGraphLaunch(exec, first.stream));
    wait_for_both(devices);
  });
  expect.equal(last_of(first.y) * 100 + last_of(second.y), 1110, "its kernels exchange their values");
  CUDA_CHECK(cudaGraphExecDestroy(exec));
}

void test_order(Simulator& simulator, const Devices& devices) {
  const auto& [first, second] = devices;
  simulator.before_each = [&] { reset(devices); };
  const auto value_is = [&](const int* x, int wanted) {
    const int value = last_of(x);
    simulator.check(value == wanted, "its value", std::to_string(value));
  };
  const char* const unordered = "nothing orders the two (an event";
  const char* const not_of_system_scope = "one of the two is not of system scope";

  simulator.right("an event between", [&] { write_and_read(devices, [&] { order(first, second); }); });
  value_is(second.y, 8);
  simulator.right("the host between",
                  [&] { write_and_read(devices, [&] { CUDA_CHECK(cudaStreamSynchronize(first.stream)); }); });
  value_is(second.y, 8);
  simulator.wrong("nothing between", unordered, [&] { write_and_read(devices, [] {}); });
  simulator.wrong("an event that is recorded too early", unordered, [&] {
    CUDA_CHECK(cudaEventRecord(first.event, first.stream));
    write_and_read(devices, [&] { CUDA_CHECK(cudaStreamWaitEvent(second.stream, first.event, 0)); });
  });
  simulator.right("there and back", [&] {
    write_and_read(devices, [&] { order(first, second); });
    CUDA_CHECK(cudaEventRecord(second.event, second.stream));
    use(first);
    CUDA_CHECK(cudaStreamWaitEvent(first.stream, second.event, 0));
    fills<<<blocks, threads, 0, first.stream>>>(first.x, 9);
    wait_for_both(devices);
  });

  simulator.right("exchange", [&] { run_on_both(devices, exchange<Order::system>); });
  value_is(first.y, 11);
  value_is(second.y, 10);
  simulator.right("exchange, and use it again", [&] {
    for (int round = 0; round < 2; ++round) {
      launch_on_both(devices, [&](const Device& own, const Device& other, int /*i*/) {
        exchanges_again<<<blocks, threads, 0, own.stream>>>(own.x, own.flags, other.x, other.flags,
                                                            2 * round);
      });
    }
    wait_for_both(devices);
  });
  value_is(first.x, 2);
  value_is(second.x, 2);
  simulator.wrong("exchange with a fence of the device", "of (anonymous namespace)::exchanges<",
                  [&] { run_on_both(devices, exchange<Order::device>); });
  simulator.wrong("exchange without a fence", unordered,
                  [&] { run_on_both(devices, exchange<Order::none>); });
  simulator.both("push", not_of_system_scope, [&](auto bug) {
    run_on_both(devices, [](const Device& own, const Device& other, int i) {
      pushes<decltype(bug)::value ? cuda::thread_scope_device : cuda::thread_scope_system>
          <<<1, 1, 0, own.stream>>>(i, other.x, other.flags, own.x, own.flags, own.y + n - 1);
    });
  });
  value_is(first.y, 1);
  simulator.both("count", not_of_system_scope, [&](auto bug) {
    run_on_both(devices, [&](const Device& own, const Device& /*other*/, int /*i*/) {
      counts<!decltype(bug)::value><<<blocks, threads, 0, own.stream>>>(&first.x[n - 1]);
    });
  });
  value_is(first.x, 2 * n);

  simulator.right("two threads", [&] {
    std::vector<std::thread> hosts;
    for (int i = 0; i < 2; ++i) {
      hosts.emplace_back([&, i] {
        use(devices[i]);
        exchange<Order::system>(devices[i], devices[1 - i], i);
        CUDA_CHECK(cudaStreamSynchronize(devices[i].stream));
      });
    }
    for (std::thread& host : hosts) host.join();
  });
  value_is(second.y, 10);
  simulator.before_each = nullptr;

  // Copies have no source line.
  const auto copy = [&](bool ordered) {
    reset(devices);
    use(first);
    fills<<<blocks, threads, 0, first.stream>>>(first.x, 7);
    if (ordered) order(first, second);
    (void)cudaMemcpyPeerAsync(second.y, 1, first.x, 0, n * sizeof(int), second.stream);
    wait_for_both(devices);
    (void)cudaGetLastError();
  };
  const std::uint64_t faults = simulator.on_gpu() ? 0 : simulator.api().faults();
  copy(true);
  value_is(second.y, 7);
  if (simulator.on_gpu()) return;
  simulator.check(simulator.api().faults() == faults, "a copy after an event", "");
  copy(false);  // perhaps between two blocks of the kernel: then the next block races with it, too
  const std::string fault = simulator.api().last_fault();
  simulator.check(simulator.api().faults() != faults && fault.find("a copy on device 1") != fault.npos,
                  "a copy", fault);
}

}  // namespace

int main() {
  Simulator simulator(__FILE__);
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  if (count < 2) {
    std::printf("skipped: needs two devices\n");
    return 3;
  }
  const Expectations expect(simulator);
  const Devices devices{make_device(0), make_device(1)};
  reset(devices);
  int can_access = 0;
  CUDA_CHECK(cudaDeviceCanAccessPeer(&can_access, 0, 1));
  const char* const peers = std::getenv("SIM_PEERS");
  if (can_access == 0 || (peers != nullptr && std::strcmp(peers, "0") == 0)) {  // ignored, it shows there
    test_without_peers(expect, devices);
    return simulator.result();
  }
  test_calls(expect, devices);
  test_peer_access(simulator, expect, devices);
  simulator.in_every_order([&](int /*seed*/) {
    test_order(simulator, devices);
    test_graphs(simulator, expect, devices);
  });
  reset(devices);
  simulator.wrong("waits for a kernel that is never launched",
                  "byte 0 of 1024 (cudaMalloc) of device 1 again and again", [&] {
                    use(devices[0]);
                    waits_for<<<1, 1, 0, devices[0].stream>>>(devices[1].flags);
                    wait_for_both(devices);
                  });
  return simulator.result();
}
