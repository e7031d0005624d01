// From a variant's launcher to Variant::prepare: the problem's dtype and operation become template arguments.
#pragma once

#include <stdexcept>

#include "common/harness/dtype.cuh"
#include "common/harness/variant.h"
#include "common/kernel/load_store.cuh"
#include "common/kernel/row_operation.cuh"

/// The harness's object for an operation of the kernels. A stage with an operation of its own declares an
/// overload beside its type.
inline const Operation* operation_of(Softmax) {
  return &softmax_operation;
}
inline const Operation* operation_of(LogSoftmax) {
  return &log_softmax_operation;
}

/// The operations that a launcher is compiled for.
template <class... Ops>
struct Operations {};
using SoftmaxOperations = Operations<Softmax, LogSoftmax>;

template <class... Ops>
bool is_one_of(Operations<Ops...>, const Operation* op) {
  return ((op->name == operation_of(Ops{})->name) || ...);
}

/// The Plan function.template operator()<Op, T>() of the problem's operation and dtype.
template <class... Ops, class Function>
Plan dispatch(Operations<Ops...>, const Problem& problem, Function function) {
  Plan plan;
  const auto try_operation = [&]<class Op>(Op) {
    if (!is_one_of(Operations<Op>{}, problem.op)) return false;
    plan = dispatch_dtype(problem.dtype,
                          [&]<class T>() -> Plan { return function.template operator()<Op, T>(); });
    return true;
  };
  if (!(try_operation(Ops{}) || ...)) {
    throw std::logic_error("not compiled for " + std::string(problem.op->name));
  }
  return plan;
}

/// The Plan launch.template operator()<Op>(const T* x, T* y, stream) of an operation {x} -> {y}.
template <class Ops, class Launch>
Plan launches_x_to_y(const Problem& problem, const Memory& memory, Launch launch) {
  return dispatch(Ops{}, problem, [&]<class Op, class T>() {
    const T* x = static_cast<const T*>(memory.inputs[0]);
    T* y = static_cast<T*>(memory.outputs[0]);
    return [=](cudaStream_t stream) { launch.template operator()<Op>(x, y, stream); };
  });
}

// ---- Variant::prepare of a launcher, by what its launch<Op>() takes.

/// launch<Op>(const T* x, T* y, Shape, cudaStream_t)
template <class Launcher, class Ops = SoftmaxOperations>
Plan launches(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  const auto launch = [shape = problem.shape]<class Op>(auto* x, auto* y, cudaStream_t stream) {
    Launcher::template launch<Op>(x, y, shape, stream);
  };
  return launches_x_to_y<Ops>(problem, memory, launch);
}

/// launch<Op>(const T* x, T* y, void* workspace, Shape, cudaStream_t)
template <class Launcher, class Ops = SoftmaxOperations>
Plan launches_with_workspace(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  const auto launch = [shape = problem.shape, workspace = memory.workspace]<class Op>(auto* x, auto* y,
                                                                                      cudaStream_t stream) {
    Launcher::template launch<Op>(x, y, workspace, shape, stream);
  };
  return launches_x_to_y<Ops>(problem, memory, launch);
}

/// launch<Op>(Load, Store, Shape, cudaStream_t), with plain writes; Load: DirectLoad, EvictLastLoad
template <class Launcher, template <class> class Load = DirectLoad, class Ops = SoftmaxOperations>
Plan launches_load_store(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  const auto launch = [shape = problem.shape]<class Op, class T>(const T* x, T* y, cudaStream_t stream) {
    Launcher::template launch<Op>(Load<T>{x, shape.cols}, DirectStore<T>{y, shape.cols}, shape, stream);
  };
  return launches_x_to_y<Ops>(problem, memory, launch);
}

/// launch<Op>(Load, Store, void* workspace, Shape, cudaStream_t), with plain reads and writes
template <class Launcher, class Ops = SoftmaxOperations>
Plan launches_load_store_with_workspace(const Problem& problem, const Device& /*device*/,
                                        const Memory& memory) {
  const auto launch = [shape = problem.shape, workspace = memory.workspace]<class Op>(auto* x, auto* y,
                                                                                      cudaStream_t stream) {
    Launcher::template launch<Op>(DirectLoad{x, shape.cols}, DirectStore{y, shape.cols}, workspace, shape,
                                  stream);
  };
  return launches_x_to_y<Ops>(problem, memory, launch);
}
