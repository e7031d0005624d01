// The check of an exercise: first the result, over all its shapes and inputs, then the technique.
#include <algorithm>
#include <array>
#include <iostream>
#include <limits>
#include <optional>

#include "common/exercise/exercise.h"
#include "common/exercise/learners_library.h"
#include "common/exercise/messages.h"
#include "common/harness/device.h"
#include "common/harness/device_data.h"
#include "common/harness/errors.h"
#include "common/harness/fenced_memory.h"
#include "common/harness/reference.h"
#include "common/harness/simulator.h"

namespace {

constexpr std::uint64_t seed = 1;

struct Case {
  Shape shape;
  InputKind input;
  std::int64_t first_row;
};

std::string describe(const Case& run) {
  std::string text =
      std::to_string(run.shape.rows) + " x " + std::to_string(run.shape.cols) + ", input " + name(run.input);
  if (run.first_row > 0) text += ", first row " + std::to_string(run.first_row);
  if (run.first_row > std::numeric_limits<int>::max()) text += " (more than an int holds)";
  return text;
}

template <class T>
std::vector<T> to_host(const void* device, std::size_t elements) {
  std::vector<T> host(elements);
  CUDA_CHECK(cudaMemcpy(host.data(), device, elements * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}

DeviceMemory to_device(const std::vector<float>& host) {
  DeviceMemory device = allocate_device(host.size() * sizeof(float));
  CUDA_CHECK(cudaMemcpy(device.get(), host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
  return device;
}

/// The device memory of one case, filled.
class CaseMemory {
 public:
  explicit CaseMemory(const Case& run)
      : run_(run),
        problem_{run.shape, DType::f32, &softmax_operation},
        x_(problem_.matrix_bytes()),
        y_(problem_.matrix_bytes()) {
    fill_device_inputs(problem_, run.input, seed, {x_.data()});
    checksum_ = device_checksum(problem_.inputs()[0], x_.data());
    const auto rows = static_cast<std::size_t>(run.shape.rows);
    const auto x = to_host<float>(x_.data(), rows * static_cast<std::size_t>(run.shape.cols));
    std::vector<float> row_max;
    std::vector<float> row_sum;
    for (std::int64_t row = 0; row < run.shape.rows; ++row) {
      const ReferenceRow pair = reference_row(x.data() + row * run.shape.cols, run.shape.cols);
      row_max.push_back(static_cast<float>(pair.max));
      row_sum.push_back(static_cast<float>(pair.sum));
    }
    row_max_ = to_device(row_max);
    row_sum_ = to_device(row_sum);
  }

  /// Runs the launcher once, and returns when it is done. Throws CudaError.
  void launch(const LearnersLibrary& library) const {
    const Stream stream = make_stream();
    LaunchArguments arguments;
    arguments.x = as_if_from_row_0(x_.data());
    arguments.y = as_if_from_row_0(y_.data());
    arguments.row_max = static_cast<const float*>(row_max_.get());
    arguments.row_sum = static_cast<const float*>(row_sum_.get());
    arguments.first_row = run_.first_row;
    arguments.shape = run_.shape;
    arguments.stream = stream.get();
    library.launch(arguments);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
  }

  /// Throws WrongResultError when the output is wrong.
  void verify() const {
    if (const std::string broken = y_.broken_fence("output"); !broken.empty()) {
      throw WrongResultError("Wrong result, " + describe(run_) + ": the kernel " + broken + ".");
    }
    if (!x_.broken_fence("input").empty() || device_checksum(problem_.inputs()[0], x_.data()) != checksum_) {
      throw WrongResultError("Wrong result, " + describe(run_) + ": the kernel changed its input x.");
    }
    const Verdict verdict = verify_device_outputs(problem_, {{x_.data()}, {y_.data()}});
    if (!verdict.correct) throw WrongResultError(explain(verdict));
  }

 private:
  /// Where row 0 of the matrix would be whose row `first_row` begins at `memory`; not allocated memory.
  [[nodiscard]] float* as_if_from_row_0(void* memory) const {
    return static_cast<float*>(memory) - run_.first_row * run_.shape.cols;
  }

  [[nodiscard]] std::string explain(const Verdict& verdict) const {
    const auto cols = static_cast<std::size_t>(run_.shape.cols);
    const std::size_t row = static_cast<std::size_t>(verdict.first_wrong) / cols;
    const std::size_t col = static_cast<std::size_t>(verdict.first_wrong) % cols;
    const auto x = to_host<float>(static_cast<const float*>(x_.data()) + row * cols, cols);
    const auto y = to_host<float>(static_cast<const float*>(y_.data()) + row * cols, cols);
    return wrong_element(describe(run_), run_.input, verdict, {row, col}, x, y,
                         reference_row(x.data(), run_.shape.cols));
  }

  Case run_;
  Problem problem_;
  FencedMemory x_;
  FencedMemory y_;
  DeviceMemory row_max_;
  DeviceMemory row_sum_;
  std::uint64_t checksum_ = 0;
};

/// True for the name of a library's kernel, and for a path or a report that names a library's file.
bool names_library(const std::string& text) {
  const std::array<const char*, 5> parts{"cub::", "thrust::", "/cub/", "/thrust/", "cooperative_groups"};
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

[[noreturn]] void stop_at(const Case& run, const CudaError& error) {
  const SimApi* sim = simulator();
  if (sim != nullptr && sim->faults() > 0) {
    if (names_library(sim->last_fault())) {
      throw WrongResultError(std::string("The kernel calls a library:\n  ") + sim->last_fault() +
                             "\nWrite it yourself: that is the exercise.");
    }
    throw WrongResultError("The simulator stopped the kernel, " + describe(run) + ":\n  " +
                           with_source_line(sim->last_fault()));
  }
  const char* why = error.code == cudaErrorInvalidConfiguration
                        ? "\nA block has 1 to 1024 threads, and a grid at least 1 block."
                        : "";
  throw WrongResultError("The launcher failed, " + describe(run) + ":\n  " + error.what() + why);
}

std::vector<Case> cases_of(const Exercise& exercise) {
  std::vector<Case> cases;
  for (const std::int64_t first_row : exercise.first_rows) {
    for (const InputKind input : exercise.inputs) {
      for (const Shape shape : exercise.shapes) cases.push_back({shape, input, first_row});
    }
  }
  return cases;
}

Counts count_case(const LearnersLibrary& library, const CaseMemory& memory, const Case& run) {
  try {
    return count(run.shape, [&] { memory.launch(library); });
  } catch (const CudaError& error) {
    stop_at(run, error);
  }
}

/// The kernel must be the exercise's own, and no library's: those are not what there is to learn.
void check_kernels(const Exercise& exercise, const Counts& counts) {
  for (const std::string& kernel : counts.kernels) {
    if (names_library(kernel)) {
      throw WrongResultError("A library's kernel ran: " + kernel +
                             ". Write it yourself: that is the exercise.");
    }
  }
  for (const Counts::Line& line : counts.lines) {
    if (names_library(line.file)) {
      throw WrongResultError("The kernel calls a library:\n" + source_line(line) +
                             "Write it yourself: that is the exercise.");
    }
  }
  if (counts.kernels.empty()) {
    throw WrongResultError("The launcher launched no kernel; it should launch `" + exercise.kernel + "`.");
  }
  if (std::count(counts.kernels.begin(), counts.kernels.end(), exercise.kernel) == 0) {
    const bool one = counts.kernels.size() == 1;
    throw WrongResultError("The launcher launched `" + join(counts.kernels) +
                           "`; what is asked for is one kernel, `" + exercise.kernel + "`." +
                           (one ? " Is this the file of another exercise?" : ""));
  }
}

/// What every exercise asks for, and then its own rules.
std::vector<Rule> rules_of(const Exercise& exercise, const Counts& counts) {
  std::vector<Rule> rules{
      {Counter::kernels, 1, 1,
       "One kernel does it all: `" + exercise.kernel + "`. Ran: " + join(counts.kernels) + "."},
      // A float for all lanes (a row's maximum) may be loaded beside the 128 bytes of 32 lanes.
      {Counter::load_bytes, 16, 1e9,
       "32 lanes could ask for 128 bytes together. Here most lanes have nothing to do, or all do the same: "
       "one does the work of all. Let every lane take columns of its own."}};
  rules.insert(rules.end(), exercise.rules.begin(), exercise.rules.end());
  rules.push_back(
      {Counter::instructions, 0, exercise.instructions,
       "Is one thread doing the work of a whole warp, or is the same thing computed again and again?"});
  return rules;
}

/// Throws WrongResultError at the first broken rule.
void check_rules(const Exercise& exercise, const Counts& counts) {
  for (const Rule& rule : rules_of(exercise, counts)) {
    const double counted = counts[rule.counter];
    if (counted >= rule.least && counted <= rule.most) continue;
    const bool below = counted < rule.least && !rule.advice_below.empty();
    throw WrongResultError(broken_rule(rule.counter, rule.least, rule.most, counts) +
                           (below ? rule.advice_below : rule.advice));
  }
}

Case counted_case(const Exercise& exercise, Shape shape) {
  return {shape, exercise.counted_input, exercise.first_rows.front()};
}

/// Throws WrongResultError at the first thing that is wrong; under the simulator.
Counts check_all(const Exercise& exercise, const LearnersLibrary& library) {
  bool first = true;
  for (const Case& run : cases_of(exercise)) {
    const CaseMemory memory(run);
    const Counts counts = count_case(library, memory, run);
    if (first) check_kernels(exercise, counts);
    first = false;
    memory.verify();
  }
  Counts counts;
  for (const Shape shape : exercise.counted) {
    const Case run = counted_case(exercise, shape);
    const CaseMemory memory(run);
    counts = count_case(library, memory, run);
    check_rules(exercise, counts);
  }
  return counts;
}

/// The same results on the GPU, and of many rows. Throws WrongResultError, or CudaError.
void verify_on_gpu(const Exercise& exercise, const LearnersLibrary& library) {
  std::vector<Case> cases = cases_of(exercise);
  constexpr std::int64_t many_rows = 5000;
  cases.push_back(
      {{many_rows, exercise.counted.back().cols}, exercise.inputs.front(), exercise.first_rows.front()});
  for (const Case& run : cases) {
    const CaseMemory memory(run);
    memory.launch(library);
    memory.verify();
  }
}

/// What the exercise is compared with may be wrong on purpose: its counters up to there, or none.
std::optional<Counts> count_before(const Exercise& exercise, const std::string& path) {
  try {
    const LearnersLibrary library(path, exercise.launcher);
    const Case run = counted_case(exercise, exercise.counted.back());
    const CaseMemory memory(run);
    return count(run.shape, [&] { memory.launch(library); });
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void print_success(const Exercise& exercise, const std::optional<Counts>& before, const Counts& after,
                   const std::string& gpu) {
  const std::string where = gpu.empty() ? "" : " Verified on " + gpu + ", counted on the simulator.";
  std::cout << "Solved: the result and the technique are right." << where << "\n\n"
            << exercise.why << "\n\n"
            << "Counted, " << after.shape.rows << " x " << after.shape.cols << ":\n"
            << comparison(exercise.compared, exercise.before, before, after);
}

struct Arguments {
  std::string learners;
  std::string before;
  bool on_gpu = false;
  std::string verified_on;  // the GPU that this program ran on before it started over under the simulator
};

Arguments parse(int argc, const char* const* argv) {
  if (argc < 3 || argc % 2 == 0)
    throw UsageError("wanted: LEARNERS_LIBRARY BEFORE_LIBRARY [--device gpu|sim]");
  Arguments arguments;
  arguments.learners = argv[1];
  arguments.before = argv[2];
  for (int i = 3; i < argc; i += 2) {
    if (argv[i] == std::string("--verified-on")) arguments.verified_on = argv[i + 1];
    if (argv[i] == std::string("--device")) arguments.on_gpu = argv[i + 1] == std::string("gpu");
  }
  return arguments;
}

/// Goes on under the simulator; returns only where that is not possible.
void restart(const char* program, const Arguments& arguments) {
  const std::vector<const char*> words{
      program,         arguments.learners.c_str(),    arguments.before.c_str(),
      "--verified-on", arguments.verified_on.c_str(), nullptr};
  std::cout.flush();
  restart_under_simulator(words.data());
  throw NoDeviceError("the simulator was not built");
}

int check(const Exercise& exercise, int argc, const char* const* argv) {
  Arguments arguments = parse(argc, argv);
  if (simulator() == nullptr) {
    if (arguments.on_gpu) {
      arguments.verified_on = open_device().gpu;
      const LearnersLibrary library(arguments.learners, exercise.launcher);
      try {
        verify_on_gpu(exercise, library);
      } catch (const CudaError& error) {
        std::cout << "The GPU says: " << error.what() << ".\nThe simulator says more:\n" << std::endl;
      }
    }
    restart(argv[0], arguments);
  }
  const LearnersLibrary library(arguments.learners, exercise.launcher);
  const Counts after = check_all(exercise, library);
  print_success(exercise, count_before(exercise, arguments.before), after, arguments.verified_on);
  return 0;
}

}  // namespace

int check_exercise(const Exercise& exercise, int argc, const char* const* argv) {
  try {
    return check(exercise, argc, argv);
  } catch (const std::exception& error) {
    const ExitCode code = exit_code(error);
    if (code == ExitCode::bad_usage || code == ExitCode::no_device) {
      std::cerr << error.what() << "\n";
      return static_cast<int>(code);
    }
    std::cout << (code == ExitCode::wrong_result ? "" : "The launcher failed: ") << error.what()
              << "\n\nTo do: " << exercise.task << "\n";
    return static_cast<int>(ExitCode::wrong_result);
  }
}
