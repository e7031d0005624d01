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

#include "common/harness/cli/command_line.h"
#include "common/harness/cuda_check.h"
#include "common/harness/device.h"
#include "common/harness/problem_run.h"

struct Contender {
  std::string stage;
  Variant variant;
  bool is_callback;
};

struct softmax_session {
  Device device;
  L2 l2;
  Timer timer;
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
  ExitCode code = ExitCode::fine;
  try {
    function();
  } catch (const UsageError& error) {
    last_error = error.what();
    code = ExitCode::bad_usage;
  } catch (const NoDeviceError& error) {
    last_error = error.what();
    code = ExitCode::no_device;
  } catch (const std::exception& error) {
    last_error = error.what();
    code = ExitCode::cuda_error;
  }
  return static_cast<int>(code);
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

const Contender& contender_of(const softmax_session& session, int index) {
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

/// Why the contender cannot do the open problem.
std::string reason_not_applicable(softmax_session& session, const Variant& variant) {
  const ProblemRun& run = open_run(session);
  std::string reason = reason_not_applicable(variant, run.problem());
  if (!reason.empty() || largest_workspace({&variant}, run.problem()) <= run.workspace_bytes()) return reason;
  return "not enough device memory for its workspace";
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
    const Device device = open_device();
    Variant copy{"copy", "the ceiling: one read, one write", {}, whole_passes(1, 1)};
    *session = new softmax_session{device, state, Timer(device, state), {{"", copy, false}}, {}};
  });
}

void softmax_close(softmax_session* session) {
  delete session;
}

void softmax_describe_device(const softmax_session* session, softmax_device* device) {
  const Device& from = session->device;
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
    for (const Variant& variant : stage.variants) session->contenders.push_back({stage.name, variant, false});
  });
}

int softmax_add_contender(softmax_session* session, const char* stage, const char* name,
                          softmax_launch launch, void* context) {
  return guarded([&] {
    const auto call = [launch, context](const Problem& /*problem*/, const Buffers& buffers,
                                        cudaStream_t stream) {
      if (launch(context, buffers.x, buffers.y, stream) != 0) throw std::runtime_error("its launch failed");
    };
    session->contenders.push_back({stage, Variant{name, "", call, {}}, true});
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
    const Problem problem{{rows, cols}, named("dtype", dtype, all_dtypes()), named("op", op, all_ops())};
    const InputKind kind = named("input", input, all_inputs());
    if (rows < 1 || cols < 1 || offset < 0) {
      throw UsageError("rows, cols: at least 1; offset: at least 0");
    }
    std::vector<const Variant*> variants;
    for (const Contender& contender : session->contenders) variants.push_back(&contender.variant);
    const bool takes_times = !session->device.simulated;
    const ProblemSetup without{seed,        offset, session->l2,
                               takes_times, 0,      takes_times ? left_to_contenders : 0};
    ProblemSetup with = without;
    with.workspace_bytes = largest_workspace(variants, problem);
    try {
      session->run.emplace(problem, with, session->device);
    } catch (const UsageError&) {
      session->run.emplace(problem, without, session->device);
    }
    session->run->fill(kind);
  });
}

void softmax_close_problem(softmax_session* session) {
  session->run.reset();
}

int softmax_applies(softmax_session* session, int contender, softmax_applicability* applicability) {
  return guarded([&] {
    const Variant& variant = contender_of(*session, contender).variant;
    copy_text(reason_not_applicable(*session, variant), applicability->reason);
    applicability->passes =
        variant.traffic ? passes(variant.traffic(session->run->problem()), session->run->problem()) : 0;
  });
}

int softmax_verify(softmax_session* session, int contender, double tolerance_factor,
                   softmax_verdict* verdict) {
  return guarded([&] {
    const Variant& variant = contender_of(*session, contender).variant;
    ProblemRun& run = open_run(*session);
    if (!(tolerance_factor > 0)) throw UsageError("tolerance_factor: above 0");
    Verdict found{true, "", 0};
    if (contender != copy_index) {
      const auto launch_and_wait = [&](const Buffers& buffers) {
        variant.launch(run.problem(), buffers, session->timer.stream());
        CUDA_CHECK(cudaStreamSynchronize(session->timer.stream()));
      };
      found = run.verify(launch_and_wait, tolerance_factor);
    }
    copy_text(found.explanation, verdict->explanation);
    verdict->max_error = found.max_error;
    verdict->correct = found.correct ? 1 : 0;
  });
}

int softmax_time(softmax_session* session, int contender, int repeats, int warm_up_ms, int limit_ms,
                 softmax_timing* timing) {
  return guarded([&] {
    const Variant& variant = contender_of(*session, contender).variant;
    ProblemRun& run = open_run(*session);
    if (session->device.simulated) throw UsageError("the simulator takes no times");
    if (repeats < 1) throw UsageError("repeats: at least 1");
    if (warm_up_ms < 0 || limit_ms < 0) throw UsageError("warm_up_ms, limit_ms: at least 0");
    const Sampling sampling{repeats, std::chrono::milliseconds(warm_up_ms),
                            std::chrono::milliseconds(limit_ms)};
    const auto launch = [&](const Buffers& buffers, cudaStream_t stream) {
      variant.launch(run.problem(), buffers, stream);
    };
    // It may set itself up for pointers that it has not seen, which a capture would forbid.
    if (session->contenders[static_cast<std::size_t>(contender)].is_callback) {
      run.launch_on_every_set(launch, session->timer.stream());
    }
    const TimedVariant timed = contender == copy_index
                                   ? run.time_copy(session->timer, sampling)
                                   : run.time(launch, variant.capturable, session->timer, sampling);
    *timing = {timed.variant.median_us, timed.variant.spread_percent, timed.copy.median_us,
               timed.copy.spread_percent};
  });
}
