#include "common/harness/c/c_interface.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/harness/cuda_check.h"
#include "common/harness/device.h"
#include "common/harness/errors.h"
#include "common/harness/problem_run.h"

struct Contender {
  std::string stage;
  Variant variant;
  bool is_callback;
  std::vector<const Operation*> operations;  ///< that it does; empty: all
  double tolerance_factor = 1;               ///< of the last verification
};

struct softmax_session {
  Machine machine;
  L2 l2;
  Timer timer;
  std::vector<const Operation*> operations;
  std::vector<Contender> contenders;
  std::optional<ProblemRun> run;
};

namespace {

constexpr int copy_index = 0;
constexpr std::size_t left_to_contenders = std::size_t{512} << 20U;  // their workspaces and code

thread_local std::string last_error;

/// Runs the function; what it throws becomes the return code, and softmax_error()'s text.
template <class Function>
int guarded(Function&& function) {
  try {
    function();
    return static_cast<int>(ExitCode::fine);
  } catch (const std::exception& error) {
    last_error = error.what();
    return static_cast<int>(exit_code(error));
  }
}

void copy_text(const std::string& text, std::span<char> destination) {
  const std::size_t length = std::min(text.size(), destination.size() - 1);
  std::copy_n(text.data(), length, destination.data());
  destination[length] = '\0';
}

/// The value of `all` with this name.
template <class T>
T named(const char* what, const std::string& text, const std::vector<T>& all) {
  std::string names;
  for (const T& value : all) {
    if (name(value) == text) return value;
    names += (names.empty() ? "" : ", ") + std::string(name(value));
  }
  throw UsageError(std::string(what) + ": '" + text + "' is not accepted; accepted: " + names);
}

Contender& contender_of(softmax_session& session, int index) {
  if (index < 0 || static_cast<std::size_t>(index) >= session.contenders.size()) {
    throw UsageError("there is no contender " + std::to_string(index));
  }
  return session.contenders[static_cast<std::size_t>(index)];
}

ProblemRun& open_run(softmax_session& session) {
  if (!session.run) throw UsageError("no problem is open");
  return *session.run;
}

const Stage& load_stage(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);  // stays loaded: the variants' functions lie in it
  if (handle == nullptr) throw UsageError(dlerror());
  const auto stage = reinterpret_cast<const Stage* (*)()>(dlsym(handle, "softmax_stage"));
  if (stage == nullptr) throw UsageError(std::string(library) + " is not the library of a stage");
  return *stage();
}

bool does(const Contender& contender, const Operation* op) {
  const auto& known = contender.operations;
  return known.empty() || std::find(known.begin(), known.end(), op) != known.end();
}

/// Why the contender cannot do the open problem.
std::string reason_not_applicable(softmax_session& session, const Contender& contender) {
  const ProblemRun& run = open_run(session);
  const Problem& problem = run.problem();
  if (!does(contender, problem.op)) return contender.stage + " does not do " + problem.op->name;
  std::string reason = why_unsupported(contender.variant, problem, session.machine);
  const std::size_t workspace = workspace_of(contender.variant, problem, session.machine).bytes;
  if (!reason.empty() || workspace <= run.workspace_bytes()) return reason;
  return "not enough device memory for its workspace";
}

/// The contender, which can do the open problem.
Contender& applicable_contender(softmax_session& session, int index) {
  Contender& contender = contender_of(session, index);
  const std::string reason = reason_not_applicable(session, contender);
  if (!reason.empty()) throw UsageError(contender.variant.name + ": " + reason);
  return contender;
}

/// The inputs of a problem, and behind them its outputs.
std::vector<Tensor> tensors_of(const Problem& problem) {
  std::vector<Tensor> tensors = problem.inputs();
  const std::vector<Tensor> outputs = problem.outputs();
  tensors.insert(tensors.end(), outputs.begin(), outputs.end());
  return tensors;
}

