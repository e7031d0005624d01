// Calls of the runtime as other people's programs make them: wrong handles and pointers, memory that host and kernels
// share, copies of rows, captures that fork, graphs built by hand.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "common/sim/counters.h"
#include "common/sim/tests/captured.h"

namespace {

int failures = 0;

void expect(bool right, const char* what, const std::string& details = "") {
  std::printf("%-4s %s%s%s\n", right ? "ok" : "FAIL", what, right ? "" : ": ", right ? "" : details.c_str());
  if (!right) ++failures;
}
void expect_error(cudaError_t got, cudaError_t wanted, const char* what) {
  expect(got == wanted, what, cudaGetErrorName(got));
  (void)cudaGetLastError();
}
void expect_success(cudaError_t got, const char* what) {
  expect_error(got, cudaSuccess, what);
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The text that `run` writes to stderr.
template <class Run>
std::string said_by(Run run) {
  return captured(stderr, run);
}

__global__ void add(int* x, int value) {
  x[threadIdx.x] += value;
}
__global__ void twice(int* x) {
  x[threadIdx.x] *= 2;
}

__managed__ int shared_count = 5;
__managed__ float shared_values[4];
__global__ void use_managed() {
  if (threadIdx.x == 0) shared_count += 1;
  shared_values[threadIdx.x] = 0.5F;
}
__device__ int on_device[4];

// ---- Handles and pointers that are none

void test_handles() {
  cudaEvent_t event = nullptr;
  cudaStream_t stream = nullptr;
  expect_success(cudaEventCreate(&event), "an event");
  expect_success(cudaStreamCreate(&stream), "a stream");
  expect_error(cudaEventRecord(event, reinterpret_cast<cudaStream_t>(event)), cudaErrorInvalidResourceHandle,
               "an event is no stream");
  float milliseconds = 0;
  expect_error(cudaEventElapsedTime(&milliseconds, event, event), cudaErrorInvalidResourceHandle,
               "an event that was not recorded has no time");
  expect_success(cudaEventDestroy(event), "an event is destroyed");
  for (const cudaEvent_t stale : {event, cudaEvent_t{nullptr}, reinterpret_cast<cudaEvent_t>(&stream)}) {
    expect_error(cudaEventDestroy(stale), cudaErrorInvalidResourceHandle, "no event: destroyed");
    expect_error(cudaEventRecord(stale, stream), cudaErrorInvalidResourceHandle, "no event: recorded");
    expect_error(cudaEventQuery(stale), cudaErrorInvalidResourceHandle, "no event: asked");
    expect_error(cudaEventSynchronize(stale), cudaErrorInvalidResourceHandle, "no event: waited for");
    expect_error(cudaStreamWaitEvent(stream, stale, 0), cudaErrorInvalidResourceHandle,
                 "no event: by a stream");
    expect_error(cudaEventElapsedTime(&milliseconds, stale, stale), cudaErrorInvalidResourceHandle,
                 "no event: its time");
  }
  expect_success(cudaStreamDestroy(stream), "a stream is destroyed");
  expect_error(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle, "no stream: destroyed");
  expect_error(cudaMemsetAsync(nullptr, 0, 0, stream), cudaErrorInvalidResourceHandle, "no stream: used");
  add<<<1, 1, 0, stream>>>(nullptr, 1);
  expect_error(cudaGetLastError(), cudaErrorInvalidResourceHandle, "no stream: launched on");

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  expect_success(cudaGraphCreate(&graph, 0), "a graph");
  expect_success(cudaGraphInstantiate(&exec, graph, 0), "a graph is instantiated");
  expect_success(cudaGraphDestroy(graph), "a graph is destroyed");
  expect_success(cudaGraphExecDestroy(exec), "an instance is destroyed");
  for (const cudaGraph_t stale : {graph, cudaGraph_t{nullptr}}) {
    expect_error(cudaGraphDestroy(stale), cudaErrorInvalidValue, "no graph: destroyed");
    expect_error(cudaGraphInstantiate(&exec, stale, 0), cudaErrorInvalidValue, "no graph: instantiated");
    std::size_t count = 0;
    expect_error(cudaGraphGetNodes(stale, nullptr, &count), cudaErrorInvalidValue, "no graph: its nodes");
  }
  for (const cudaGraphExec_t stale : {exec, cudaGraphExec_t{nullptr}}) {
    expect_error(cudaGraphExecDestroy(stale), cudaErrorInvalidValue, "no instance: destroyed");
    expect_error(cudaGraphLaunch(stale, nullptr), cudaErrorInvalidValue, "no instance: launched");
  }
}

void test_null_pointers() {
  const auto refused = [](cudaError_t error, const char* what) {
    expect_error(error, cudaErrorInvalidValue, what);
  };
  refused(cudaMalloc(static_cast<void**>(nullptr), 4), "null: cudaMalloc");
  refused(cudaMallocHost(static_cast<void**>(nullptr), 4), "null: cudaMallocHost");
  refused(cudaMallocManaged(static_cast<void**>(nullptr), 4), "null: cudaMallocManaged");
  refused(cudaMemcpy(nullptr, nullptr, 4, cudaMemcpyHostToHost), "null: cudaMemcpy");
  refused(cudaMemset(nullptr, 0, 4), "null: cudaMemset");
  refused(cudaMemGetInfo(nullptr, nullptr), "null: cudaMemGetInfo");
  refused(cudaEventCreate(nullptr), "null: cudaEventCreate");
  refused(cudaStreamCreate(nullptr), "null: cudaStreamCreate");
  refused(cudaStreamGetFlags(nullptr, nullptr), "null: cudaStreamGetFlags");
  refused(cudaStreamEndCapture(nullptr, nullptr), "null: cudaStreamEndCapture");
  refused(cudaGetDevice(nullptr), "null: cudaGetDevice");
  refused(cudaGetDeviceCount(nullptr), "null: cudaGetDeviceCount");
  refused(cudaGetDeviceProperties(nullptr, 0), "null: cudaGetDeviceProperties");
  refused(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0), "null: cudaDeviceGetAttribute");
  refused(cudaDriverGetVersion(nullptr), "null: cudaDriverGetVersion");
  refused(cudaRuntimeGetVersion(nullptr), "null: cudaRuntimeGetVersion");
  refused(cudaPointerGetAttributes(nullptr, nullptr), "null: cudaPointerGetAttributes");
  refused(cudaFuncGetAttributes(nullptr, add), "null: cudaFuncGetAttributes");
  refused(cudaOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, add, 32, 0), "null: the occupancy");
  refused(cudaLaunchKernel(reinterpret_cast<const void*>(add), dim3(1), dim3(1), nullptr, 0, nullptr),
          "null: the arguments of a kernel");
  refused(cudaLaunchHostFunc(nullptr, nullptr, nullptr), "null: a function of the host");
}

