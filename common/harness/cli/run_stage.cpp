#include "common/harness/cli/run_stage.h"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "common/harness/cli/command_line.h"
#include "common/harness/cli/report.h"
#include "common/harness/problem_run.h"
#include "common/harness/simulator.h"

namespace {

std::vector<const Variant*> selected_variants(const Stage& stage, const Options& options) {
  std::vector<const Variant*> selected;
  for (const Variant& variant : stage.variants) {
    const auto& wanted = options.variants;
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), variant.name) != wanted.end()) {
      selected.push_back(&variant);
    }
  }
  return selected;
}

/// Runs the selected variants on one problem and reports them.
class StageRun {
 public:
  StageRun(const Stage& stage, const Options& options, const Device& device, const Problem& problem,
           Timer& timer, Report& report)
      : stage_(stage),
        options_(options),
        device_(device),
        problem_(problem),
        variants_(selected_variants(stage, options)),
        timer_(timer),
        report_(report),
        run_(problem,
             {.seed = options.seed,
              .offsets = options.offsets,
              .l2 = options.l2,
              .takes_times = takes_times(),
              .workspace_bytes = largest_workspace(variants_, problem, device)},
             device) {}

  /// Verifies every selected variant and times those that are right. Returns false when one is wrong.
  bool run(InputKind input) {
    input_ = input;
    run_.fill(input);
    report_.begin(problem_, input);
    bool all_correct = true;
    for (const Variant* variant : variants_) {
      try {
        const Record record = run_variant(*variant);
        all_correct = all_correct && record.status != Status::wrong;
        report_.add(record);
      } catch (const std::exception& error) {
        throw std::runtime_error(stage_.name + " " + variant->name + ", " + describe(problem_) + ": " +
                                 error.what());
      }
    }
    if (reports_numbers()) report_.add(copy_record());
    return all_correct;
  }

 private:
  [[nodiscard]] bool simulated() const { return device_.simulated; }
  [[nodiscard]] bool reports_numbers() const {
    return !options_.verify_only && !options_.profile && problem_.shape.rows > 0;
  }
  [[nodiscard]] bool takes_times() const { return reports_numbers() && !simulated(); }

  Record run_variant(const Variant& variant) {
    Record record{.stage = stage_.name, .variant = variant.name, .problem = problem_, .input = input_};
    record.reason = variant.unsupported(problem_, device_);
    if (!record.reason.empty()) {
      record.status = Status::not_applicable;
      return record;
    }
    Verdict verdict =
        run_.verify(variant, [&](const Plan& plan) { record.counted = run_once(variant, plan); });
    const Traffic traffic = variant.traffic(problem_);
    record.passes = passes(traffic, problem_);
    record.row_costs = traffic.row;
    record.max_error = verdict.max_error;
    if (verdict.correct && takes_times()) {
      ProblemRun::Timed timed = run_.time(variant, timer_, {.repeats = options_.repeats});
      verdict = std::move(timed.verdict);
      if (verdict.correct) record.timing = timed.timing;
    }
    record.status = verdict.correct ? Status::verified : Status::wrong;
    record.reason = verdict.explanation;
    return record;
  }

  /// The ceiling, timed like a variant: what it shows of itself is the noise of this machine.
  Record copy_record() {
    Record record{.variant = "copy", .problem = problem_, .input = input_, .passes = least_passes(problem_)};
    if (simulated()) {
      record.counted = count_launch([&] { run_.copy(0, timer_.stream()); });
    } else {
      record.timing = run_.time_copy(timer_, {.repeats = options_.repeats});
    }
    return record;
  }

  /// What was counted, where that is done. Returns when the launch is done.
  std::optional<SimCounters> run_once(const Variant& variant, const Plan& plan) {
    const auto launch = [&] {
      plan(timer_.stream());
      CUDA_CHECK(cudaStreamSynchronize(timer_.stream()));
    };
    if (simulated() && reports_numbers()) return count_launch(launch);
    if (options_.profile) {
      CUDA_CHECK(cudaProfilerStart());
      nvtxRangePushA((stage_.name + " " + variant.name).c_str());
    }
    launch();
    if (options_.profile) {
      nvtxRangePop();
      CUDA_CHECK(cudaProfilerStop());
    }
    return std::nullopt;
  }

  const Stage& stage_;
  const Options& options_;
  const Device& device_;
  Problem problem_;
  std::vector<const Variant*> variants_;
  Timer& timer_;
  Report& report_;
  ProblemRun run_;
  InputKind input_ = InputKind::normal;
};

std::vector<Problem> problems_of(const Options& options, bool simulated) {
  std::vector<Problem> problems;
  const std::vector<std::int64_t> default_only{default_rows(simulated)};
  for (const std::int64_t rows : options.rows.empty() ? default_only : options.rows) {
    for (const std::int64_t cols : options.cols) {
      for (const DType dtype : options.dtypes) {
        for (const Operation* op : options.ops) problems.push_back({{rows, cols}, dtype, op});
      }
    }
  }
  return problems;
}

/// Loads the simulator where it is asked for, or where there is no GPU; throws NoDeviceError when it cannot.
void choose_device(const Options& options, const char* const* argv) {
  const bool simulated = simulator() != nullptr;
  if (options.device == RunOn::gpu && simulated) {
    throw NoDeviceError("--device gpu: this process runs under the simulator");
  }
  const bool wants_simulator =
      options.device == RunOn::sim || (options.device == RunOn::automatic && !gpu_is_present());
  if (simulated || !wants_simulator) return;
  restart_under_simulator(argv);
  if (options.device == RunOn::sim) throw NoDeviceError("--device sim: the simulator was not built");
}

ExitCode run_options(const Stage& stage, const Options& options, const char* const* argv) {
  if (options.help) {
    std::cout << help_text(stage);
    return ExitCode::fine;
  }
  if (options.list) {
    for (const Variant& variant : stage.variants) {
      std::cout << std::left << std::setw(32) << variant.name << "  " << variant.idea << "\n";
    }
    return ExitCode::fine;
  }
  choose_device(options, argv);
  const Device device = open_device();
  Timer timer(device, options.l2);
  Report report(std::cout, options, device);
  bool all_correct = true;
  for (const Problem& problem : problems_of(options, device.simulated)) {
    StageRun stage_run(stage, options, device, problem, timer, report);
    for (const InputKind input : options.inputs) all_correct = stage_run.run(input) && all_correct;
  }
  report.finish();
  return all_correct ? ExitCode::fine : ExitCode::wrong_result;
}

}  // namespace

int run_stage(const Stage& stage, int argc, const char* const* argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const ExitCode code = run_options(stage, parse_command_line(arguments, stage), argv);
    std::cout.flush();
    if (!std::cout) throw std::runtime_error("cannot write to standard output");
    return static_cast<int>(code);
  } catch (const std::exception& error) {
    std::cerr << stage.name << ": " << error.what() << std::endl;
    return static_cast<int>(exit_code(error));
  }
}