/// prepare of a variant that calls back.
auto calls(softmax_launch launch, void* context) {
  return [=](const Problem&, const Machine&, std::span<const Memory> memory) -> Plan {
    return
        [=, inputs = memory[0].inputs, outputs = memory[0].outputs](std::span<const cudaStream_t> streams) {
          if (launch(context, inputs.data(), outputs.data(), streams[0]) != 0) {
            throw std::runtime_error("its launch failed");
          }
        };
  };
}

}  // namespace

const char* softmax_error(void) {
  return last_error.c_str();
}

int softmax_open(const char* l2, softmax_session** session) {
  return guarded([&] {
    const std::string text(l2);
    if (text != "cold" && text != "warm") {
      throw UsageError("l2: '" + text + "' is not accepted; accepted: cold, warm");
    }
    const L2 state = text == "cold" ? L2::cold : L2::warm;
    const Machine machine = open_machine();
    const auto least = [](const Problem& problem) {
      return Traffic{static_cast<double>(problem.least_bytes()), 0};
    };
    Variant copy{"copy", "the ceiling: each input read once, each output written once", {}, least};
    *session = new softmax_session{
        machine, state, Timer(machine.devices[0], state), softmax_operations(), {{"", copy, false, {}}}, {}};
  });
}

void softmax_close(softmax_session* session) {
  delete session;
}

void softmax_describe_device(const softmax_session* session, softmax_device* device) {
  const Device& from = session->machine.devices[0];
  *device = {};
  copy_text(from.gpu, device->gpu);
  copy_text(from.compute_capability, device->compute_capability);
  copy_text(from.cuda_driver, device->cuda_driver);
  copy_text(from.cuda_runtime, device->cuda_runtime);
  device->multiprocessors = from.multiprocessors;
  device->l2_bytes = static_cast<std::int64_t>(from.l2_bytes);
  device->memory_bytes = static_cast<std::int64_t>(from.memory_bytes);
  device->simulated = from.simulated ? 1 : 0;
}

int softmax_synchronize(softmax_session* /*session*/) {
  return guarded([] { CUDA_CHECK(cudaDeviceSynchronize()); });
}

int softmax_add_stage(softmax_session* session, const char* library) {
  return guarded([&] {
    const Stage& stage = load_stage(library);
    session->run.reset();  // its workspace was not made for these
    for (const Variant& variant : stage.variants) {
      session->contenders.push_back({stage.name, variant, false, stage.operations});
    }
    for (const Operation* op : stage.operations) {
      auto& known = session->operations;
      if (std::find(known.begin(), known.end(), op) == known.end()) known.push_back(op);
    }
  });
}

int softmax_add_contender(softmax_session* session, const char* stage, const char* name,
                          softmax_launch launch, void* context) {
  return guarded([&] {
    session->contenders.push_back({stage, Variant{name, "", calls(launch, context), {}}, true, {}});
  });
}

int softmax_num_contenders(const softmax_session* session) {
  return static_cast<int>(session->contenders.size());
}

int softmax_describe(softmax_session* session, int contender, softmax_contender* description) {
  return guarded([&] {
    const Contender& from = contender_of(*session, contender);
    copy_text(from.stage, description->stage);
    copy_text(from.variant.name, description->name);
    copy_text(from.variant.idea, description->idea);
  });
}

int softmax_open_problem(softmax_session* session, const char* dtype, const char* op, int64_t rows,
                         int64_t cols, const char* input, uint64_t seed, int64_t offset) {
  return guarded([&] {
    session->run.reset();
    const Problem problem{
        {rows, cols}, named("dtype", dtype, all_dtypes()), named("op", op, session->operations)};
    const InputKind kind = named("input", input, all_inputs());
    if (rows < 1 || cols < 1 || offset < 0 || offset > Offsets::most) {
      throw UsageError("rows, cols: at least 1; offset: 0 to " + std::to_string(Offsets::most));
    }
    std::vector<const Variant*> variants;
    for (const Contender& contender : session->contenders) {
      if (does(contender, problem.op)) variants.push_back(&contender.variant);
    }
    ProblemSetup without{.seed = seed, .offsets = {offset, offset}, .l2 = session->l2};
    without.takes_times = !session->machine.devices[0].simulated;
    without.spare_bytes = without.takes_times ? left_to_contenders : 0;
    ProblemSetup with = without;
    with.workspace_bytes = largest_workspace(variants, problem, session->machine);
    try {
      session->run.emplace(problem, with, session->machine);
    } catch (const UsageError&) {
      session->run.emplace(problem, without, session->machine);
    }
    try {
      session->run->fill(kind);
    } catch (...) {
      session->run.reset();
      throw;
    }
  });
}