void test_double_free() {
  int* x = nullptr;
  expect_success(cudaMalloc(&x, 1024), "memory");
  cudaError_t error = cudaSuccess;
  std::string said = said_by([&] { error = cudaFree(x + 4); });
  expect_error(error, cudaErrorInvalidValue, "memory is freed from its beginning");
  expect(contains(said, "16 bytes into the 1024 bytes at 0x") && contains(said, "(cudaMalloc)"),
         "and it says why not", said);
  expect_success(cudaFree(x), "memory is freed");
  said = said_by([&] { error = cudaFree(x); });
  expect_error(error, cudaErrorInvalidValue, "but not twice");
  expect(contains(said, "cudaFree of 0x") && contains(said, "the 1024 bytes at 0x") &&
             contains(said, "(cudaMalloc) have been freed before"),
         "and it says what it was", said);
}

// ---- Memory that host and kernels share

void expect_type(const void* pointer, cudaMemoryType type, const char* what) {
  cudaPointerAttributes attributes{};
  (void)cudaPointerGetAttributes(&attributes, pointer);
  const bool on_host = type != cudaMemoryTypeDevice;
  const bool in_kernels = type != cudaMemoryTypeUnregistered;
  expect(attributes.type == type && (attributes.hostPointer == pointer) == on_host &&
             (attributes.devicePointer == pointer) == in_kernels,
         what, std::to_string(attributes.type));
}

