#include "common/harness/c/c_interface.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/harness/choice.h"
#include "common/harness/json.h"
#include "common/harness/problem_run.h"
#include "common/kernel/cuda_check.h"

struct Contender {
  std::string stage;
  Variant variant;
  bool is_callback = false;
  double tolerance_factor = 1;  ///< of the last verification
};

struct softmax_session {
  Device device;
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
thread_local std::string told;

/// Runs the function, which may set `told`; an exception becomes the return code, and softmax_error().
template <class Function>
int guarded(Function&& function) {
  told.clear();
  try {
    function();
    return static_cast<int>(ExitCode::fine);
  } catch (const std::exception& error) {
    last_error = error.what();
    return static_cast<int>(exit_code(error));
  }
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

bool contains(const std::vector<const Operation*>& operations, const Operation* op) {
  return std::any_of(operations.begin(), operations.end(),
                     [&](const Operation* one) { return one->name == op->name; });
}

/// Why the contender cannot do the open problem.
std::string reason_not_applicable(softmax_session& session, const Contender& contender) {
  const ProblemRun& run = open_run(session);
  std::string reason = contender.variant.unsupported(run.problem(), session.device);
  if (!reason.empty()) return reason;
  const bool fits = contender.variant.workspace(run.problem(), session.device).bytes <= run.workspace_bytes();
  return fits ? "" : "not enough device memory for its workspace";
}

/// The contender, which can do the open problem.
Contender& applicable_contender(softmax_session& session, int index) {
  Contender& contender = contender_of(session, index);
  const std::string reason = reason_not_applicable(session, contender);
  if (!reason.empty()) throw UsageError(contender.variant.name + ": " + reason);
  return contender;
}

std::string json(const Tensor& tensor, bool is_output) {
  return json_object({{"name", json_quoted(tensor.name)},
                      {"dtype", json_quoted(name(tensor.dtype))},
                      {"rows", std::to_string(tensor.shape.rows)},
                      {"cols", std::to_string(tensor.shape.cols)},
                      {"is_output", is_output ? "true" : "false"}});
}

/// prepare of a variant that calls back.
auto calls(softmax_launch launch, void* context) {
  return [=](const Problem&, const Device&, const Memory& memory) -> Plan {
    return [=](cudaStream_t stream) {
      if (launch(context, memory.inputs.data(), memory.outputs.data(), stream) != 0) {
        throw std::runtime_error("its launch failed");
      }
    };
  };
}

}  // namespace

const char* softmax_error(void) {
  return last_error.c_str();
}

const char* softmax_told(void) {
  return told.c_str();
}

int softmax_open(const char* l2, softmax_session** session) {
  return guarded([&] {
    const L2 state = choose("l2", l2, by_name(std::vector{L2::cold, L2::warm}));
    const Device device = open_device();
    const Variant copy{.name = "copy",
                       .idea = "the ceiling: each input read once, each output written once",
                       .prepare = {},
                       .traffic = least_traffic};
    *session =
        new softmax_session{device, state, Timer(device, state), softmax_operations(), {{"", copy}}, {}};
    JsonMembers members = json_members(device);
    members.emplace_back("simulated", device.simulated ? "1" : "0");
    told = json_object(members);
  });
}

void softmax_close(softmax_session* session) {
  delete session;
}

int softmax_synchronize(softmax_session* /*session*/) {
  return guarded([] { CUDA_CHECK(cudaDeviceSynchronize()); });
}

int softmax_add_stage(softmax_session* session, const char* library) {
  return guarded([&] {
    const Stage& stage = load_stage(library);
    session->run.reset();  // its workspace was not made for these
    for (Variant variant : stage.variants) {
      variant.unsupported = [&stage, of_shape = variant.unsupported](const Problem& problem,
                                                                     const Device& device) {
        if (contains(stage.operations, problem.op)) return of_shape(problem, device);
        return stage.name + " does not do " + std::string(problem.op->name);
      };
      session->contenders.push_back({stage.name, variant});
    }
    for (const Operation* op : stage.operations) {
      if (!contains(session->operations, op)) session->operations.push_back(op);
    }
  });
}

int softmax_add_contender(softmax_session* session, const char* stage, const char* name,
                          softmax_launch launch, void* context) {
  return guarded([&] {
    Variant variant{.name = name, .idea = "", .prepare = calls(launch, context), .traffic = {}};
    session->contenders.push_back({stage, std::move(variant), true});
  });
}

int softmax_contenders(softmax_session* session) {
  return guarded([&] {
    std::vector<std::string> contenders;
    for (const Contender& contender : session->contenders) {
      contenders.push_back(json_object({{"stage", json_quoted(contender.stage)},
                                        {"name", json_quoted(contender.variant.name)},
                                        {"idea", json_quoted(contender.variant.idea)}}));
    }
    told = json_list(contenders);
  });
}

int softmax_open_problem(softmax_session* session, const char* dtype, const char* op, int64_t rows,
                         int64_t cols, const char* input, uint64_t seed, int64_t offset) {
  return guarded([&] {
    session->run.reset();
    const Problem problem{{rows, cols},
                          choose("dtype", dtype, by_name(all_dtypes())),
                          choose("op", op, by_name(session->operations)),
                          {offset, offset},
                          seed};
    const InputKind kind = choose("input", input, by_name(all_inputs()));
    if (rows < 1 || cols < 1 || offset < 0 || offset > Offsets::most) {
      throw UsageError("rows, cols: at least 1; offset: 0 to " + std::to_string(Offsets::most));
    }
    std::vector<const Variant*> variants;
    for (const Contender& contender : session->contenders) variants.push_back(&contender.variant);
    ProblemSetup without{.l2 = session->l2};
    without.takes_times = !session->device.simulated;
    without.spare_bytes = without.takes_times ? left_to_contenders : 0;
    ProblemSetup with = without;
    with.workspace_bytes = largest_workspace(variants, problem, session->device);
    try {
      session->run.emplace(problem, with, session->device);
    } catch (const UsageError&) {
      session->run.emplace(problem, without, session->device);
    }
    try {
      session->run->fill(kind);
    } catch (...) {
      session->run.reset();
      throw;
    }
    std::vector<std::string> tensors;
    for (const Tensor& tensor : problem.inputs()) tensors.push_back(json(tensor, false));
    for (const Tensor& tensor : problem.outputs()) tensors.push_back(json(tensor, true));
    told = json_list(tensors);
  });
}

void softmax_close_problem(softmax_session* session) {
  session->run.reset();
}

int softmax_applies(softmax_session* session, int contender) {
  return guarded([&] {
    const Contender& asked = contender_of(*session, contender);
    const Problem& problem = open_run(*session).problem();
    const auto& traffic = asked.variant.traffic;
    const std::string reason = reason_not_applicable(*session, asked);
    const bool is_declared = reason.empty() && traffic;
    told = json_object({{"reason", json_quoted(reason)},
                        {"passes", is_declared ? json_number(passes(traffic(problem), problem)) : "null"}});
  });
}

int softmax_verify(softmax_session* session, int contender, double tolerance_factor) {
  return guarded([&] {
    Contender& verified = applicable_contender(*session, contender);
    if (!(tolerance_factor > 0)) throw UsageError("tolerance_factor: above 0");
    verified.tolerance_factor = tolerance_factor;
    Verdict found{true};
    if (contender != copy_index) {
      const auto run_and_wait = [stream = session->timer.stream()](const Plan& plan) {
        plan(stream);
        CUDA_CHECK(cudaStreamSynchronize(stream));
      };
      found = session->run->verify(verified.variant, run_and_wait, tolerance_factor);
    }
    told = json_object({{"correct", found.correct ? "true" : "false"},
                        {"explanation", json_quoted(found.explanation)},
                        {"max_error", json_number(found.max_error)}});
  });
}

int softmax_time(softmax_session* session, int contender, int repeats, int warm_up_ms, int limit_ms) {
  return guarded([&] {
    const Contender& asked = applicable_contender(*session, contender);
    ProblemRun& run = *session->run;
    if (session->device.simulated) throw UsageError("the simulator takes no times");
    if (repeats < 1) throw UsageError("repeats: at least 1");
    if (warm_up_ms < 0 || limit_ms < 0) throw UsageError("warm_up_ms, limit_ms: at least 0");
    const Sampling sampling{repeats, std::chrono::milliseconds(warm_up_ms),
                            std::chrono::milliseconds(limit_ms)};
    // It may set itself up for pointers that it has not seen, which a capture would forbid.
    if (asked.is_callback) run.launch_on_every_set(asked.variant, session->timer.stream());
    const auto [timed, verdict] =
        contender == copy_index ? ProblemRun::Timed{run.time_copy(session->timer, sampling), {true}}
                                : run.time(asked.variant, session->timer, sampling, asked.tolerance_factor);
    if (!verdict.correct) throw WrongResultError(verdict.explanation);
    told = json_object(json_members(timed));
  });
}
