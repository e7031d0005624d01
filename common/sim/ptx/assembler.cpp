#include "common/sim/ptx/assembler.h"

#include <algorithm>

namespace sim {

Assembler::Assembler(std::string_view spelling, std::vector<WrittenOperand> operands,
                     OperandResolver& resolver)
    : written_(std::move(operands)), resolver_(resolver) {
  std::size_t dot = spelling.find('.');
  opcode_ = spelling.substr(0, dot);
  constexpr std::size_t enough = 8;  // for most: not allocated again and again
  modifiers_.reserve(enough);
  while (dot != std::string_view::npos) {
    const std::size_t next = spelling.find('.', dot + 1);
    modifiers_.push_back(spelling.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1));
    dot = next;
  }
}

bool Assembler::has(std::string_view modifier) const {
  return std::find(modifiers_.begin(), modifiers_.end(), modifier) != modifiers_.end();
}

bool Assembler::take(std::string_view modifier) {
  const auto found = std::find(modifiers_.begin(), modifiers_.end(), modifier);
  if (found == modifiers_.end()) return false;
  modifiers_.erase(found);
  return true;
}

Scope Assembler::take_scope(Scope otherwise) {
  const auto scope = take_one_of({"cta", "cluster", "gpu", "sys", "gl"});
  return !scope ? otherwise : *scope == 4 ? Scope::device : Scope{static_cast<std::uint8_t>(*scope)};
}

std::optional<std::size_t> Assembler::take_one_of(std::initializer_list<std::string_view> modifiers) {
  std::size_t index = 0;
  for (const std::string_view modifier : modifiers) {
    if (take(modifier)) return index;
    ++index;
  }
  return std::nullopt;
}

std::optional<std::size_t> Assembler::take_next_of(std::span<const std::string_view> names) {
  for (auto modifier = modifiers_.begin(); modifier != modifiers_.end(); ++modifier) {
    const auto name = std::find(names.begin(), names.end(), *modifier);
    if (name == names.end()) continue;
    modifiers_.erase(modifier);
    return static_cast<std::size_t>(name - names.begin());
  }
  return std::nullopt;
}

bool Assembler::has_any_of(std::span<const std::string_view> names) const {
  return std::find_first_of(modifiers_.begin(), modifiers_.end(), names.begin(), names.end()) !=
         modifiers_.end();
}

Type Assembler::take_type() {
  for (auto modifier = modifiers_.begin(); modifier != modifiers_.end(); ++modifier) {
    if (const auto type = type_named(*modifier)) {
      modifiers_.erase(modifier);
      return *type;
    }
  }
  throw Unsupported();
}

Type Assembler::peek_type() const {
  for (const std::string_view modifier : modifiers_) {
    if (const auto type = type_named(modifier)) return *type;
  }
  throw Unsupported();
}

void Assembler::take_rounding() {
  const auto rounding = take_one_of({"rn", "rz", "rm", "rp"});
  instruction.rounding = static_cast<Rounding>(rounding.value_or(0));
}

void Assembler::take_float_modifiers() {
  instruction.flush_to_zero = take("ftz");
  instruction.saturate = take("sat");
}

// Not static: callers write a.refuse_if, as they write a.take.
void Assembler::refuse_if(bool condition) const {  // NOLINT(readability-convert-member-functions-to-static)
  if (condition) throw Unsupported();
}

const WrittenOperand& Assembler::written(std::size_t index) const {
  refuse_if(index >= written_.size());
  return written_[index];
}

void Assembler::source_at(std::size_t place, const WrittenOperand& operand, Type type, bool exact_width) {
  refuse_if(place >= max_operands);
  instruction.operands.at(place) = resolver_.source(operand, type, exact_width);
}

void Assembler::destination_at(std::size_t place, const WrittenOperand& operand, Type type,
                               bool exact_width) {
  refuse_if(place >= max_operands);
  instruction.operands.at(place) = resolver_.destination(operand, type, exact_width);
  if (type != Type::pred) instruction.results |= static_cast<std::uint16_t>(1U << place);
}

void Assembler::address_at(std::size_t place, const WrittenOperand& operand) {
  refuse_if(place >= max_operands);
  resolver_.address(operand, instruction, place);
}

void Assembler::more_source(const WrittenOperand& operand, Type type) {
  more_operands.push_back(resolver_.source(operand, type, true));
}

void Assembler::more_destination(const WrittenOperand& operand, Type type) {
  more_operands.push_back(resolver_.destination(operand, type, true));
  instruction.results |= more_results;
}

void Assembler::source(std::size_t index, Type type, bool exact_width) {
  source_at(index, written(index), type, exact_width);
}

void Assembler::destination(std::size_t index, Type type, bool exact_width) {
  destination_at(index, written(index), type, exact_width);
}

void Assembler::address(std::size_t index) {
  address_at(index, written(index));
}

void Assembler::operands(std::initializer_list<Type> types) {
  refuse_if(types.size() != written_.size());
  std::size_t index = 0;
  for (const Type type : types) {
    if (index == 0) {
      destination(index, type);
    } else {
      source(index, type);
    }
    ++index;
  }
}

}  // namespace sim
