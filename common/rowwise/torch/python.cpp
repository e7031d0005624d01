// The module rowwise._C: loading it registers the operators, and its functions call them. torch.ops.rowwise.* is PyTorch's general
// way to an operator, which converts each argument by the schema, and alone costs more than this.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/utils/python_arg_parser.h>
#include <torch/csrc/utils/python_numbers.h>
#include <torch/csrc/utils/python_strings.h>

#include <array>
#include <string_view>

#include "common/rowwise/torch/operators.h"

namespace {

/// Whether each of these arguments is a torch.Tensor, and neither a subclass nor a mode may replace the operator.
bool is_plain(PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!THPVariable_CheckExact(arguments[i])) return false;
  }
  return !at::impl::torch_function_mode_enabled() && !torch::jit::tracer::isTracing();
}

/// Calls torch.ops.rowwise.NAME(*arguments).
PyObject* call_in_general(const char* name, PyObject* const* arguments, Py_ssize_t count) {
  const py::object operators = py::module_::import("torch").attr("ops").attr("rowwise");
  PyObject* result =
      PyObject_Vectorcall(operators.attr(name).ptr(), arguments, static_cast<std::size_t>(count), nullptr);
  if (result == nullptr) throw python_error();
  return result;
}

const at::Tensor& tensor(PyObject* object) {
  return THPVariable_Unpack(object);
}

/// Another Python thread may run until the operator returns.
template <class Call>
PyObject* without_lock(Call call) {
  at::Tensor result;
  {
    const py::gil_scoped_release released;
    result = call();
  }
  return THPVariable_Wrap(std::move(result));
}

template <at::Tensor (*call)(const at::Tensor&, std::int64_t)>
PyObject* softmax(const char* name, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 2 || !PyLong_CheckExact(arguments[1]) || !is_plain(arguments, 1))
    return call_in_general(name, arguments, count);
  const std::int64_t dim = THPUtils_unpackLong(arguments[1]);
  return without_lock([&] { return call(tensor(arguments[0]), dim); });
  END_HANDLE_TH_ERRORS
}

PyObject* of_softmax(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  return softmax<rowwise::softmax>("softmax", arguments, count);
}
PyObject* of_log_softmax(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  return softmax<rowwise::log_softmax>("log_softmax", arguments, count);
}

PyObject* of_cross_entropy(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 3 || !THPUtils_checkString(arguments[2]) || !is_plain(arguments, 2)) {
    return call_in_general("cross_entropy", arguments, count);
  }
  const std::string_view reduction = THPUtils_unpackStringView(arguments[2]);
  return without_lock(
      [&] { return rowwise::cross_entropy(tensor(arguments[0]), tensor(arguments[1]), reduction); });
  END_HANDLE_TH_ERRORS
}

template <PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)>
PyMethodDef method(const char* name) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL, nullptr};
}

}  // namespace

PyMODINIT_FUNC PyInit__C() {
  static std::array methods{method<of_softmax>("softmax"), method<of_log_softmax>("log_softmax"),
                            method<of_cross_entropy>("cross_entropy"), PyMethodDef{}};
  static PyModuleDef module{
      PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods.data(), nullptr, nullptr, nullptr, nullptr};
  return PyModule_Create(&module);
}
