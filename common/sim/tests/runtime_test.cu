// The runtime functions of the simulator as the harness uses them, and its messages: libraries of PTX text,
// printf and assert of kernels, streams, events and graphs.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/sim/counters.h"
#include "common/sim/tests/captured.h"
#include "common/sim/tests/cuda_check.h"

namespace {

const SimApi* simulator = nullptr;
int failures = 0;

void expect(bool right, const char* what, const std::string& details = "") {
  std::printf("%-4s %s%s%s\n", right ? "ok" : "FAIL", what, right ? "" : ": ", right ? "" : details.c_str());
  if (!right) ++failures;
}
void expect_error(cudaError_t got, cudaError_t wanted, const char* what) {
  expect(got == wanted, what, cudaGetErrorName(got));
  (void)cudaGetLastError();
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// ---- Kernels

__global__ void add_one(int* x) {
  x[threadIdx.x] += 1;
}

__global__ void prints(float f) {
  printf("thread %d of block %u: %5.2f|%-4d|%s|%%|%llx|%c|%*d\n", threadIdx.x, blockIdx.x, f, -7, "text",
         1ull << 40, 'c', 5, 42);
}
__global__ void counts_arguments(int* x) {
  x[0] = printf("%d of %s%%\n", 1, "two");
  x[1] = printf("none\n");
  x[2] = printf("%*d\n", 3, 4);
}
__global__ void asserts(int n) {
  assert(static_cast<int>(threadIdx.x) != n && "a condition");
}
constexpr int assert_line = __LINE__ - 2;

// ---- Libraries

#if CUDART_VERSION >= 12080

cudaError_t load(cudaLibrary_t& library, const std::string& ptx) {
  return cudaLibraryLoadData(&library, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
}

void test_libraries() {
  const std::string ptx = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry good(.param .u64 x)
{
  .reg .b64 %x;
  ld.param.u64 %x, [x];
  st.global.b32 [%x], 42;
  ret;
}
.visible .entry strange()
{
  .reg .b32 %r<3>;
  mov.b32 %r1, 1;
  frobnicate.u32 %r2, %r1;
  ret;
}
)";
  constexpr int strange_line = 15;
  cudaLibrary_t library = nullptr;
  expect_error(load(library, ptx), cudaSuccess, "a library with an unknown instruction loads");
  cudaKernel_t good = nullptr;
  cudaKernel_t strange = nullptr;
  cudaKernel_t absent = nullptr;
  expect_error(cudaLibraryGetKernel(&good, library, "good"), cudaSuccess, "its kernels are found");
  expect_error(cudaLibraryGetKernel(&strange, library, "strange"), cudaSuccess,
               "also the one that cannot run");
  expect_error(cudaLibraryGetKernel(&absent, library, "absent"), cudaErrorSymbolNotFound, "and no other");

  const auto launch = [](cudaKernel_t kernel, void* pointer) {
    std::array<void*, 1> arguments{&pointer};
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments.data(), 0,
                            nullptr);
  };
  const DeviceMemory x = allocate_device(sizeof(int));
  const auto faults = simulator->faults();
  expect_error(launch(strange, nullptr), cudaErrorIllegalInstruction,
               "an unknown instruction is an error where it runs");
  (void)cudaDeviceSynchronize();
  const std::string text = simulator->last_fault();
  expect(simulator->faults() == faults + 1 &&
             contains(text, "'frobnicate.u32 %r2, %r1', line " + std::to_string(strange_line)) &&
             contains(text, "in strange"),
         "its report names instruction, line and kernel", text);
  expect_error(launch(good, x.get()), cudaSuccess, "the next launch works");
  int value = 0;
  CUDA_CHECK(cudaMemcpy(&value, x.get(), sizeof value, cudaMemcpyDeviceToHost));
  expect(value == 42, "and is right", std::to_string(value));

  expect_error(cudaLibraryUnload(library), cudaSuccess, "a library is unloaded");
  expect_error(launch(good, x.get()), cudaErrorInvalidDeviceFunction, "its kernels are gone");
  expect_error(cudaLibraryUnload(library), cudaErrorInvalidResourceHandle, "and it is no library any more");

  cudaError_t error = cudaSuccess;
  std::string said = captured(stderr, [&] { error = load(library, ptx.substr(0, ptx.rfind('}'))); });
  expect_error(error, cudaErrorInvalidPtx, "text that is cut is refused");
  expect(contains(said, "line 11: a brace is not closed"), "with the line", said);
  said = captured(stderr, [&] {
    error = load(library, ".version 8.0\n.target sm_90\n.entry k() {\n bra nowhere;\n}\n");
  });
  expect_error(error, cudaErrorInvalidPtx, "a branch to no label is refused");
  expect(contains(said, "line 4: no label nowhere"), "with the line", said);
  said = captured(stderr, [&] {
    error = load(library,
                 "\x7f"
                 "ELF and so on");
  });
  expect_error(error, cudaErrorInvalidKernelImage, "what is no PTX is refused");
  expect(contains(said, "no PTX text"), "by that name", said);
  expect_error(load(library, ""), cudaErrorInvalidKernelImage, "also nothing at all");
  (void)captured(stderr,
                 [&] { error = cudaLibraryLoadData(nullptr, "", nullptr, nullptr, 0, nullptr, nullptr, 0); });
  expect_error(error, cudaErrorInvalidValue, "also no library");
}

#else

void test_libraries() {
  std::printf("skip libraries of PTX text: need the toolkit of CUDA 12.8 or newer\n");
}

#endif

// ---- The output of kernels

void test_printf_and_assert() {
  const std::string printed = captured(stdout, [] {
    prints<<<2, 2>>>(1.25F);
    (void)cudaDeviceSynchronize();
  });
  std::string wanted;
  for (int block = 0; block < 2; ++block) {
    for (int thread = 0; thread < 2; ++thread) {
      wanted += "thread " + std::to_string(thread) + " of block " + std::to_string(block) +
                ":  1.25|-7  |text|%|10000000000|c|   42\n";
    }
  }
  expect(printed == wanted, "printf of a kernel", printed);

  const DeviceMemory counts = allocate_device(3 * sizeof(int));
  (void)captured(stdout, [&] { counts_arguments<<<1, 1>>>(static_cast<int*>(counts.get())); });
  std::array<int, 3> count{};
  CUDA_CHECK(cudaMemcpy(count.data(), counts.get(), sizeof count, cudaMemcpyDeviceToHost));
  expect(count == std::array{2, 0, 2}, "printf gives the number of its arguments", std::to_string(count[2]));

  asserts<<<3, 64>>>(40);
  expect_error(cudaDeviceSynchronize(), cudaErrorAssert, "a failed assertion is an error");
  const std::string text = simulator->last_fault();
  expect(contains(text, "threadIdx.x) != n && \"a condition\"") &&
             contains(text, "runtime_test.cu:" + std::to_string(assert_line)) &&
             contains(text, "thread (40, 0, 0) of block (0, 0, 0)"),
         "and names condition, file, line, thread and block", text);
}

// ---- Streams, events and graphs, as the harness's timer uses them

void test_graphs() {
  constexpr int count = 32;
  const DeviceMemory memory = allocate_device(count * sizeof(int));
  auto* x = static_cast<int*>(memory.get());
  const auto values_are = [&](int value) {
    std::vector<int> host(count);
    CUDA_CHECK(cudaMemcpy(host.data(), x, count * sizeof(int), cudaMemcpyDeviceToHost));
    return host == std::vector<int>(count, value);
  };
  const Stream stream = make_stream();
  const Event start = make_event();
  const Event stop = make_event();
  CUDA_CHECK(cudaMemsetAsync(x, 0, count * sizeof(int), stream.get()));
  const cudaStreamAttrValue no_window{};
  CUDA_CHECK(cudaStreamSetAttribute(stream.get(), cudaStreamAttributeAccessPolicyWindow, &no_window));
  CUDA_CHECK(cudaCtxResetPersistingL2Cache());

  simulator->begin();
  CUDA_CHECK(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  add_one<<<1, count, 0, stream.get()>>>(x);
  add_one<<<1, count, 0, stream.get()>>>(x);
  CUDA_CHECK(cudaGetLastError());
  expect_error(cudaStreamSynchronize(stream.get()), cudaErrorStreamCaptureUnsupported,
               "a capture cannot be waited for");
  cudaGraph_t raw_graph = nullptr;
  CUDA_CHECK(cudaStreamEndCapture(stream.get(), &raw_graph));
  GraphExec exec;
  {
    const Graph graph(raw_graph);
    std::size_t nodes = 0;
    CUDA_CHECK(cudaGraphGetNodes(graph.get(), nullptr, &nodes));
    expect(nodes == 2, "a graph has the launches that were captured", std::to_string(nodes));
    cudaGraphExec_t raw_exec = nullptr;
    CUDA_CHECK(cudaGraphInstantiate(&raw_exec, graph.get(), 0));
    exec.reset(raw_exec);
  }
  expect(values_are(0) && simulator->launches() == 0, "nothing runs while it is captured");
  CUDA_CHECK(cudaEventRecord(start.get(), stream.get()));
  CUDA_CHECK(cudaGraphLaunch(exec.get(), stream.get()));
  CUDA_CHECK(cudaGraphLaunch(exec.get(), stream.get()));
  CUDA_CHECK(cudaEventRecord(stop.get(), stream.get()));
  CUDA_CHECK(cudaEventSynchronize(stop.get()));
  expect(values_are(4), "a graph of two launches, launched twice");
  simulator->end();
  bool counted = simulator->launches() == 4;
  for (std::size_t i = 0; counted && i < 4; ++i) {
    const SimCounters& counters = simulator->launch(i)->counters;
    counted = counters.global_loads.requests == 1 && counters.global_stores.sectors == 4;
  }
  expect(counted, "each of its launches is counted", std::to_string(simulator->launches()));

  add_one<<<1, count, 0, stream.get()>>>(x);
  CUDA_CHECK(cudaStreamSynchronize(stream.get()));
  expect(values_are(5), "after a capture the stream runs at once again");
  float milliseconds = -1;
  cudaError_t error = cudaSuccess;
  const std::string said = captured(stderr, [&] {
    for (int i = 0; i < 2; ++i) error = cudaEventElapsedTime(&milliseconds, start.get(), stop.get());
  });
  expect_error(error, cudaSuccess, "a program that asks for the time goes on");
  expect(std::isnan(milliseconds), "but is given none");
  expect(said == "simulator: time is not simulated: cudaEventElapsedTime gives NaN\n", "and told so, once",
         said);

  CUDA_CHECK(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  add_one<<<1, count, 0, stream.get()>>>(x + 1);  // one element too far
  CUDA_CHECK(cudaStreamEndCapture(stream.get(), &raw_graph));
  const Graph wrong(raw_graph);
  cudaGraphExec_t raw_exec = nullptr;
  CUDA_CHECK(cudaGraphInstantiate(&raw_exec, wrong.get(), 0));
  const GraphExec wrong_exec(raw_exec);
  (void)captured(stderr, [&] { error = cudaGraphLaunch(wrong_exec.get(), stream.get()); });
  expect_error(error, cudaErrorIllegalAddress, "a kernel of a graph that is wrong is an error of its launch");
  (void)cudaDeviceSynchronize();
}

// ---- Constants

__constant__ int factors[4] = {1, 2, 3, 4};

__global__ void multiply(const int* x, int* y) {
  y[threadIdx.x] = x[threadIdx.x] * factors[threadIdx.x % 4];
}

void test_constants() {
  constexpr int count = 32;
  const DeviceMemory x = allocate_device(count * sizeof(int));
  const DeviceMemory y = allocate_device(count * sizeof(int));
  const std::vector<int> ones(count, 1);
  CUDA_CHECK(cudaMemcpy(x.get(), ones.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  simulator->begin();
  multiply<<<1, count>>>(static_cast<const int*>(x.get()), static_cast<int*>(y.get()));
  CUDA_CHECK(cudaDeviceSynchronize());
  simulator->end();
  std::vector<int> result(count);
  CUDA_CHECK(cudaMemcpy(result.data(), y.get(), count * sizeof(int), cudaMemcpyDeviceToHost));
  expect(result[0] == 1 && result[31] == 4, "each lane reads a constant of its own");
  const SimAccesses& loads = simulator->launch(0)->counters.global_loads;
  expect(loads.requests == 1 && loads.bytes == count * sizeof(int), "which is no load from global memory",
         std::to_string(loads.requests) + " requests, " + std::to_string(loads.bytes) + " bytes");
}

}  // namespace

int main() {
  const auto api = reinterpret_cast<sim_api_function>(dlsym(RTLD_DEFAULT, SIM_API_NAME));
  if (api == nullptr) {
    std::printf("this is not running under the simulator\n");
    return 3;
  }
  simulator = api();
  test_libraries();
  test_printf_and_assert();
  test_graphs();
  test_constants();
  return failures == 0 ? 0 : 1;
}
