// The bytes around the tensors are checked, on both sides of input and output, and again after timing, of every
// buffer set. Each launch here writes the right result, and all except the first also write one byte where they
// must not. Each of several outputs counts.
#include <cuda_runtime.h>

#include <cstdint>
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
    for (std::size_t set = 0; set < work.sets; ++set) {
      if (set != left_out) work.launch(set, stream());
    }
    sets = work.sets;
    return {};
  }
  std::size_t left_out = SIZE_MAX;
  std::size_t sets = 0;
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

/// Two verdicts come out as one, with the larger error and the first mistake, whichever of the two has it.
bool check_join(const Device& device) {
  static std::vector<Verdict> verdicts;
  Operation two = softmax_operation;
  two.name = "two outputs";
  two.outputs = [](const Problem& problem) {
    return std::vector<Tensor>{{"y", problem.dtype, problem.shape}, {"z", problem.dtype, problem.shape}};
  };
  two.verify = [](const Problem&, const Memory&, Space, double) { return verdicts; };
  Problem problem = aligned;
  problem.op = &two;
  ProblemRun run(problem, {.takes_times = false}, device);
  run.fill(InputKind::all_equal);
  const Case right{"two outputs", false, nowhere, ""};
  const auto joined = [&](const Verdict& y, const Verdict& z) {
    verdicts = {y, z};
    return run.verify(variant_of(right), [](const Plan& plan) { plan(nullptr); });
  };
  const Verdict small{true, "", 0.25};
  const Verdict large{true, "", 0.5};
  const Verdict wrong{false, "wrong", 2};
  const Verdict worse{false, "worse", 3};
  bool all = joined(small, large).max_error == 0.5 && joined(large, small).max_error == 0.5;
  all =
      all && joined(wrong, large).explanation == "y: wrong" && joined(small, wrong).explanation == "z: wrong";
  all = all && joined(wrong, worse).explanation == "y: wrong" && joined(wrong, worse).max_error == 3;
  if (!all) std::printf("the verdicts on two outputs are not joined to one\n");
  return all;
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
    // The verified result must not pass for the timed one, in any of the buffer sets.
    ProblemRun run(aligned, {.takes_times = true}, device);
    run.fill(InputKind::all_equal);
    const Case right{"launched on every set", false, nowhere, ""};
    all = check(run, timer, right) && all;
    for (const std::size_t set : {std::size_t{0}, timer.sets / 2, timer.sets - 1}) {
      timer.left_out = set;
      const std::string explanation = run.time(variant_of(right), timer, {}).verdict.explanation;
      if (explanation.starts_with("right before timing, not after: 12 of 12 elements never")) continue;
      std::printf("set %zu of %zu was left out: '%s'\n", set, timer.sets, explanation.c_str());
      all = false;
    }
    return check_join(device) && timer.sets > 2 && all;
  });
}