/// A kernel adds 1 to 32 numbers that the host wrote, and the host reads them.
void expect_shared(int* x, const char* what) {
  std::iota(x, x + 32, 0);
  add<<<1, 32>>>(x, 1);
  const cudaError_t error = cudaDeviceSynchronize();
  expect(error == cudaSuccess && x[0] == 1 && x[31] == 32, what, cudaGetErrorName(error));
  (void)cudaGetLastError();
}

void test_shared_memory() {
  int* x = nullptr;
  const auto* const simulator = reinterpret_cast<sim_api_function>(dlsym(RTLD_DEFAULT, SIM_API_NAME))();
  expect_success(cudaMallocManaged(&x, 128), "cudaMallocManaged");
  expect_shared(x, "managed memory is the host's and the kernels'");
  expect_type(x, cudaMemoryTypeManaged, "is known as managed");
  expect_success(cudaMemset(x, 0, 128), "is filled");
  expect(x[31] == 0, "with that");
  std::array<int, 32> host{};
  host[3] = 7;
  expect_success(cudaMemcpy(x, host.data(), 128, cudaMemcpyHostToDevice), "is copied to");
  expect(x[3] == 7, "that");
  (void)said_by([&] { add<<<1, 64>>>(x, 1); });
  expect_error(cudaDeviceSynchronize(), cudaErrorIllegalAddress, "and has an end");
  expect(contains(simulator->last_fault(), "0 bytes past the end of the 128 bytes") &&
             contains(simulator->last_fault(), "(cudaMallocManaged)"),
         "which is named", simulator->last_fault());
  expect_success(cudaFree(x), "and is freed by cudaFree");
  (void)said_by([&] { add<<<1, 32>>>(x, 1); });
  expect_error(cudaDeviceSynchronize(), cudaErrorIllegalAddress, "after which kernels cannot use it");
  expect(contains(simulator->last_fault(), "0 bytes into memory that was freed (128 bytes"),
         "and are told why", simulator->last_fault());

  int* in_kernel = nullptr;
  expect_success(cudaHostAlloc(&x, 128, cudaHostAllocMapped), "cudaHostAlloc");
  expect_success(cudaHostGetDevicePointer(&in_kernel, x, 0), "has an address for kernels");
  expect_shared(in_kernel, "and is the host's and the kernels'");
  expect_type(x, cudaMemoryTypeHost, "is known as the host's");
  expect_success(cudaFreeHost(x), "and is freed by cudaFreeHost");
  cudaError_t error = cudaSuccess;
  const std::string said = said_by([&] { error = cudaFreeHost(x); });
  expect_error(error, cudaErrorInvalidValue, "but not twice");
  expect(contains(said, "(cudaHostAlloc) have been freed before"), "and it says what it was", said);

  std::vector<int> plain(4096);
  int* const middle = plain.data() + 2048;
  expect_type(middle, cudaMemoryTypeUnregistered, "a vector is unregistered");
  expect_error(cudaHostGetDevicePointer(&in_kernel, middle, 0), cudaErrorInvalidValue,
               "kernels cannot use it");
  (void)said_by([&] { add<<<1, 32>>>(middle, 1); });
  expect_error(cudaDeviceSynchronize(), cudaErrorIllegalAddress, "and it is a fault where one does");
  expect(contains(simulator->last_fault(), "which is a host pointer"), "which says what it is",
         simulator->last_fault());
  expect_success(cudaHostRegister(middle, 128, cudaHostRegisterMapped), "until it is registered");
  expect_error(cudaHostRegister(middle, 128, 0), cudaErrorHostMemoryAlreadyRegistered, "once");
  expect_shared(middle, "then they can");
  expect_type(middle, cudaMemoryTypeHost, "it is known as the host's");
  expect_success(cudaHostUnregister(middle), "and unregistered");
  expect_error(cudaHostUnregister(middle), cudaErrorHostMemoryNotRegistered, "once");
  expect_type(middle, cudaMemoryTypeUnregistered, "again");

  expect_success(cudaMalloc(&x, 128), "cudaMalloc");
  expect_type(x, cudaMemoryTypeDevice, "is known as the device's");
  expect_success(cudaFree(x), "until it is freed");
  expect_type(x, cudaMemoryTypeUnregistered, "then it is none");

  expect(shared_count == 5, "a __managed__ variable begins as it says", std::to_string(shared_count));
  shared_count = 10;
  use_managed<<<1, 4>>>();
  expect_success(cudaDeviceSynchronize(), "a kernel uses it");
  expect(shared_count == 11 && shared_values[3] == 0.5F, "and the host sees that",
         std::to_string(shared_count));
  const int value = 3;
  expect_success(cudaMemcpyToSymbol(shared_count, &value, sizeof value), "as a symbol it is copied to");
  expect(shared_count == 3, "that", std::to_string(shared_count));
}

