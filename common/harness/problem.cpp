#include "common/harness/problem.h"

std::size_t Problem::tensor_bytes() const {
  return static_cast<std::size_t>(shape.elements()) * size_of(dtype);
}

std::size_t size_of(DType dtype) {
  return dtype == DType::f32 ? 4 : 2;
}

const char* name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
  }
  return "?";
}

const char* name(Op op) {
  return op == Op::softmax ? "softmax" : "log_softmax";
}

const std::vector<DType>& all_dtypes() {
  static const std::vector<DType> all{DType::f32, DType::f16, DType::bf16};
  return all;
}

const std::vector<Op>& all_ops() {
  static const std::vector<Op> all{Op::softmax, Op::log_softmax};
  return all;
}

std::string describe(const Problem& problem) {
  return std::string(name(problem.dtype)) + " " + name(problem.op) + ", " +
         std::to_string(problem.shape.rows) + " x " + std::to_string(problem.shape.cols);
}
