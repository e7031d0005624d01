// The check of an exercise: first the result, over all its shapes and inputs, then the technique.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>  // fmaxf for launchers.cuh: nvcc knows it without
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>

#include "common/exercise/exercise.h"
#include "common/exercise/launchers.cuh"
#include "common/exercise/messages.h"
#include "common/exercise/warm_up.h"
#include "common/harness/cuda_handles.h"
#include "common/harness/errors.h"
#include "common/harness/problem_run.h"
#include "common/harness/reference.h"
#include "common/harness/simulator.h"
#include "common/kernel/cuda_error.h"

namespace {

constexpr std::uint64_t seed = 1;

struct Case {
  Launcher launcher;
  Shape shape;
  InputKind input;
  std::int64_t first_row;
  unsigned seed = 0;  ///< of the order in which warps and blocks take their turns; 0: as they are numbered
};

const Operation& operation_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::copy_vector:
      return copy_operation;
    case Launcher::sum_rows:
      return row_sums_operation;
    case Launcher::softmax_backward:
      return softmax_backward_operation;
    case Launcher::cross_entropy:
      return cross_entropy_gradient_operation;
    case Launcher::causal_softmax:
      return causal_softmax_operation;
    default:
      return softmax_operation;
  }
}

bool computes_softmax(Launcher launcher) {
  return operation_of(launcher).name == softmax_operation.name;
}

std::string describe(const Case& run) {
  std::string text =
      std::to_string(run.shape.rows) + " x " + std::to_string(run.shape.cols) + ", input " + name(run.input);
  if (run.first_row > 0) text += ", first row " + std::to_string(run.first_row);
  if (run.first_row > std::numeric_limits<int>::max()) text += " (more than an int holds)";
  if (run.seed > 0) text += ", warps and blocks in another order";
  return text;
}