// ---- Copies

void test_copies() {
  std::array<int, 12> host{};
  std::iota(host.begin(), host.end(), 0);
  char* x = nullptr;
  std::size_t pitch = 0;
  expect_success(cudaMallocPitch(&x, &pitch, 3 * sizeof(int), 4), "cudaMallocPitch");
  expect(pitch == 512, "pads as an H200 does", std::to_string(pitch));
  expect_success(cudaMemcpy2D(x, pitch, host.data(), 12, 12, 4, cudaMemcpyHostToDevice),
                 "rows are copied there");
  std::array<int, 12> back{};
  expect_success(cudaMemcpy2D(back.data(), 12, x, pitch, 12, 4, cudaMemcpyDeviceToHost), "and back");
  expect(back == host, "unchanged");
  expect_error(cudaMemcpy2D(x, 8, host.data(), 12, 12, 4, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue,
               "a pitch is no smaller than a row");
  expect_error(cudaMemcpy2D(x, pitch, host.data(), 0x7fffffff, 12, 4, cudaMemcpyDeviceToHost),
               cudaErrorInvalidValue, "a direction must be right");
  expect_error(cudaMemset2D(x, pitch, 0, 12, 5), cudaErrorInvalidValue, "a row too many");
  expect_success(cudaMemset2D(x, pitch, 1, 8, 2), "rows are filled");
  expect_success(cudaMemcpy2DAsync(back.data(), 12, x, pitch, 12, 4, cudaMemcpyDefault, nullptr),
                 "copied back");
  expect(back[0] == 0x01010101 && back[2] == 2 && back[4] == 0x01010101 && back[6] == 6, "and are that");
  // The bytes between the rows are still unwritten, and a copy does not change that.
  int* y = nullptr;
  expect_success(cudaMalloc(&y, 2048), "a copy");
  expect_success(cudaMemcpyPeer(y, 0, x, 0, 1024), "of it all");
  add<<<1, 3>>>(y + 128, 0);
  expect_success(cudaDeviceSynchronize(), "what was written is written there");
  (void)said_by([&] { add<<<1, 4>>>(y + 128, 0); });
  expect_error(cudaDeviceSynchronize(), cudaErrorLaunchFailure, "what was not written is not");
  expect_error(cudaMemcpyPeer(y, 1, x, 0, 8), cudaErrorInvalidDevice, "there is no second device");
  expect_success(cudaMemcpyToSymbolAsync(on_device, host.data(), 16, 0, cudaMemcpyHostToDevice), "a symbol");
  expect_success(cudaMemcpyFromSymbolAsync(back.data(), on_device, 8, 8, cudaMemcpyDeviceToHost), "and back");
  expect(back[0] == 2 && back[1] == 3, "from its middle");
  expect_error(cudaMemcpyToSymbol(on_device, host.data(), 20), cudaErrorInvalidValue, "a number too many");
  (void)cudaFree(x);
  (void)cudaFree(y);

  // Impossible sizes.
  constexpr std::size_t huge = ~std::size_t{0};
  void* none = nullptr;
  expect_error(cudaMalloc(&none, huge), cudaErrorMemoryAllocation, "huge: cudaMalloc");
  expect_error(cudaMallocManaged(&none, huge), cudaErrorMemoryAllocation, "huge: cudaMallocManaged");
  expect_error(cudaMallocHost(&none, huge), cudaErrorMemoryAllocation, "huge: cudaMallocHost");
  expect_error(cudaMallocPitch(&none, &pitch, huge, 2), cudaErrorMemoryAllocation, "huge: cudaMallocPitch");
  expect_error(cudaHostRegister(back.data(), huge, 0), cudaErrorMemoryAllocation, "huge: cudaHostRegister");
  expect_error(cudaMemcpy2D(back.data(), huge, host.data(), huge, 4, 3, cudaMemcpyHostToHost),
               cudaErrorInvalidPitchValue, "huge: the pitch of cudaMemcpy2D");
  expect_error(cudaMemset2D(back.data(), huge, 0, 4, 3), cudaErrorInvalidPitchValue, "huge: of cudaMemset2D");
}

// ---- Captures and graphs

int value_of(const int* x) {
  int value = -1;
  (void)cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
  return value;
}

/// Launches an instance of it, and destroys both.
void launch_and_destroy(cudaGraph_t graph, int times = 1) {
  cudaGraphExec_t exec = nullptr;
  expect_success(cudaGraphInstantiate(&exec, graph, 0), "it is instantiated");
  expect_success(cudaGraphDestroy(graph), "the graph may go");
  for (int i = 0; i < times; ++i) expect_success(cudaGraphLaunch(exec, nullptr), "it is launched");
  expect_success(cudaGraphExecDestroy(exec), "and destroyed");
}

void test_fork_and_join() {
  int* x = nullptr;
  cudaStream_t origin = nullptr;
  cudaStream_t side = nullptr;
  cudaEvent_t forks = nullptr;
  cudaEvent_t joins = nullptr;
  (void)cudaMalloc(&x, sizeof(int));
  (void)cudaMemset(x, 0, sizeof(int));
  (void)cudaStreamCreate(&origin);
  (void)cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  (void)cudaEventCreate(&forks);
  (void)cudaEventCreateWithFlags(&joins, cudaEventDisableTiming);
  const auto capture = [&](bool join) {
    expect_success(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal), "a capture begins");
    add<<<1, 1, 0, origin>>>(x, 1);
    expect_success(cudaEventRecord(forks, origin), "forks");
    expect_success(cudaStreamWaitEvent(side, forks, 0), "to another stream");
    cudaStreamCaptureStatus status{};
    expect_success(cudaStreamIsCapturing(side, &status), "which is");
    expect(status == cudaStreamCaptureStatusActive, "captured, too");
    add<<<1, 1, 0, side>>>(x, 2);
    expect_error(cudaEventQuery(forks), cudaErrorCapturedEvent, "its events cannot be asked");
    if (!join) return;
    expect_success(cudaEventRecord(joins, side), "and joins");
    expect_success(cudaStreamWaitEvent(origin, joins, 0), "again");
    twice<<<1, 1, 0, origin>>>(x);
  };
  capture(true);
  cudaGraph_t graph = nullptr;
  expect_error(cudaStreamEndCapture(side, &graph), cudaErrorStreamCaptureUnmatched, "it ends where it began");
  expect_success(cudaStreamEndCapture(origin, &graph), "and only there");
  expect(value_of(x) == 0, "nothing ran meanwhile", std::to_string(value_of(x)));
  std::size_t count = 0;
  expect_success(cudaGraphGetNodes(graph, nullptr, &count), "it has nodes");
  expect(count == 3, "three of them", std::to_string(count));
  launch_and_destroy(graph, 2);
  expect(value_of(x) == 18, "and does them in order", std::to_string(value_of(x)));
  add<<<1, 1, 0, side>>>(x, 1);
  expect(value_of(x) == 19, "the other stream is free again", std::to_string(value_of(x)));

  capture(false);
  expect_error(cudaStreamEndCapture(origin, &graph), cudaErrorStreamCaptureUnjoined, "a fork must be joined");
  expect(graph == nullptr, "or there is no graph");
  add<<<1, 1, 0, side>>>(x, 1);
  expect(value_of(x) == 20, "and the other stream is free", std::to_string(value_of(x)));

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
  expect_success(cudaEventRecord(forks, side), "an event outside");
  expect_success(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal), "of a capture");
  expect_error(cudaStreamWaitEvent(origin, forks, 0), cudaErrorStreamCaptureIsolation,
               "is not waited for in it");
  add<<<1, 1>>>(x, 100);
  expect_error(cudaGetLastError(), cudaErrorStreamCaptureImplicit, "the legacy stream would wait for it");
  expect_error(cudaStreamEndCapture(origin, &graph), cudaErrorStreamCaptureInvalidated, "which ends it");
  expect(value_of(x) == 20, "and does nothing", std::to_string(value_of(x)));
