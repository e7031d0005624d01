#include "common/harness.h"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "common/copy_ceiling.h"
#include "common/device_data.h"
#include "common/report.h"
#include "common/simulator.h"

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

std::string reason_not_applicable(const Variant& variant, const Problem& problem) {
  return variant.why_not ? variant.why_not(problem) : "";
}

std::size_t largest_workspace(const std::vector<const Variant*>& variants, const Problem& problem) {
  std::size_t largest = 0;
  for (const Variant* variant : variants) {
    if (variant->workspace_bytes && reason_not_applicable(*variant, problem).empty()) {
      largest = std::max(largest, variant->workspace_bytes(problem));
    }
  }
  return largest;
}

std::string gibibytes(double bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f GiB", bytes / (1024. * 1024 * 1024));
  return text.data();
}

/// How many sets of input and output to allocate: as many as cold timing wants, if they fit. Throws
/// UsageError when not even one does. Computed in double up to there, because rows * cols may not fit an
/// integer.
std::size_t affordable_sets(const Problem& problem, const Options& options,
                            const std::vector<const Variant*>& variants, bool takes_times,
                            const Device& device) {
  const auto rows = static_cast<double>(problem.shape.rows);
  const auto cols = static_cast<double>(problem.shape.cols);
  const double tensor_bytes = rows * cols * static_cast<double>(size_of(problem.dtype));
  const double set_bytes = 2 * (tensor_bytes + 2 * FencedTensor::fence_bytes);
  const auto free = static_cast<double>(free_device_memory());
  double needed = set_bytes + verification_bytes(rows, cols);
  if (takes_times) needed += static_cast<double>(Timer::flush_bytes(device));
  if (needed <= free) needed += static_cast<double>(largest_workspace(variants, problem));
  if (needed > free) {
    throw UsageError("--rows, --cols: " + describe(problem) + " needs " + gibibytes(needed) +
                     " of device memory, and " + gibibytes(free) + " are free; accepted: a smaller shape");
  }
  if (!takes_times) return 1;
  const double share_usable = 0.95;  // the rest is left to the allocator's rounding
  const auto more_sets = static_cast<std::size_t>((free - needed) / set_bytes * share_usable);
  return std::min(buffer_sets_for(problem, options.l2, device), 1 + more_sets);
}

/// The device memory of one problem, and the work on it.
class ProblemRun {
 public:
  ProblemRun(const Stage& stage, const Options& options, const Device& device, const Problem& problem)
      : stage_(stage),
        options_(options),
        simulated_(device.simulated),
        problem_(problem),
        variants_(selected_variants(stage, options)),
        stream_(make_stream()) {
    const std::size_t sets = affordable_sets(problem, options, variants_, takes_times(), device);
    for (std::size_t i = 0; i < sets; ++i) {
      sets_.x.push_back(std::make_unique<FencedTensor>(problem, options.offset));
      sets_.y.push_back(std::make_unique<FencedTensor>(problem, options.offset));
    }
    workspace_ = allocate_device(largest_workspace(variants_, problem));
  }

  /// Verifies every selected variant and times those that are right. Returns false when one is wrong.
  bool run(InputKind input, Timer& timer, Report& report) {
    input_ = input;
    for (std::size_t set = 0; set < sets_.count(); ++set) fill(set);
    input_checksum_ = device_checksum(problem_, sets_.x[0]->data());
    report.begin(problem_, input);
    bool all_correct = true;
    for (const Variant* variant : variants_) {
      try {
        const Record record = run_variant(*variant, timer);
        all_correct = all_correct && record.status != Status::wrong;
        report.add(record);
      } catch (const CudaError& error) {
        throw std::runtime_error(stage_.name + " " + variant->name + ", " + describe(problem_) + ": " +
                                 error.what());
      }
    }
    if (reports_numbers()) report.add(copy_record(timer));
    return all_correct;
  }

 private:
  [[nodiscard]] bool reports_numbers() const {
    return !options_.verify_only && !options_.profile && problem_.shape.rows > 0;
  }
  [[nodiscard]] bool takes_times() const { return reports_numbers() && !simulated_; }

  void fill(std::size_t set) { fill_device_input(input_, options_.seed, problem_, sets_.x[set]->data()); }

