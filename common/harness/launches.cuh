// From a variant's launcher to Variant::prepare: the problem's dtype and operation become template arguments.
#pragma once

#include <stdexcept>

#include "common/harness/dtype.cuh"
#include "common/harness/variant.h"
#include "common/kernel/load_store.cuh"
#include "common/kernel/row_operation.cuh"

/// The harness's object for an operation of the kernels. A stage with an operation of its own declares an overload
/// beside its type.
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
  return ((op == operation_of(Ops{})) || ...);
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
  if (!(try_operation(Ops{}) || ...))
    throw std::logic_error(std::string("not compiled for ") + problem.op->name);
  return plan;
}

// ---- Variant::prepare of a launcher, by what its launch<Op>() takes.

/// launch<Op>(const T* x, T* y, Shape, cudaStream_t)
template <class Launcher, class Ops = SoftmaxOperations>
Plan launches(const Problem& problem, const Machine& /*machine*/, std::span<const Memory> memory) {
  return dispatch(Ops{}, problem, [&]<class Op, class T>() {
    const T* x = static_cast<const T*>(memory[0].inputs[0]);
    T* y = static_cast<T*>(memory[0].outputs[0]);
    return [=, shape = problem.shape](std::span<const cudaStream_t> streams) {
      Launcher::template launch<Op>(x, y, shape, streams[0]);
    };
  });
}

/// launch<Op>(const T* x, T* y, void* workspace, Shape, cudaStream_t)
template <class Launcher, class Ops = SoftmaxOperations>
Plan launches_with_workspace(const Problem& problem, const Machine& /*machine*/,
                             std::span<const Memory> memory) {
  return dispatch(Ops{}, problem, [&]<class Op, class T>() {
    const T* x = static_cast<const T*>(memory[0].inputs[0]);
    T* y = static_cast<T*>(memory[0].outputs[0]);
    void* workspace = memory[0].workspace;
    return [=, shape = problem.shape](std::span<const cudaStream_t> streams) {
      Launcher::template launch<Op>(x, y, workspace, shape, streams[0]);
    };
  });
}

/// launch<Op>(Load, Store, Shape, cudaStream_t), with plain reads and writes
template <class Launcher, class Ops = SoftmaxOperations>
Plan launches_load_store(const Problem& problem, const Machine& /*machine*/, std::span<const Memory> memory) {
  return dispatch(Ops{}, problem, [&]<class Op, class T>() {
    const DirectLoad<T> load{static_cast<const T*>(memory[0].inputs[0]), problem.shape.cols};
    const DirectStore<T> store{static_cast<T*>(memory[0].outputs[0]), problem.shape.cols};
    return [=, shape = problem.shape](std::span<const cudaStream_t> streams) {
      Launcher::template launch<Op>(load, store, shape, streams[0]);
    };
  });
}