#else
  expect_success(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal), "a capture begins");
  add<<<1, 1>>>(x, 1);
  expect_success(cudaGetLastError(), "the thread's own stream waits for no other");
  expect_success(cudaStreamEndCapture(origin, &graph), "the capture ends");
  expect_success(cudaGraphDestroy(graph), "its graph is empty");
  expect(value_of(x) == 21, "and the work was done", std::to_string(value_of(x)));
#endif
  (void)cudaEventDestroy(forks);
  (void)cudaEventDestroy(joins);
  (void)cudaStreamDestroy(side);
  (void)cudaStreamDestroy(origin);
  (void)cudaFree(x);
}

void test_graph_by_hand() {
  int* x = nullptr;
  (void)cudaMalloc(&x, 4 * sizeof(int));
  std::array<int, 4> host{};
  int calls = 0;
  cudaGraph_t graph = nullptr;
  expect_success(cudaGraphCreate(&graph, 0), "a graph by hand");
  int value = 5;
  std::array<void*, 2> arguments{&x, &value};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(add);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(4);
  kernel.kernelParams = arguments.data();
  cudaMemsetParams fill{};
  fill.dst = x;
  fill.elementSize = 4;
  fill.value = 10;
  fill.width = 4;
  fill.height = 1;
  cudaHostNodeParams call{};
  call.fn = [](void* data) { ++*static_cast<int*>(data); };
  call.userData = &calls;
  // Added in the wrong order: the edges say what comes first.
  cudaGraphNode_t copied = nullptr;
  cudaGraphNode_t added = nullptr;
  cudaGraphNode_t filled = nullptr;
  cudaGraphNode_t called = nullptr;
  cudaGraphNode_t empty = nullptr;
  expect_success(cudaGraphAddMemcpyNode1D(&copied, graph, nullptr, 0, host.data(), x, sizeof host,
                                          cudaMemcpyDeviceToHost),
                 "of a copy");
  expect_success(cudaGraphAddKernelNode(&added, graph, nullptr, 0, &kernel), "a kernel");
  expect_success(cudaGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill), "a filling");
  expect_success(cudaGraphAddHostNode(&called, graph, &copied, 1, &call), "a function of the host");
  expect_success(cudaGraphAddEmptyNode(&empty, graph, &called, 1), "and of nothing");
  const std::array<cudaGraphNode_t, 2> from{filled, added};
  const std::array<cudaGraphNode_t, 2> to{added, copied};