  Record run_variant(const Variant& variant, Timer& timer) {
    Record record{stage_.name, variant.name, problem_, input_, Status::not_applicable, "", 0, 0, {}, {}};
    record.reason = reason_not_applicable(variant, problem_);
    if (!record.reason.empty()) return record;

    const Verdict verdict = verify(variant, record.counted);
    record.status = verdict.correct ? Status::verified : Status::wrong;
    record.reason = verdict.explanation;
    record.max_error = verdict.max_error;
    record.passes = passes(variant.traffic(problem_), problem_);
    if (verdict.correct && takes_times()) {
      record.timing = timer.time(
          problem_, sets_,
          [&](std::size_t set, cudaStream_t stream) { variant.launch(problem_, buffers(set), stream); },
          variant.capturable);
    }
    return record;
  }

  /// The ceiling, timed like a variant: what it shows of itself is the noise of this machine.
  Record copy_record(Timer& timer) {
    Record record{"", "copy", problem_, input_, Status::verified, "", 2, 0, {}, {}};
    const auto copy = [&](std::size_t set, cudaStream_t stream) {
      launch_copy_of(problem_, sets_, set, stream);
    };
    if (simulated_) {
      record.counted = count_launch(problem_, [&] { copy(0, stream_.get()); });
    } else {
      record.timing = timer.time(problem_, sets_, copy, true);
    }
    return record;
  }

  Verdict verify(const Variant& variant, std::optional<Counted>& counted) {
    FencedTensor& y = *sets_.y[0];
    y.poison();
    if (simulated_ && reports_numbers()) {
      counted = count_launch(problem_, [&] { launch_once(variant); });
    } else {
      launch_once(variant);
    }
    if (const std::string broken = y.broken_fence(); !broken.empty()) return {false, broken, 0};
    FencedTensor& x = *sets_.x[0];
    if (!x.broken_fence().empty() || device_checksum(problem_, x.data()) != input_checksum_) {
      x.poison();  // the next variant must not suffer for it
      fill(0);
      return {false, "changed its input", 0};
    }
    return compare_device_result(problem_, x.data(), y.data());
  }

  void launch_once(const Variant& variant) {
    if (options_.profile) {
      CUDA_CHECK(cudaProfilerStart());
      nvtxRangePushA((stage_.name + " " + variant.name).c_str());
    }
    variant.launch(problem_, buffers(0), stream_.get());
    CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
    if (options_.profile) {
      nvtxRangePop();
      CUDA_CHECK(cudaProfilerStop());
    }
  }

  [[nodiscard]] Buffers buffers(std::size_t set) const {
    return {sets_.x[set]->data(), sets_.y[set]->data(), workspace_.get()};
  }

  const Stage& stage_;
  const Options& options_;
  bool simulated_;
  Problem problem_;
  std::vector<const Variant*> variants_;
  Stream stream_;
  BufferSets sets_;
  DeviceMemory workspace_;
  InputKind input_ = InputKind::normal;
  std::uint64_t input_checksum_ = 0;
};

std::vector<Problem> problems_of(const Options& options, bool simulated) {
  std::vector<Problem> problems;
  const std::vector<std::int64_t> default_only{default_rows(simulated)};
  for (const std::int64_t rows : options.rows.empty() ? default_only : options.rows) {
    for (const std::int64_t cols : options.cols) {
      for (const DType dtype : options.dtypes) {
        for (const Op op : options.ops) problems.push_back({{rows, cols}, dtype, op});
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
      std::printf("%-32s  %s\n", variant.name.c_str(), variant.idea.c_str());
    }
    return ExitCode::fine;
  }
  choose_device(options, argv);
  const Device device = open_device();
  Timer timer(device, options.l2, options.repeats);
  Report report(std::cout, options, device);
  bool all_correct = true;
  for (const Problem& problem : problems_of(options, device.simulated)) {
    ProblemRun problem_run(stage, options, device, problem);
    for (const InputKind input : options.inputs) {
      all_correct = problem_run.run(input, timer, report) && all_correct;
    }
  }
  report.finish();
  return all_correct ? ExitCode::fine : ExitCode::wrong_result;
}

int fail(const Stage& stage, const char* what, ExitCode code) {
  std::cerr << stage.name << ": " << what << std::endl;
  return static_cast<int>(code);
}

}  // namespace

int run_stage(const Stage& stage, int argc, const char* const* argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return static_cast<int>(run_options(stage, parse_command_line(arguments, stage), argv));
  } catch (const UsageError& error) {
    return fail(stage, error.what(), ExitCode::bad_usage);
  } catch (const NoDeviceError& error) {
    return fail(stage, error.what(), ExitCode::no_device);
  } catch (const std::exception& error) {
    return fail(stage, error.what(), ExitCode::cuda_error);
  }
}
