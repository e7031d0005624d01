// Every variant of a stage beyond one right result: a launch that a graph repeats, and launches on two streams at once.
// Arguments: the library of a stage, as common/harness/c/c_interface.h takes it, and the variant, if not all.
#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/harness/cuda_handles.h"
#include "common/harness/variant.h"
#include "common/tests/device_test.h"
#include "common/tests/stage_library.h"

namespace {

using HostTensor = std::vector<unsigned char>;

/// A problem's inputs on host and device.
struct Inputs {
  explicit Inputs(const Problem& problem) {
    std::vector<void*> pointers;
    for (const Tensor& tensor : problem.inputs()) {
      pointers.push_back(host.emplace_back(tensor.bytes()).data());
    }
    problem.op->fill(problem, InputKind::normal, 7, pointers, Space::host);
    for (const HostTensor& tensor : host) {
      const auto& memory = device.emplace_back(allocate_device(tensor.size()));
      CUDA_CHECK(cudaMemcpy(memory.get(), tensor.data(), tensor.size(), cudaMemcpyHostToDevice));
    }
  }
  std::vector<HostTensor> host;
  std::vector<DeviceMemory> device;
};

/// Launches with a stream of their own.
class Launches {
 public:
  Launches(const Variant& variant, const Problem& problem, const Device& device, const Inputs& inputs)
      : outputs_(problem.outputs()), prepared_(variant, problem, device, inputs.device) {}

  void launch() { prepared_.launch(stream_.get()); }

  /// Each launch finds the workspace as the one before left it.
  void launch_from_a_graph(int times) {
    cudaGraph_t captured = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
    launch();
    CUDA_CHECK(cudaStreamEndCapture(stream_.get(), &captured));
    const Graph graph(captured);
    cudaGraphExec_t executable = nullptr;
    CUDA_CHECK(cudaGraphInstantiate(&executable, captured, 0));
    const GraphExec exec(executable);
    for (int i = 0; i < times; ++i) CUDA_CHECK(cudaGraphLaunch(exec.get(), stream_.get()));
    CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
  }

  std::vector<HostTensor> results() {
    CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
    std::vector<HostTensor> results;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      HostTensor& result = results.emplace_back(outputs_[i].bytes());
      CUDA_CHECK(
          cudaMemcpy(result.data(), prepared_.memory().outputs[i], result.size(), cudaMemcpyDeviceToHost));
    }
    return results;
  }

 private:
  std::vector<Tensor> outputs_;
  Prepared prepared_;
  Stream stream_ = make_stream();
};

/// Its sums take in the parts of a row in the order in which blocks have ended (the decoupled look-back of CUB's
/// reduce by key, for which CUB's documentation promises no fixed bits): each result is verified instead.
bool bits_vary(const Variant& variant) {
  return variant.name == "thrust_calls";
}

/// "", or the problem.
std::string what_is_wrong(const Variant& variant, const Problem& problem, const Device& device,
                          const Inputs& inputs) {
  const auto make = [&] { return Launches(variant, problem, device, inputs); };
  Launches once = make();
  once.launch();
  std::vector<HostTensor> expected = once.results();
  const auto error = [&](std::vector<HostTensor>& results) -> std::string {
    Memory memory;
    for (const HostTensor& input : inputs.host) memory.inputs.push_back(input.data());
    for (HostTensor& output : results) memory.outputs.push_back(output.data());
    for (const Verdict& verdict : problem.op->verify(problem, memory, Space::host, 1)) {
      if (!verdict.correct) return verdict.explanation;
    }
    return "";
  };
  if (const std::string wrong = error(expected); !wrong.empty()) return "one launch: " + wrong;
  const auto alike = [&](std::vector<HostTensor> results) {
    return bits_vary(variant) ? error(results).empty() : results == expected;
  };

  if (variant.capturable) {
    Launches repeated = make();
    repeated.launch_from_a_graph(device.simulated ? 3 : 100);
    if (!alike(repeated.results())) return "other bits after a graph was launched again and again";
  }

  Launches one = make();
  Launches other = make();
  for (int turn = 0; turn < 2; ++turn) {
    one.launch();
    other.launch();
  }
  return alike(one.results()) && alike(other.results()) ? ""
                                                        : "other bits with another launch on a second stream";
}

