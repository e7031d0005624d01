// Blocks that run at the same time, on several threads of the simulator, leave the same results, counters and reports as
// those that run one after the other.
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/sim/tests/cuda_check.h"
#include "common/sim/tests/expect_fault.cuh"

namespace {

constexpr unsigned blocks = 150;
constexpr unsigned threads = 96;
constexpr unsigned count = blocks * threads;

/// Enough work for threads to be worth it.
__device__ float churned(float value) {
  for (int i = 0; i < 300; ++i) value = value * 0.99F + 0.5F;
  return value;
}

__global__ void own_parts(const float* x, float* y) {
  __shared__ float values[threads];
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  values[threadIdx.x] = churned(x[i]);
  __syncthreads();
  if (blockIdx.x % 3 != 0) y[i] = values[threads - 1 - threadIdx.x];
}

/// Parts that share pages, sectors and words.
__global__ void small_parts(const float* x, float* y) {
  constexpr unsigned part = 7;
  auto* bytes = reinterpret_cast<unsigned char*>(y);
  const float value = churned(x[threadIdx.x]);
  if (threadIdx.x < part)
    bytes[blockIdx.x * part + threadIdx.x] = static_cast<unsigned char>(value + blockIdx.x);
}

__global__ void in_place(const float* x, float* y) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  y[i] = churned(x[i]);
  y[i] += 1;
}

/// Each block reads the elements that the next one writes, some of them or all.
template <int number>
__global__ void read_the_next(const float* x, float* y) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  const float next = blockIdx.x + 1 < blocks ? y[i + threads] : 0;
  y[i] = churned(x[i]) + next;
}
template <int number>
__global__ void read_the_one_before(const float* x, float* y) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  y[i] = churned(x[i]) + (blockIdx.x > 0 && threadIdx.x == 0 ? y[i - threads] : 0);
}

__global__ void write_the_same(const float* x, float* y) {
  if (churned(x[threadIdx.x]) >= 0) y[threadIdx.x] = 1;
}
__global__ void write_different(const float* x, float* y) {
  y[threadIdx.x] = churned(x[threadIdx.x]) + blockIdx.x;
}

__global__ void leave_the_array(const float* x, float* y) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  y[blockIdx.x == blocks - 2 ? i + count : i] = churned(x[i]);
}

__global__ void wait_for_the_next(const float* x, float* y) {
  auto* flags = reinterpret_cast<volatile int*>(y);
  const float value = churned(x[threadIdx.x]);
  if (threadIdx.x != 0 || value < 0) return;
  flags[blockIdx.x] = 1;
  while (flags[(blockIdx.x + 1) % gridDim.x] != 1) {
  }
}

__global__ void take_tickets(const float* x, float* y) {
  auto* counters = reinterpret_cast<unsigned*>(y);
  if (churned(x[threadIdx.x]) >= 0) counters[1 + atomicAdd(counters, 1)] = blockIdx.x * threads + threadIdx.x;
}

using Kernel = void (*)(const float*, float*);

/// Everything that a launch leaves.
struct Outcome {
  cudaError_t error = cudaSuccess;
  std::string fault;
  std::string counters;
  std::vector<unsigned> y = std::vector<unsigned>(count + 1);
};

class Runs {
 public:
  explicit Runs(const SimApi& api) : api_(api) {
    const std::vector<float> ones(count + 1, 1.0F);
    CUDA_CHECK(cudaMemcpy(x_.get(), ones.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  }

  Outcome run(Kernel kernel, const char* of_threads, bool y_is_written) {
    setenv("SIM_THREADS", of_threads, 1);
    constexpr std::size_t bytes = (count + 1) * sizeof(float);
    CUDA_CHECK(cudaMemset(y_.get(), 0, bytes));
    if (!y_is_written) api_.forget(y_.get(), bytes);
    const auto faults = api_.faults();
    api_.begin();
    kernel<<<blocks, threads>>>(static_cast<float*>(x_.get()), static_cast<float*>(y_.get()));
    api_.end();
    Outcome outcome;
    outcome.error = cudaGetLastError();
    if (api_.faults() != faults)
      outcome.fault = std::to_string(api_.faults() - faults) + " " + api_.last_fault();
    const SimLaunch& launch = *api_.launch(0);
    outcome.counters.assign(reinterpret_cast<const char*>(&launch.counters), sizeof launch.counters);
    for (std::size_t i = 0; i < launch.lines; ++i) {
      const SimLine& line = *api_.line(0, i);
      outcome.counters += line.place;
      outcome.counters.append(reinterpret_cast<const char*>(&line.counters), sizeof line.counters);
    }
    CUDA_CHECK(cudaMemcpy(outcome.y.data(), y_.get(), bytes, cudaMemcpyDeviceToHost));
    return outcome;
  }

 private:
  const SimApi& api_;
  DeviceMemory x_ = allocate_device(count * sizeof(float));
  DeviceMemory y_ = allocate_device((count + 1) * sizeof(float));
};

struct Case {
  const char* name;
  Kernel kernel;
  bool y_is_written;
  bool is_wrong;
  const char* check = "stop";
};

}  // namespace

int main() {
  const Simulator simulator(__FILE__);
  if (simulator.on_gpu()) return 0;
  Runs runs(simulator.api());
  for (const Case& one : {
           Case{"own parts", own_parts, false, false},
           Case{"own parts, of what is written", own_parts, true, false},
           Case{"small parts", small_parts, false, false},
           Case{"small parts of what is written", small_parts, true, false},
           Case{"in place", in_place, false, false},
           Case{"reads what the next writes", read_the_next<0>, true, true},
           Case{"reads what the next writes, said", read_the_next<1>, true, true, "warn"},
           Case{"reads what the next writes, not said", read_the_next<2>, true, false, "off"},
           Case{"reads what nobody has written", read_the_next<3>, false, true},
           Case{"reads what the one before wrote", read_the_one_before<0>, true, true},
           Case{"reads what the one before wrote, said", read_the_one_before<1>, false, true, "warn"},
           Case{"all write the same", write_the_same, false, false},
           Case{"all write something else", write_different, false, true},
           Case{"leaves the array", leave_the_array, false, true},
           Case{"waits for the next", wait_for_the_next, true, false},
           Case{"tickets", take_tickets, true, false},
       }) {
    setenv("SIM_CHECK", one.check, 1);
    // A kernel whose blocks have turned out to meet runs on one thread from then on: so that is done last.
    const Outcome on_five = runs.run(one.kernel, "5", one.y_is_written);
    const Outcome on_two = runs.run(one.kernel, "2", one.y_is_written);
    const Outcome on_one = runs.run(one.kernel, "1", one.y_is_written);
    simulator.check(on_five.fault.empty() != one.is_wrong, one.name, "is judged: " + on_five.fault);
    const bool is_said_again = std::strcmp(one.check, "warn") != 0;  // that is said once for a source line
    for (const Outcome* other : {&on_two, &on_five}) {
      const bool same = other->error == on_one.error && (other->fault == on_one.fault || !is_said_again);
      simulator.check(same, one.name, "same report " + (same ? "" : other->fault));
      simulator.check(other->counters == on_one.counters, one.name, "same counters");
      simulator.check(other->y == on_one.y, one.name, "same results");
    }
  }
  return simulator.result();
}