#if CUDART_VERSION >= 13000
  expect_success(cudaGraphAddDependencies(graph, from.data(), to.data(), nullptr, 2), "in an order");
#else
  expect_success(cudaGraphAddDependencies(graph, from.data(), to.data(), 2), "in an order");
#endif
  value = 0;  // arguments are copied
  cudaGraphExec_t exec = nullptr;
  expect_success(cudaGraphInstantiate(&exec, graph, 0), "is instantiated");
  expect_success(cudaGraphLaunch(exec, nullptr), "and launched");
  expect(host == std::array{15, 15, 15, 15} && calls == 1, "does that", std::to_string(host[0]));
  value = 7;
  expect_success(cudaGraphExecKernelNodeSetParams(exec, added, &kernel), "its kernel is changed");
  expect_success(cudaGraphLaunch(exec, nullptr), "it is launched");
  expect(host[0] == 17 && calls == 2, "and does the other", std::to_string(host[0]));
  expect_success(cudaGraphExecDestroy(exec), "it is destroyed");
  cudaGraphNodeType type{};
  expect_success(cudaGraphNodeGetType(filled, &type), "a node has a type");
  expect(type == cudaGraphNodeTypeMemset, "its own");
  cudaGraphNode_t last = nullptr;
  expect_error(cudaGraphAddEmptyNode(&last, graph, &last, 1), cudaErrorInvalidValue,
               "after no node there is none");
  cudaGraph_t clone = nullptr;
  expect_success(cudaGraphClone(&clone, graph), "a copy of it");
  const cudaGraphNode_t end = empty;