void softmax_close_problem(softmax_session* session) {
  session->run.reset();
}

int softmax_num_tensors(const softmax_session* session) {
  return session->run ? static_cast<int>(tensors_of(session->run->problem()).size()) : 0;
}

int softmax_describe_tensor(softmax_session* session, int tensor, softmax_tensor* description) {
  return guarded([&] {
    const Problem& problem = open_run(*session).problem();
    const std::vector<Tensor> tensors = tensors_of(problem);
    if (tensor < 0 || static_cast<std::size_t>(tensor) >= tensors.size()) {
      throw UsageError("there is no tensor " + std::to_string(tensor));
    }
    const Tensor& from = tensors[static_cast<std::size_t>(tensor)];
    copy_text(from.name, description->name);
    copy_text(name(from.dtype), description->dtype);
    description->rows = from.shape.rows;
    description->cols = from.shape.cols;
    description->is_output = static_cast<std::size_t>(tensor) < problem.inputs().size() ? 0 : 1;
  });
}

int softmax_applies(softmax_session* session, int contender, softmax_applicability* applicability) {
  return guarded([&] {
    const Contender& asked = contender_of(*session, contender);
    const Problem& problem = open_run(*session).problem();
    copy_text(reason_not_applicable(*session, asked), applicability->reason);
    applicability->passes = asked.variant.traffic ? passes(asked.variant.traffic(problem), problem) : 0;
  });
}

int softmax_verify(softmax_session* session, int contender, double tolerance_factor,
                   softmax_verdict* verdict) {
  return guarded([&] {
    Contender& verified = applicable_contender(*session, contender);
    ProblemRun& run = *session->run;
    if (!(tolerance_factor > 0)) throw UsageError("tolerance_factor: above 0");
    verified.tolerance_factor = tolerance_factor;
    Verdict found{true, "", 0};
    if (contender != copy_index) {
      const auto run_and_wait = [&](const Plan& plan) {
        cudaStream_t stream = session->timer.stream();
        plan({&stream, 1});
        CUDA_CHECK(cudaStreamSynchronize(stream));
      };
      found = run.verify(verified.variant, run_and_wait, tolerance_factor);
    }
    copy_text(found.explanation, verdict->explanation);
    verdict->max_error = found.max_error;
    verdict->correct = found.correct ? 1 : 0;
  });
}

int softmax_time(softmax_session* session, int contender, int repeats, int warm_up_ms, int limit_ms,
                 softmax_timing* timing) {
  return guarded([&] {
    const Contender& timed_contender = applicable_contender(*session, contender);
    const Variant& variant = timed_contender.variant;
    ProblemRun& run = *session->run;
    if (session->machine.devices[0].simulated) throw UsageError("the simulator takes no times");
    if (repeats < 1) throw UsageError("repeats: at least 1");
    if (warm_up_ms < 0 || limit_ms < 0) throw UsageError("warm_up_ms, limit_ms: at least 0");
    const Sampling sampling{repeats, std::chrono::milliseconds(warm_up_ms),
                            std::chrono::milliseconds(limit_ms)};
    // It may set itself up for pointers that it has not seen, which a capture would forbid.
    if (timed_contender.is_callback) run.launch_on_every_set(variant, session->timer.stream());
    Verdict verdict{true, "", 0};
    const TimedVariant timed = contender == copy_index ? run.time_copy(session->timer, sampling)
                                                       : run.time(variant, session->timer, sampling, verdict,
                                                                  timed_contender.tolerance_factor);
    if (!verdict.correct) throw WrongResultError(verdict.explanation);
    *timing = {timed.variant.median_us,
               timed.variant.spread_percent,
               timed.copy.median_us,
               timed.copy.spread_percent,
               {}};
    copy_text(doubts(timed), timing->note);
  });
}