std::vector<float> to_host(const float* device, std::int64_t elements) {
  std::vector<float> host(static_cast<std::size_t>(elements));
  CUDA_CHECK(cudaMemcpy(host.data(), device, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
  return host;
}

std::shared_ptr<float> to_device(const std::vector<float>& host) {
  DeviceMemory device = allocate_device(host.size() * sizeof(float));
  CUDA_CHECK(cudaMemcpy(device.get(), host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
  return {static_cast<float*>(device.release()), device.get_deleter()};
}

/// A function of launchers.cuh. Throws WrongResultError.
template <class Function>
Function* find(void* library, const char* name) {
  void* function = dlsym(library, name);
  if (function != nullptr) return reinterpret_cast<Function*>(function);
  throw WrongResultError(std::string("Not complete: the file defines no function `") + name +
                         "` with the parameters of common/exercise/launchers.cuh.");
}

/// Makes a plan for a case whose inputs and output are in this memory.
using Prepare = std::function<Plan(const Case&, const Memory&)>;
/// Makes a plan for a case whose input is x and whose output is y.
using PrepareXToY = std::function<Plan(const Case&, const float* x, float* y)>;

Prepare prepares(const PrepareXToY& prepare) {
  return [prepare](const Case& of, const Memory& memory) {
    return prepare(of, static_cast<const float*>(memory.inputs[0]), static_cast<float*>(memory.outputs[0]));
  };
}

/// The launcher of the library that the learner's file was compiled into, which stays loaded. Throws
/// WrongResultError.
Prepare load(const std::string& path, Launcher launcher) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = dlerror();
    const std::string undefined = "undefined symbol: ";
    const std::size_t symbol = reason.find(undefined);
    if (symbol == std::string::npos) throw WrongResultError("Not complete: " + reason + ".");
    throw WrongResultError("Not complete: the file uses a function that it does not define: " +
                           reason.substr(symbol + undefined.size()) + ".");
  }
  if (launcher == Launcher::softmax_from_max_and_sum) {
    auto* launch = find<decltype(softmax_from_max_and_sum)>(library, "softmax_from_max_and_sum");
    return prepares([launch](const Case& of, const float* x, float* y) -> Plan {
      const auto [rows, cols] = of.shape;
      const std::vector<float> host_x = to_host(x, rows * cols);
      std::vector<float> max;
      std::vector<float> sum;
      for (std::int64_t row = 0; row < rows; ++row) {
        const ReferenceRow pair = reference_row(host_x.data() + row * cols, cols);
        max.push_back(static_cast<float>(pair.max));
        sum.push_back(static_cast<float>(pair.sum));
      }
      return [=, shape = of.shape, max = to_device(max), sum = to_device(sum)](cudaStream_t stream) {
        launch(x, max.get(), sum.get(), y, shape, stream);
      };
    });
  }
  if (launcher == Launcher::softmax_of_rows) {
    auto* launch = find<decltype(softmax_of_rows)>(library, "softmax_of_rows");
    return prepares([launch](const Case& of, const float* x, float* y) -> Plan {
      // The address of row 0 of the matrix, if there were one; it is not allocated memory.
      const std::int64_t before = of.first_row * of.shape.cols;
      return [=](cudaStream_t stream) { launch(x - before, y - before, of.first_row, of.shape, stream); };
    });
  }
  if (launcher == Launcher::softmax_backward) {
    auto* launch = find<decltype(softmax_backward)>(library, "softmax_backward");
    return [launch](const Case& of, const Memory& memory) -> Plan {
      const auto* y = static_cast<const float*>(memory.inputs[0]);
      const auto* dy = static_cast<const float*>(memory.inputs[1]);
      auto* dx = static_cast<float*>(memory.outputs[0]);
      return [=, shape = of.shape](cudaStream_t stream) { launch(y, dy, dx, shape, stream); };
    };
  }
  if (launcher == Launcher::cross_entropy) {
    auto* launch = find<decltype(cross_entropy)>(library, "cross_entropy");
    return [launch](const Case& of, const Memory& memory) -> Plan {
      const auto* x = static_cast<const float*>(memory.inputs[0]);
      const auto* labels = static_cast<const std::int64_t*>(memory.inputs[1]);
      auto* loss = static_cast<float*>(memory.outputs[0]);
      auto* dx = static_cast<float*>(memory.outputs[1]);
      return [=, shape = of.shape](cudaStream_t stream) { launch(x, labels, loss, dx, shape, stream); };
    };
  }
  if (launcher == Launcher::causal_softmax) {
    auto* launch = find<decltype(causal_softmax)>(library, "causal_softmax");
    return [launch](const Case& of, const Memory& memory) -> Plan {
      const auto* x = static_cast<const float*>(memory.inputs[0]);
      auto* softmax = static_cast<float*>(memory.outputs[0]);
      auto* y = static_cast<float*>(memory.outputs[1]);
      return [=, shape = of.shape](cudaStream_t stream) { launch(x, softmax, y, seed, shape, stream); };
    };
  }
  if (launcher == Launcher::copy_vector) {
    auto* launch = find<decltype(copy_vector)>(library, "copy_vector");
    return prepares([launch](const Case& of, const float* x, float* y) -> Plan {
      return [=, n = of.shape.elements()](cudaStream_t stream) { launch(x, y, n, stream); };
    });
  }
  auto* launch = find<decltype(softmax)>(library, launcher == Launcher::sum_rows ? "sum_rows" : "softmax");
  return prepares([launch](const Case& of, const float* x, float* y) -> Plan {
    return [=, shape = of.shape](cudaStream_t stream) { launch(x, y, shape, stream); };
  });
}

void launch_and_wait(const Plan& plan) {
  const Stream stream = make_stream();
  plan(stream.get());
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
}

/// Runs the launcher on a case, as a variant of the harness. `run` is given the launch, and returns when it
/// is done. Then throws WrongResultError when the result is wrong.
void run_case(const Case& of, const Prepare& prepare, const std::function<void(const Plan&)>& run) {
  ProblemRun problem({.shape = of.shape, .op = &operation_of(of.launcher), .seed = seed},
                     {.takes_times = false}, {});
  problem.fill(of.input);
  const float* x = nullptr;
  float* y = nullptr;
  const auto prepare_variant = [&](const Problem&, const Device&, const Memory& memory) {
    x = static_cast<const float*>(memory.inputs[0]);
    y = static_cast<float*>(memory.outputs[0]);
    return prepare(of, memory);
  };
  const Verdict verdict =
      problem.verify({.name = "", .idea = "", .prepare = prepare_variant, .traffic = {}}, run);
  if (verdict.correct) return;
  if (verdict.first_wrong < 0) {
    const bool has_x_alone = operation_of(of.launcher).inputs({of.shape}).size() == 1;
    const char* input = has_x_alone && verdict.explanation == "changed its input" ? " x." : ".";
    throw WrongResultError("Wrong result, " + describe(of) + ": the kernel " + verdict.explanation + input);
  }
  if (!computes_softmax(of.launcher)) {  // the explanations below are about softmax
    throw WrongResultError("Wrong result, " + describe(of) + ": " + verdict.explanation + ".");
  }
  const std::int64_t cols = of.shape.cols;
  const std::int64_t row = verdict.first_wrong / cols;
  const std::vector<float> row_x = to_host(x + row * cols, cols);
  const char* why =
      of.seed == 0
          ? ""
          : "\n\nIn the usual order this is right, but a GPU promises none: something is read that need "
            "not have been written yet. A barrier makes a thread wait for others; `volatile`, fences "
            "and atomics do not.";
  throw WrongResultError(wrong_element(describe(of), of.input, verdict, row_x, to_host(y + row * cols, cols),
                                       reference_row(row_x.data(), cols)) +
                         why);
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
      for (const Shape shape : exercise.shapes) {
        cases.push_back({exercise.launcher, shape, input, first_row});
      }
    }
  }
  return cases;
}