#if CUDART_VERSION >= 13000
  expect_success(cudaGraphAddDependencies(graph, &end, &filled, nullptr, 1), "a circle");
#else
  expect_success(cudaGraphAddDependencies(graph, &end, &filled, 1), "a circle");
#endif
  expect_error(cudaGraphInstantiate(&exec, graph, 0), cudaErrorInvalidValue, "has no order");
  expect_success(cudaGraphDestroy(graph), "the graph is destroyed");
  expect_error(cudaGraphNodeGetType(filled, &type), cudaErrorInvalidValue, "with its nodes");
  launch_and_destroy(clone);
  expect(host[0] == 15 && calls == 3, "the copy has nodes of its own, in the order of then",
         std::to_string(host[0]));
  expect_error(cudaGraphClone(&clone, graph), cudaErrorInvalidValue, "no graph: copied");
  (void)cudaFree(x);
}

// ---- The blocks and clusters that the GPU holds

void test_clusters() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1024);
  config.blockDim = dim3(1024);
  config.dynamicSmemBytes = 120 << 10;  // one block per multiprocessor
  config.attrs = &attribute;
  config.numAttrs = 1;
  (void)cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, 120 << 10);
  int count = 0;
  expect_success(cudaOccupancyMaxPotentialClusterSize(&count, twice, &config), "the largest cluster");
  expect(count == 8, "has 8 blocks", std::to_string(count));
  attribute.val.clusterDim = {16, 1, 1};
  expect_error(cudaOccupancyMaxActiveClusters(&count, twice, &config), cudaErrorInvalidClusterSize,
               "and not 16");
  (void)cudaFuncSetAttribute(twice, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  expect_success(cudaOccupancyMaxPotentialClusterSize(&count, twice, &config), "unless it asks for that");
  expect(count == 16, "then it has 16", std::to_string(count));
  cudaDeviceProp properties{};
  expect_success(cudaGetDeviceProperties(&properties, 0), "the multiprocessors");
  const bool is_part =
      properties.multiProcessorCount == 20;  // a GPC of 18, and two multiprocessors of another
  for (const auto& [size, of_all, of_part] : {std::array{2, 66, 10}, {4, 30, 4}, {8, 15, 2}, {16, 7, 1}}) {
    attribute.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
    expect_success(cudaOccupancyMaxActiveClusters(&count, twice, &config), "clusters");
    expect(count == (is_part ? of_part : of_all), "as many as an H200 holds, or its part",
           std::to_string(count));
  }
  int block = 0;
  int grid = 0;
  expect_success(cudaOccupancyMaxPotentialBlockSize(&grid, &block, add), "the best block");
  expect(block == 1024 && grid == (is_part ? 40 : 264), "fills the GPU", std::to_string(grid));
}

// ---- Functions that are not simulated

void test_unsimulated() {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
  expect(floats.x == 32 && floats.w == 0 && floats.f == cudaChannelFormatKindFloat, "a format is described");
  cudaError_t error = cudaSuccess;
  const std::string said = said_by([&] {
    for (int i = 0; i < 2; ++i) error = cudaMallocArray(&array, &floats, 16);
  });
  expect_error(error, cudaErrorNotSupported, "arrays are an error");
  expect(said.rfind("simulator: cudaMallocArray is not simulated: there are no arrays, textures and surfaces",
                    0) == 0 &&
             said.find('\n') == said.size() - 1,
         "which is said, once", said);
}

}  // namespace

int main() {
  test_handles();
  test_null_pointers();
  test_double_free();
  test_shared_memory();
  test_copies();
  test_fork_and_join();
  test_graph_by_hand();
  test_clusters();
  test_unsimulated();
  return failures == 0 ? 0 : 1;
}
