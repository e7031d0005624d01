// The problem to compute: an operation on the rows of a row-major matrix of one data type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/kernel/shape.h"

enum class DType {
  f32,
  f16,
  bf16,
  i64  ///< for tensors other than the matrix: labels
};

std::size_t size_of(DType dtype);  ///< bytes of one element
const char* name(DType dtype);
/// The data types of matrices, in the order in which they are listed to the user.
const std::vector<DType>& all_dtypes();

/// One input or output of an operation, row-major.
struct Tensor {
  const char* name;
  DType dtype = DType::f32;
  Shape shape;
  int device = 0;  ///< the device that holds it
  [[nodiscard]] std::size_t bytes() const;
};

enum class Space {
  host,
  device
};  ///< the space that a pointer points to, and so the place of the work on it

/// Elements by which tensors are off their alignment of 256 bytes.
struct Offsets {
  static constexpr std::int64_t most = 1024;
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t next = 0;  ///< how much further each input is off than the one before it, and each output
};

struct Operation;

struct Problem {
  Shape shape;  ///< of the matrix that the operation works on
  DType dtype = DType::f32;
  const Operation* op = nullptr;
  Offsets offsets{};
  std::uint64_t seed = 1;  ///< for the inputs, and for an operation's random numbers
  int devices = 1;         ///< GPUs that hold its tensors

  [[nodiscard]] std::vector<Tensor> inputs() const;
  [[nodiscard]] std::vector<Tensor> outputs() const;
  [[nodiscard]] std::int64_t element_bytes() const;  ///< of the dtype
  /// Whether all inputs and outputs begin equally far past a pack of 16 bytes.
  [[nodiscard]] bool lie_alike() const;
  /// Bytes of a rows x cols matrix of the dtype: the unit of passes.
  [[nodiscard]] std::size_t matrix_bytes() const;
  /// Bytes of all inputs and outputs: the least that any kernel reads and writes.
  [[nodiscard]] std::size_t least_bytes() const;
  /// Bytes of all inputs and outputs of the GPU that has most of them.
  [[nodiscard]] std::size_t least_bytes_of_a_device() const;
};

/// "f32 softmax, 49152 x 1024"
std::string describe(const Problem& problem);