/// The kernel must be the learner's own, and not a library's: the exercise is about writing it.
void check_kernels(const Exercise& exercise, const Counts& counts) {
  for (const std::string& kernel : counts.kernels) {
    if (names_library(kernel)) {
      throw WrongResultError("A library's kernel ran: " + kernel +
                             ". Write it yourself: that is the exercise.");
    }
  }
  for (const Counts::Line& line : counts.lines) {
    if (line.in_library) {
      throw WrongResultError("The kernel calls a library:\n" + source_line(line) +
                             "Write it yourself: that is the exercise.");
    }
  }
  if (counts.kernels.empty()) {
    throw WrongResultError("The launcher launched no kernel; it should launch `" + exercise.kernel + "`.");
  }
  const auto is_asked_for = [&](const std::string& kernel) {
    return kernel.substr(kernel.rfind(':') + 1) == exercise.kernel;  // it may be in a namespace
  };
  if (std::none_of(counts.kernels.begin(), counts.kernels.end(), is_asked_for)) {
    const bool one = counts.kernels.size() == 1;
    throw WrongResultError("The launcher launched `" + join(counts.kernels) +
                           "`; the exercise requires one kernel, `" + exercise.kernel + "`." +
                           (one ? " Is this the file of another exercise?" : ""));
  }
}

/// As many as a request of that many bytes needs, with some to spare for requests of a single float among them.
double sectors_of(double bytes) {
  return 1.25 * bytes / 32;
}

/// The rules of every exercise, and then its own.
std::vector<Rule> rules_of(const Exercise& exercise, const Counts& counts) {
  std::vector<Rule> rules{
      {Counter::kernels, 1, 1,
       "One kernel does it all: `" + exercise.kernel + "`. Ran: " + join(counts.kernels) + "."},
      // A float for all lanes (a row's maximum) may be loaded in addition to the 128 bytes of 32 lanes.
      {Counter::load_bytes, 16, 1e9,
       "32 lanes could ask for 128 bytes together. Here most lanes have nothing to do, or all do the same: "
       "one does the work of all. Let every lane take columns of its own."}};
  // If cp.async copies everything to shared memory, nothing is loaded.
  if (counts[Counter::read_passes] == 0) rules.pop_back();
  rules.insert(rules.end(), exercise.rules.begin(), exercise.rules.end());
  if (exercise.more_rules) {
    const std::vector<Rule> more = exercise.more_rules(counts);
    rules.insert(rules.end(), more.begin(), more.end());
  }
  for (Rule& rule : rules) {
    if (rule.counter == Counter::load_sectors)
      rule.most = std::max(rule.most, sectors_of(counts[Counter::load_bytes]));
    if (rule.counter == Counter::store_sectors)
      rule.most = std::max(rule.most, sectors_of(counts[Counter::store_bytes]));
  }
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
  return {exercise.launcher, shape, exercise.counted_input, exercise.first_rows.front()};
}

