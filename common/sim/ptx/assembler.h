// The view that an opcode's entry in the tables has of one PTX instruction, and the means to turn it into an
// Instruction.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/sim/ptx/program.h"

namespace sim {

/// An instruction that this does not know. what() is not shown: the instruction's spelling is.
class Unsupported {};

/// An operand as it is written.
struct WrittenOperand {
  enum class Kind : std::uint8_t { name, number, vector, address, nothing };
  Kind kind = Kind::name;
  bool minus = false;
  bool negated = false;                  ///< !%p
  std::string_view text;                 ///< a name or a number
  std::int64_t offset = 0;               ///< of an address
  std::vector<WrittenOperand> elements;  ///< of a vector; the base of an address
};

/// The parser's side: names and constants.
class OperandResolver {
 public:
  OperandResolver() = default;
  OperandResolver(const OperandResolver&) = delete;
  OperandResolver& operator=(const OperandResolver&) = delete;
  virtual ~OperandResolver() = default;
  virtual Operand source(const WrittenOperand& operand, Type type, bool exact_width) = 0;
  virtual Operand destination(const WrittenOperand& operand, Type type, bool exact_width) = 0;
  /// Sets operands[index] to the register that an address starts from (a constant 0 without one), and
  /// `immediate`.
  virtual void address(const WrittenOperand& operand, Instruction& instruction, std::size_t index) = 0;
};

class Assembler {
 public:
  Assembler(std::string_view spelling, std::vector<WrittenOperand> operands, OperandResolver& resolver);

  Instruction instruction;
  /// Operands of an instruction that has more than an Instruction holds: matrices. See Program::more_operands.
  std::vector<Operand> more_operands;

  [[nodiscard]] std::string_view opcode() const { return opcode_; }

  // ---- The words after the opcode. Each can be taken once; words that are left in the end are not
  // understood, and the instruction is refused rather than executed without them.
  bool take(std::string_view modifier);
  [[nodiscard]] bool has(std::string_view modifier) const;
  /// Index of the first of these that is there, taken; nothing when none is.
  std::optional<std::size_t> take_one_of(std::initializer_list<std::string_view> modifiers);
  /// Index of the name of the first modifier that is one of these, taken: in the order in which they are written.
  std::optional<std::size_t> take_next_of(std::span<const std::string_view> names);
  [[nodiscard]] bool has_any_of(std::span<const std::string_view> names) const;
  /// The first type among the modifiers. Throws Unsupported without one.
  Type take_type();
  [[nodiscard]] Type peek_type() const;
  /// .cta to .sys; `otherwise` without one.
  Scope take_scope(Scope otherwise);
  void take_rounding();
  /// .ftz and .sat
  void take_float_modifiers();
  [[nodiscard]] bool all_taken() const { return modifiers_.empty(); }
  void refuse_if(bool condition) const;

  // ---- Operands, in the order in which they are written; d|p counts as two.
  [[nodiscard]] std::size_t operand_count() const { return written_.size(); }
  [[nodiscard]] const WrittenOperand& written(std::size_t index) const;
  void destination(std::size_t index, Type type, bool exact_width = true);
  void source(std::size_t index, Type type, bool exact_width = true);
  void address(std::size_t index);
  /// Puts a written operand at another place among the instruction's operands.
  void source_at(std::size_t place, const WrittenOperand& operand, Type type, bool exact_width = true);
  void destination_at(std::size_t place, const WrittenOperand& operand, Type type, bool exact_width = true);
  void address_at(std::size_t place, const WrittenOperand& operand);
  void more_source(const WrittenOperand& operand, Type type);
  void more_destination(const WrittenOperand& operand, Type type);
  /// One destination and sources, all of whose types are given; there must be exactly as many operands.
  void operands(std::initializer_list<Type> types);

 private:
  std::string_view opcode_;
  std::vector<std::string_view> modifiers_;
  std::vector<WrittenOperand> written_;
  OperandResolver& resolver_;
};

}  // namespace sim
