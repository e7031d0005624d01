#include "common/harness/problem.h"

#include <algorithm>
#include <array>

#include "common/harness/operation.h"

std::size_t size_of(DType dtype) {
  return dtype == DType::i64 ? 8 : dtype == DType::f32 ? 4 : 2;
}

const char* name(DType dtype) {
  constexpr std::array names{"f32", "f16", "bf16", "i64"};  // in the order of the enum
  return names.at(static_cast<std::size_t>(dtype));
}

const std::vector<DType>& all_dtypes() {
  static const std::vector<DType> all{DType::f32, DType::f16, DType::bf16};
  return all;
}

std::size_t Tensor::bytes() const {
  return static_cast<std::size_t>(shape.elements()) * size_of(dtype);
}

std::vector<Tensor> Problem::inputs() const {
  return op->inputs(*this);
}

std::vector<Tensor> Problem::outputs() const {
  return op->outputs(*this);
}

std::int64_t Problem::element_bytes() const {
  return static_cast<std::int64_t>(size_of(dtype));
}

bool Problem::lie_alike() const {
  return (offsets.input - offsets.output) * element_bytes() % 16 == 0 &&
         offsets.next * element_bytes() % 16 == 0;
}

std::size_t Problem::matrix_bytes() const {
  return static_cast<std::size_t>(shape.elements()) * size_of(dtype);
}

std::size_t Problem::least_bytes() const {
  std::size_t bytes = 0;
  for (const Tensor& tensor : inputs()) bytes += tensor.bytes();
  for (const Tensor& tensor : outputs()) bytes += tensor.bytes();
  return bytes;
}

std::size_t Problem::least_bytes_of_a_device() const {
  std::vector<std::size_t> bytes(static_cast<std::size_t>(devices));
  for (const auto& tensors : {inputs(), outputs()}) {
    for (const Tensor& tensor : tensors) bytes.at(static_cast<std::size_t>(tensor.device)) += tensor.bytes();
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

std::string describe(const Problem& problem) {
  return std::string(name(problem.dtype)) + " " + std::string(problem.op->name) + ", " +
         std::to_string(problem.shape.rows) + " x " + std::to_string(problem.shape.cols) +
         (problem.devices > 1 ? " on " + std::to_string(problem.devices) + " GPUs" : "");
}
