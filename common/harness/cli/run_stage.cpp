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
#include "common/harness/cli/text.h"
#include "common/harness/cli/waiting.h"
#include "common/harness/problem_run.h"
#include "common/harness/simulator.h"

namespace {

/// Runs the selected variants on every problem of the command line, and reports them.
class StageRun {
 public:
  StageRun(const Stage& stage, const Options& options)
      : stage_(stage),
        options_(options),
        device_(open_device()),
        devices_(stage.on_all_gpus ? count_devices() : 1),
        variants_(wanted_variants(options, stage.variants)),
        timer_(device_, options.l2, devices_),
        report_(std::cout, options, device_, stage, screen_of_output()) {}

  /// Verifies every variant and times those that are right. Returns false when one is wrong.
  bool run() {
    bool all_correct = true;
    for (const Problem& problem : problems(options_, device_, devices_)) {
      all_correct = run_problem(problem) && all_correct;
    }
    report_.finish();
    return all_correct;
  }

 private:
  [[nodiscard]] bool reports_numbers(const Problem& problem) const {
    return !options_.verify_only && !options_.profile && problem.shape.rows > 0;
  }
  [[nodiscard]] bool takes_times(const Problem& problem) const {
    return reports_numbers(problem) && !device_.simulated;
  }

  bool run_problem(const Problem& problem) {
    ProblemRun run(problem,
                   {.l2 = options_.l2,
                    .takes_times = takes_times(problem),
                    .workspace_bytes = largest_workspace(variants_, problem, device_)},
                   device_);
    bool all_correct = true;
    for (const InputKind input : options_.inputs) {
      {
        const Waiting waiting("filling the matrix");
        run.fill(input);
      }
      report_.begin(problem, input);
      for (const Variant* variant : variants_) {
        try {
          const Record record = run_attended(run, *variant, input);
          all_correct = all_correct && record.status != Status::wrong;
          report_.add(record);
        } catch (const std::exception& error) {
          const std::string why = stage_.why_failed();
          throw std::runtime_error(stage_.name + " " + variant->name + ", " + describe(problem) + ": " +
                                   error.what() + (why.empty() ? "" : ": " + why));
        }
      }
      if (reports_numbers(problem)) report_.add(copy_record(run, input));
    }
    return all_correct;
  }

  Record run_attended(ProblemRun& run, const Variant& variant, InputKind input) {
    const auto place = std::find(variants_.begin(), variants_.end(), &variant) - variants_.begin() + 1;
    const Waiting waiting(variant.name + ", " + std::to_string(place) + " of " +
                          std::to_string(variants_.size()));
    return run_variant(run, variant, input);
  }

  Record run_variant(ProblemRun& run, const Variant& variant, InputKind input) {
    const Problem& problem = run.problem();
    Record record{.stage = stage_.name, .variant = variant.name, .problem = problem, .input = input};
    record.reason = variant.unsupported(problem, device_);
    if (!record.reason.empty()) {
      record.status = Status::not_applicable;
      return record;
    }
    const auto run_plan = [&](const Plan& plan) { record.counted = run_once(problem, variant, plan); };
    Verdict verdict = run.verify(variant, run_plan);
    const Traffic traffic = variant.traffic(problem);
    record.passes = passes(traffic, problem);
    record.row_costs = traffic.row;
    record.max_error = verdict.max_error;
    if (verdict.correct && takes_times(problem)) {
      ProblemRun::Timed timed = run.time(variant, timer_, {.repeats = options_.repeats});
      verdict = std::move(timed.verdict);
      if (verdict.correct) record.timing = timed.timing;
    }
    record.status = verdict.correct ? Status::verified : Status::wrong;
    record.reason = verdict.explanation;
    return record;
  }

  /// The ceiling, timed like a variant: its deviation from 100 percent of itself is the noise of this
  /// machine.
  Record copy_record(ProblemRun& run, InputKind input) {
    const Problem& problem = run.problem();
    Record record{.variant = "copy",
                  .problem = problem,
                  .input = input,
                  .passes = passes(least_traffic(problem), problem)};
    if (device_.simulated) {
      record.counted = count_launch([&] { run.copy(0, timer_.stream()); });
    } else {
      record.timing = run.time_copy(timer_, {.repeats = options_.repeats});
    }
    return record;
  }

  /// The counts, if the simulator counts. Returns when the launch is done.
  std::optional<SimCounters> run_once(const Problem& problem, const Variant& variant, const Plan& plan) {
    const auto launch = [&] {
      plan(timer_.stream());
      synchronize(timer_.stream());
    };
    if (device_.simulated && reports_numbers(problem)) return count_launch(launch);
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
  Device device_;
  int devices_;
  std::vector<const Variant*> variants_;
  Timer timer_;
  Report report_;
};

/// Loads the simulator if the options request it or if there is no GPU; throws NoDeviceError if it cannot.
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
  return StageRun(stage, options).run() ? ExitCode::fine : ExitCode::wrong_result;
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
    std::cerr << stage.name << ": " << printable(error.what()) << std::endl;
    return static_cast<int>(exit_code(error));
  }
}
