// Makes a Variant from a launcher: the problem's dtype and operation become template arguments, and the
// launcher declares its refusals and needs.
#pragma once

#include <stdexcept>
#include <utility>

#include "common/harness/dtype.cuh"
#include "common/harness/refusal.h"
#include "common/harness/variant.h"
#include "common/kernel/limits.h"
#include "common/kernel/load_store.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/tensors.h"

template <class... Ops>
bool is_one_of(OpList<Ops...>, const Operation* op) {
  return ((op->name == Ops::name) || ...);
}

/// "softmax, log_softmax"
template <class... Ops>
std::string names_of(OpList<Ops...>) {
  std::string names;
  ((names += (names.empty() ? "" : ", ") + std::string(Ops::name)), ...);
  return names;
}

/// Calls function.template operator()<Op>() with the problem's operation, which must be in the list.
template <class... Ops, class Function>
void with_operation(OpList<Ops...>, const Problem& problem, Function function) {
  const auto try_operation = [&]<class Op>(Op) {
    if (!is_one_of(OpList<Op>{}, problem.op)) return false;
    function.template operator()<Op>();
    return true;
  };
  if (!(try_operation(Ops{}) || ...)) {
    throw std::logic_error("not compiled for " + std::string(problem.op->name));
  }
}

/// Returns the Plan function.template operator()<Op, T>() for the problem's operation and dtype.
template <class List, class Function>
Plan dispatch(List list, const Problem& problem, Function function) {
  Plan plan;
  with_operation(list, problem, [&]<class Op>() {
    plan = dispatch_dtype(problem.dtype,
                          [&]<class T>() -> Plan { return function.template operator()<Op, T>(); });
  });
  return plan;
}

/// The problem's tensors, assigned by their names.
template <class T>
Tensors<T> tensors_of(const Problem& problem, const Memory& memory) {
  Tensors<T> tensors{.seed = problem.seed, .workspace = memory.workspace, .shape = problem.shape};
  const auto set = [&](std::string_view name, void* data) {
    if (name == "x") tensors.x = static_cast<const T*>(data);
    if (name == "y") tensors.y = static_cast<T*>(data);
    if (name == "pair") tensors.pairs = static_cast<const float*>(data);
    if (name == "dy") tensors.dy = static_cast<const T*>(data);
    if (name == "dx") tensors.dx = static_cast<T*>(data);
    if (name == "label") tensors.labels = static_cast<const std::int64_t*>(data);
    if (name == "loss") tensors.loss = static_cast<float*>(data);
    if (name == "softmax") tensors.softmax = static_cast<T*>(data);
    if (name == "length") tensors.lengths = static_cast<const std::int64_t*>(data);
  };
  const std::vector<Tensor> inputs = problem.inputs();
  const std::vector<Tensor> outputs = problem.outputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) set(inputs[i].name, const_cast<void*>(memory.inputs[i]));
  for (std::size_t i = 0; i < outputs.size(); ++i) set(outputs[i].name, memory.outputs[i]);
  return tensors;
}

/// Returns the Plan that calls launch.template operator()<Op>(tensors, stream).
template <class List, class Launch>
Plan plan_of(const Problem& problem, const Memory& memory, Launch launch) {
  return dispatch(List{}, problem, [&]<class Op, class T>() -> Plan {
    return [launch, tensors = tensors_of<T>(problem, memory)](cudaStream_t stream) {
      launch.template operator()<Op>(tensors, stream);
    };
  });
}

// ---- The parts of a Variant that come from its launcher.

namespace of_launcher {

template <class Launcher>
auto operations() {
  if constexpr (requires { typename Launcher::Operations; }) {
    return typename Launcher::Operations{};
  } else {
    return SoftmaxOperations{};
  }
}

template <class Launcher>
struct Launch {
  template <class Op, class T>
  void operator()(const Tensors<T>& tensors, cudaStream_t stream) const {
    if constexpr (requires { Launcher::template launch<Op>(tensors, stream); }) {
      Launcher::template launch<Op>(tensors, stream);
    } else {
      FromXToY<Launcher>::template launch<Op>(tensors, stream);
    }
  }
};

template <class Launcher>
Plan prepare(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return plan_of<decltype(operations<Launcher>())>(problem, memory, Launch<Launcher>{});
}

template <class Launcher>
std::string unsupported(const Problem& problem, const Device& /*device*/) {
  const auto list = operations<Launcher>();
  if (!is_one_of(list, problem.op)) return "this variant does " + names_of(list);
  Refusal refusal;
  with_operation(list, problem,
                 [&]<class Op>() { refusal = refusal_of<Launcher, Op>(matrix_of(problem), current_gpu()); });
  return words(refusal);
}

template <class Launcher>
Workspace workspace(const Problem& problem, const Device& /*device*/) {
  const Need need = need_of<Launcher>(matrix_of(problem));
  return {.bytes = need.workspace_bytes, .zeroed = need.zeroed};
}

}  // namespace of_launcher

/// A row of a stage's table: the variant's name, its idea in one line, and its reads and writes. A launcher
/// that waits for the device declares can_be_captured = false.
template <class Launcher>
Variant variant(std::string name, std::string idea, std::function<Traffic(const Problem&)> traffic) {
  bool capturable = true;
  if constexpr (requires { Launcher::can_be_captured; }) capturable = Launcher::can_be_captured;
  return {.name = std::move(name),
          .idea = std::move(idea),
          .prepare = of_launcher::prepare<Launcher>,
          .traffic = std::move(traffic),
          .unsupported = of_launcher::unsupported<Launcher>,
          .workspace = of_launcher::workspace<Launcher>,
          .capturable = capturable};
}