/// Checks the first of the stage's operations that the variant does. only: the variant's name, or "".
bool check_stage(const Stage& stage, const std::string& only, const Device& device) {
  bool all = true;
  std::vector<Shape> shapes{{5, 500}, {5, 8192}};
  // More rows than blocks at once: rows are drawn from a counter. Takes the simulator a minute.
  if (!device.simulated) shapes.push_back({1000, 19200});
  for (const Shape shape : shapes) {
    std::map<const Operation*, Inputs> inputs_of;
    for (const Variant& variant : stage.variants) {
      if (!only.empty() && variant.name != only) continue;
      Problem problem{shape, DType::f32, stage.operations.front(), {}};
      std::string reason = variant.unsupported(problem, device);
      for (const Operation* op : stage.operations) {
        if (reason.empty()) break;
        problem.op = op;
        reason = variant.unsupported(problem, device);
      }
      const Inputs& inputs = inputs_of.try_emplace(problem.op, problem).first->second;
      const std::string wrong = reason.empty() ? what_is_wrong(variant, problem, device, inputs) : "";
      const std::string verdict = wrong.empty() ? "ok" : "WRONG: " + wrong;
      std::printf("%s %s, %s: %s\n", stage.name.c_str(), variant.name.c_str(), describe(problem).c_str(),
                  reason.empty() ? verdict.c_str() : ("not applicable: " + reason).c_str());
      all &= wrong.empty();
    }
  }
  return all;
}

/// The most rows that fit in a grid of INT_MAX blocks, for variants in which each row has a block, a warp (of
/// four in a block) or a cluster.
struct MostRows {
  std::string_view stage, variant;
  std::int64_t rows, cols;
};
constexpr std::int64_t grid_blocks = INT_MAX;
constexpr std::array<MostRows, 11> most_rows{{
    {"03_warp_reduce", "scalar_loads", grid_blocks * 4, 8},
    {"03_warp_reduce", "padded_packs", grid_blocks * 4, 8},
    {"03_warp_reduce", "narrow_groups", grid_blocks * 4, 8},
    {"06_online", "fused", grid_blocks, 8},
    {"10_cluster", "two_barriers_8", grid_blocks / 8, 8},
    {"10_cluster", "one_way_4", grid_blocks / 4, 8},
    {"10_cluster", "one_way_8", grid_blocks / 8, 8},
    {"10_cluster", "one_way_16", grid_blocks / 16, 8},
    {"rowwise_bench", "unaligned_cluster", grid_blocks / 2, 1},
    {"rowwise_bench", "backward_unaligned_cluster", grid_blocks / 2, 1},
    {"rowwise_bench", "gradient_unaligned_cluster", grid_blocks / 2, 1},
}};

/// The variant does an operation of the stage, unless the GPU is too old, and refuses one more row.
bool refuses_more(const Variant& variant, const MostRows& most, const Stage& stage, const Device& device) {
  bool all = true;
  bool has_clusters = true;
  int checked = 0;
  for (const Operation* op : stage.operations) {
    const auto reason = [&](std::int64_t rows) {
      return variant.unsupported({{rows, most.cols}, DType::bf16, op, {}}, device);
    };
    if (const std::string of_few = reason(5); !of_few.empty()) {  // or the operation is another variant's
      has_clusters &= of_few.find("cluster") == std::string::npos;
      continue;
    }
    ++checked;
    all &= reason(most.rows).empty() && !reason(most.rows + 1).empty() &&
           !reason((std::int64_t{1} << 34) + 5).empty();
  }
  return all && (checked > 0 || !has_clusters);
}

bool check_most_rows(const Stage& stage, const Device& device) {
  bool all = true;
  for (const MostRows& most : most_rows) {
    if (most.stage != stage.name) continue;
    const auto variant = std::find_if(stage.variants.begin(), stage.variants.end(),
                                      [&](const Variant& one) { return one.name == most.variant; });
    if (variant != stage.variants.end() && refuses_more(*variant, most, stage, device)) continue;
    std::printf("WRONG: %s is no variant that takes as many rows as a grid has blocks for, and no more\n",
                std::string(most.variant).c_str());
    all = false;
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  return run_on_device([&](const Device& device) {
    const Stage& stage = load_stage(argv[1]);
    const bool rows = check_most_rows(stage, device);
    return check_stage(stage, argc > 2 ? argv[2] : "", device) && rows;
  });
}
