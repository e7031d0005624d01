// What is computed: a row-wise operation on a row-major rows x cols matrix of one data type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

enum class DType { f32, f16, bf16 };
enum class Op { softmax, log_softmax };

struct Shape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  [[nodiscard]] std::int64_t elements() const { return rows * cols; }
};

struct Problem {
  Shape shape;
  DType dtype = DType::f32;
  Op op = Op::softmax;
  /// Bytes of one tensor (the input, or the output).
  [[nodiscard]] std::size_t tensor_bytes() const;
};

std::size_t size_of(DType dtype);  ///< bytes of one element

const char* name(DType dtype);
const char* name(Op op);

/// All values in the order in which they are listed to the user.
const std::vector<DType>& all_dtypes();
const std::vector<Op>& all_ops();

/// "f32 softmax, 49152 x 1024"
std::string describe(const Problem& problem);
