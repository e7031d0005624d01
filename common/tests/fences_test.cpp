// The bytes around the tensors are checked, on both sides of input and output, and again after timing. Each
// launch here writes the right result, and all except the first also write one byte where they must not.
#include <cuda_runtime.h>

#include <cstdio>
#include <string>
#include <vector>

#include "common/harness/problem_run.h"
#include "common/kernel/cuda_check.h"
#include "common/tests/device_test.h"

namespace {

constexpr std::int64_t bytes = 48;  // of 3 x 4 floats
constexpr std::int64_t nowhere = 1 << 20;
const Problem aligned{{3, 4}, DType::f32, &softmax_operation};

struct Case {
  const char* name;
  bool in_input;
  std::int64_t byte;  ///< the extra one, from the tensor's start
  const char* explanation;
};

/// Takes no times: the simulator has none.
struct LaunchesOnce : Timer {
  using Timer::Timer;
  TimedVariant time(const TimedWork& work, const Sampling& /*sampling*/) override {
    for (std::size_t set = 0; launches && set < work.sets; ++set) work.launch(set, stream());
    return {};
  }
  bool launches = true;
};

/// Not a kernel: its output comes from the host.
Variant variant_of(const Case& expected) {
  const auto prepare = [&](const Problem&, const Device&, const Memory& memory) -> Plan {
    return [&, x = static_cast<char*>(const_cast<void*>(memory.inputs[0])),
            y = static_cast<char*>(memory.outputs[0])](cudaStream_t) {
      const std::vector<float> quarters(12, 0.25F);  // of an input whose elements are all equal
      CUDA_CHECK(cudaMemcpy(y, quarters.data(), bytes, cudaMemcpyHostToDevice));
      char* tensor = expected.in_input ? x : y;
      if (expected.byte != nowhere) CUDA_CHECK(cudaMemset(tensor + expected.byte, 0, 1));
      CUDA_CHECK(cudaDeviceSynchronize());
    };
  };
  return {.name = expected.name, .idea = "", .prepare = prepare, .traffic = whole_passes(1, 1)};
}

bool check(ProblemRun& run, Timer& timer, const Case& expected) {
  const Variant variant = variant_of(expected);
  const std::string verified = run.verify(variant, [](const Plan& plan) { plan(nullptr); }).explanation;
  const std::string after = run.time(variant, timer, {}).verdict.explanation;
  const std::string wrong = expected.explanation;
  if (verified == wrong && after == (wrong.empty() ? "" : "right before timing, not after: " + wrong))
    return true;
  std::printf("%s: '%s' and '%s', expected '%s'\n", expected.name, verified.c_str(), after.c_str(),
              expected.explanation);
  return false;
}

}  // namespace

int main() {
  return run_on_device([](const Device& device) {
    bool all = true;
    LaunchesOnce timer(device, L2::cold);
    for (const std::int64_t offset : {0, 1}) {
      Problem problem = aligned;
      problem.offsets = {offset, offset};
      ProblemRun run(problem, {.takes_times = false}, device);
      run.fill(InputKind::all_equal);
      for (const Case& expected :
           {Case{"nothing else", false, nowhere, ""},
            Case{"output, in front", false, -1, "wrote 1 bytes before the output's start"},
            Case{"output, far in front", false, -4000, "wrote 4000 bytes before the output's start"},
            Case{"output, behind", false, bytes, "wrote 1 bytes past the output's end"},
            Case{"output, far behind", false, bytes + 4000, "wrote 4001 bytes past the output's end"},
            Case{"input, in front", true, -1, "changed its input"},
            Case{"input, behind", true, bytes, "changed its input"},
            Case{"input, inside", true, 7, "changed its input"},
            Case{"nothing else, after all that", false, nowhere, ""}}) {
        all = check(run, timer, expected) && all;
      }
    }
    // The verified result must not pass for the timed one.
    ProblemRun run(aligned, {.takes_times = false}, device);
    run.fill(InputKind::all_equal);
    const Case right{"launched once", false, nowhere, ""};
    all = check(run, timer, right) && all;
    timer.launches = false;
    return run.time(variant_of(right), timer, {})
               .verdict.explanation.starts_with("right before timing, not after: 12 of 12 elements never") &&
           all;
  });
}