/// While it lives, warps and blocks take turns in an order that a seed, unless it is 0, says: see common/sim/README.md.
class AnotherOrder {
 public:
  explicit AnotherOrder(unsigned seed) {
    if (seed > 0) setenv("SIM_SEED", std::to_string(seed).c_str(), 1);
  }
  ~AnotherOrder() { unsetenv("SIM_SEED"); }
  AnotherOrder(const AnotherOrder&) = delete;
  AnotherOrder& operator=(const AnotherOrder&) = delete;
};

/// Throws WrongResultError at the first thing that is wrong; under the simulator.
Counts check_all(const Exercise& exercise, const Prepare& prepare) {
  Counts counts;
  const auto count_case = [&](const Case& of, void (*check)(const Exercise&, const Counts&)) {
    run_case(of, prepare, [&](const Plan& plan) {
      const AnotherOrder order(of.seed);
      try {
        counts = count(of.shape, [&] { launch_and_wait(plan); });
      } catch (const CudaError& error) {
        stop_at(of, error);
      }
      check(exercise, counts);
    });
  };
  for (const Case& of : cases_of(exercise)) count_case(of, check_kernels);
  const std::vector<Case> in_another_order = cases_of(exercise);
  for (unsigned seed = 1; seed <= in_another_order.size(); ++seed) {
    Case of = in_another_order[seed - 1];
    of.seed = seed;
    count_case(of, check_kernels);
  }
  for (const Shape shape : exercise.counted) count_case(counted_case(exercise, shape), check_rules);
  return counts;
}

/// The same results on the GPU, and of many rows. Throws WrongResultError, or CudaError.
void verify_on_gpu(const Exercise& exercise, const Prepare& prepare) {
  std::vector<Case> cases = cases_of(exercise);
  constexpr std::int64_t many_rows = 5000;
  cases.push_back({exercise.launcher,
                   {many_rows, exercise.counted.back().cols},
                   exercise.inputs.front(),
                   exercise.first_rows.front()});
  for (const Case& of : cases) run_case(of, prepare, launch_and_wait);
}

/// Empty if the launcher to compare with fails: it may be wrong on purpose.
std::optional<Counts> count_before(const Exercise& exercise, const std::string& path) {
  const Shape shape = exercise.counted.back();
  std::optional<Counts> counts;
  try {
    run_case(counted_case(exercise, shape), load(path, exercise.launcher),
             [&](const Plan& plan) { counts = count(shape, [&] { launch_and_wait(plan); }); });
  } catch (const std::exception&) {
    return counts;
  }
  return counts;
}

void print_success(const Exercise& exercise, const std::optional<Counts>& before, const Counts& after,
                   const std::string& gpu) {
  const std::string where = gpu.empty() ? "" : " Verified on " + gpu + ", counted on the simulator.";
  const std::string remark = exercise.remark ? exercise.remark(after) : "";
  std::cout << "Solved: the result and the technique are right." << where << "\n\n"
            << exercise.why << "\n\n"
            << (remark.empty() ? "" : remark + "\n\n") << "Counted, " << after.shape.rows << " x "
            << after.shape.cols << ":\n"
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
      int has_clusters = 0;
      CUDA_CHECK(cudaDeviceGetAttribute(&has_clusters, cudaDevAttrClusterLaunch, 0));
      if (exercise.clusters && has_clusters == 0) {
        throw NoDeviceError(arguments.verified_on +
                            " has no clusters: compute capability 9.0 or newer is needed, or --device sim");
      }
      const Prepare prepare = load(arguments.learners, exercise.launcher);
      try {
        verify_on_gpu(exercise, prepare);
      } catch (const CudaError& error) {
        std::cout << "The GPU says: " << error.what() << ".\nThe simulator says more:\n" << std::endl;
      }
    }
    restart(argv[0], arguments);
  }
  const Counts after = check_all(exercise, load(arguments.learners, exercise.launcher));
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
