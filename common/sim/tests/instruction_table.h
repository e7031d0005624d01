// The table instructions.txt: its lines, the kernels that are made of them, and the values that they are
// given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Two warps, each lane with arguments of its own.
inline constexpr int case_count = 64;
inline constexpr int most_operands = 4;
/// Bytes of each lane, and then of each warp, in global and in shared memory.
inline constexpr int place_bytes = 32;
inline constexpr int scratch_bytes = (case_count + case_count / 32) * place_bytes;

/// The type of an operand: how many bits and, for the comparison of results, the format of a number.
struct OperandType {
  std::string_view name;
  std::string_view register_type;  ///< as in .reg
  int bits = 0;                    ///< of one number; two of them in f16x2 and bf16x2
  int mantissa_bits = 0;           ///< of a floating-point number, without the leading one; 0 for others
  /// The arguments of this type: the cases take one after the other, and then from the first again.
  std::vector<std::uint64_t> values;
};

/// How far a result may be from the recorded one: fine when any of these says so.
struct Tolerance {
  bool any_nan = false;
  double ulp = 0;
  double relative = 0;
  double absolute = 0;
};

/// One kernel: a line of the table with its choices made.
struct Instruction {
  std::size_t line = 0;  ///< in the table
  std::string ptx;
  std::vector<const OperandType*> results;
  std::vector<const OperandType*> arguments;
  Tolerance tolerance;
  std::string kernel;  ///< its name
  /// PTX and types, by which recorded results are found.
  [[nodiscard]] std::string key() const;
};

/// Throws std::runtime_error with the line's number for one that does not read.
std::vector<Instruction> read_instruction_table(const std::string& path);

/// PTX text: the lines before the kernels of a module, and one kernel with the parameters (arguments,
/// results, scratch): arrays [operand][case] of 8 bytes, and scratch_bytes.
std::string module_header();
std::string kernel_text(const Instruction& instruction);

/// The argument `index` of a case, of an instruction with `count` arguments.
std::uint64_t argument_value(const OperandType& type, int index, int count, int case_index);
/// The checksum of all values of all types: recorded results are those of these values.
std::uint64_t checksum_of_values();

/// Whether `got` is fine where `recorded` was recorded.
bool agrees(const OperandType& type, const Tolerance& tolerance, std::uint64_t got, std::uint64_t recorded);
