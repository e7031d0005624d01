#include "common/sim/ptx/parser.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/sim/machine/block.h"
#include "common/sim/machine/memory.h"
#include "common/sim/machine/registers.h"
#include "common/sim/ptx/assembler.h"
#include "common/sim/ptx/lexer.h"
#include "common/sim/ptx/module.h"
#include "common/sim/ptx/opcodes.h"

namespace sim {
namespace {

constexpr std::uint64_t most_registers = 1'000'000;

std::uint32_t round_up(std::uint32_t value, std::uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Offsets that are given out one after the other, and again when a scope is left.
struct Area {
  std::uint32_t next = 0;
  std::uint32_t most = 0;
  std::uint32_t take(std::uint32_t bytes, std::uint32_t align) {
    const std::uint32_t at = round_up(next, std::max(align, 1U));
    next = at + bytes;
    most = std::max(most, next);
    return at;
  }
};

struct Register {
  Operand place;
  Type type = Type::none;
};

/// %r<37>
struct RegisterRange {
  std::uint32_t first_offset = 0;
  std::uint32_t stride = 0;
  std::uint64_t count = 0;
  Type type = Type::none;
};

/// A variable and its place in its state space.
struct Variable {
  MemorySpace space = MemorySpace::global;
  std::uint64_t address = 0;
  bool after_static_shared = false;  ///< dynamic shared memory, which begins where the static part ends
};

struct Scope {
  std::unordered_map<std::string_view, Register> registers;
  std::unordered_map<std::string_view, RegisterRange> ranges;
  std::unordered_map<std::string_view, Variable> variables;
  std::uint32_t registers_before = 0;
  std::uint32_t local_before = 0;
};

/// The body of one function: labels are its own.
struct Body {
  std::unordered_map<std::string_view, std::uint32_t> labels;
  std::vector<std::pair<std::uint32_t, std::string_view>> branches;
};

/// A called function: its body comes once after the body of the kernel, however many calls there are. Its
/// arguments and its results are at one fixed place, so it cannot call itself.
struct CalledFunction {
  std::string_view name;
  std::string_view text;
  std::uint32_t begin = 0;
  std::vector<Parameter> parameters;
  std::vector<Parameter> results;
  std::vector<std::size_t> calls;  ///< indices into calls_
};

struct WrittenCall {
  std::uint32_t pc = 0;
  std::size_t callee = 0;                ///< index into functions_
  std::vector<std::uint32_t> arguments;  ///< their places in local memory
  std::vector<std::uint32_t> results;
  std::string spelling;
};

std::string demangle(const std::string& name) {
  if (name.rfind("_Z", 0) != 0) return name;  // "f" is not a function, but the type float
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

/// The name of a function, without its parameters.
std::string demangled_name(const std::string& name) {
  std::string demangled = demangle(name);
  // The list of parameters starts at the last '(' that is not inside of template arguments.
  int depth = 0;
  for (std::size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (c == '(' && depth == 0 && demangled.compare(i, 21, "(anonymous namespace)") != 0) {
      demangled.resize(i);
      break;
    }
  }
  if (demangled.rfind("void ", 0) == 0) demangled.erase(0, 5);
  return demangled;
}

class KernelParser final : public OperandResolver {
 public:
  KernelParser(Module& module, GlobalMemory& memory) : module_(module), memory_(memory) {
    registers_.next = registers_.most = warp_slot::first_register;
  }

  Program parse(const std::string& name);
  /// The line of the PTX text that is being parsed.
  [[nodiscard]] std::size_t line() const { return module_.line_of(statement_); }

  Operand source(const WrittenOperand& operand, Type type, bool exact_width) override;
  Operand destination(const WrittenOperand& operand, Type type, bool exact_width) override;
  void address(const WrittenOperand& operand, Instruction& instruction, std::size_t index) override;

 private:
  using Kind = WrittenOperand::Kind;
  static constexpr std::size_t kernel_itself = ~std::size_t{0};

  // ---- Reading
  void parse_parameters(Lexer& lexer);
  void parse_body(Lexer& lexer, bool is_kernel);
  bool parse_directive(Lexer& lexer, std::string_view word);
  void declare_registers(Lexer& lexer);
  void declare_variable(Lexer& lexer, std::string_view space);
  void parse_location(Lexer& lexer);
  std::uint32_t index_of(SourceLocation location, std::uint32_t called_from);
  void parse_statement(Lexer& lexer, std::string_view word, bool is_kernel);
  void parse_call(Lexer& lexer, std::string_view spelling);
  static std::vector<WrittenOperand> parse_operands(Lexer& lexer);
  static WrittenOperand parse_operand(Lexer& lexer);
  void open_scope();
  void close_scope();

  // ---- Emitting
  void assemble(std::string_view spelling, std::vector<WrittenOperand> operands);
  void emit(const Instruction& instruction);
  void emit_unknown(std::string_view spelling);
  std::vector<std::uint32_t> places_of(const std::vector<std::string_view>& names);
  void emit_call_of(std::string_view callee, const ModuleFunction& function, WrittenCall call);
  void parse_function(std::size_t index);
  std::vector<Parameter> parse_function_parameters(Lexer& lexer);
  void link_calls();
  void refuse_recursion(std::size_t function, std::vector<int>& state);

  // ---- Names
  [[nodiscard]] std::optional<Register> find_register(std::string_view name) const;
  std::optional<Variable> find_variable(std::string_view name);
  void note_shared(std::string_view name, const Variable& variable, std::uint32_t bytes);
  Operand constant(std::uint64_t value, Type type);
  Operand fresh_constant(std::uint64_t value, std::uint32_t bytes);

  Module& module_;
  GlobalMemory& memory_;
  Program program_;
  Area registers_;
  Area local_;
  std::vector<Scope> scopes_;
  std::vector<Body> bodies_;
  std::vector<CalledFunction> functions_;
  std::vector<WrittenCall> calls_;
  std::size_t caller_ = kernel_itself;  ///< index into functions_
  std::unordered_map<std::string_view, Variable> shared_at_file_scope_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Operand> known_constants_;
  std::vector<std::uint32_t> constants_after_static_shared_;  // offsets
  std::vector<std::uint32_t> addresses_after_static_shared_;  // instructions
  bool address_is_after_static_shared_ = false;
  std::string_view statement_;  ///< its first word
  std::uint32_t location_ = 0;
  std::map<SourceLocation, std::uint32_t> known_locations_;
  std::map<SourceLocation, std::uint32_t> latest_locations_;  // without where they are called from
  std::uint32_t predicate_ = warp_slot::always;
  LaneMask negate_ = 0;
};

Program KernelParser::parse(const std::string& name) {
  program_.name = name;
  program_.demangled = demangled_name(name);
  program_.files = module_.files();
  program_.locations.emplace_back();
  statement_ = module_.function(name)->text;
  Lexer lexer(statement_);
  open_scope();
  parse_parameters(lexer);
  for (std::string_view word = lexer.next(); word != "{"; word = lexer.next()) {
    if (word.empty()) throw PtxError("kernel " + name + " has no body");
    if (word == ".reqnctapercluster") {
      program_.cluster.fill(1);
      std::size_t dimension = 0;
      do {
        program_.cluster.at(std::min<std::size_t>(dimension++, 2)) =
            static_cast<std::uint32_t>(parse_unsigned(lexer.next()));
      } while (lexer.accept(","));
    }
    if (word != ".maxntid" && word != ".reqntid") continue;
    std::uint32_t threads = 1;
    do {
      threads *= static_cast<std::uint32_t>(parse_unsigned(lexer.next()));
    } while (lexer.accept(","));
    program_.max_block_threads = threads;
  }
  parse_body(lexer, true);
  close_scope();
  for (std::size_t index = 0; index < functions_.size(); ++index) parse_function(index);
  link_calls();

  const std::uint32_t dynamic_begin = round_up(program_.static_shared_bytes, dynamic_shared_align);
  for (const std::uint32_t offset : constants_after_static_shared_) {
    for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
      // The low half of a 64-bit address is first.
      std::uint32_t value = 0;
      const std::uint32_t stride = (offset & 1U) != 0 ? sizeof(std::uint64_t) : sizeof(std::uint32_t);
      std::byte* place = program_.constants.data() + (offset & ~1U) + std::size_t{lane} * stride;
      std::memcpy(&value, place, sizeof value);
      value += dynamic_begin;
      std::memcpy(place, &value, sizeof value);
    }
  }
  for (const std::uint32_t pc : addresses_after_static_shared_) program_.code[pc].immediate += dynamic_begin;
  program_.register_bytes = round_up(registers_.most, register_align);
  program_.local_bytes = round_up(local_.most, 16);
  return std::move(program_);
}

void KernelParser::parse_parameters(Lexer& lexer) {
  if (!lexer.accept("(") || lexer.accept(")")) return;
  do {
    lexer.expect(".param");
    std::string_view name;
    const ModuleVariable parameter = parse_declaration(lexer, name);
    const auto bytes = static_cast<std::uint32_t>(parameter.bytes);
    const std::uint32_t offset = round_up(program_.parameter_bytes, parameter.align);
    program_.parameters.push_back({offset, bytes});
    program_.parameter_bytes = offset + bytes;
    scopes_.back().variables[name] = {MemorySpace::parameter, offset, false};
  } while (lexer.accept(","));
  lexer.expect(")");
}

void KernelParser::open_scope() {
  scopes_.emplace_back();
  scopes_.back().registers_before = registers_.next;
  scopes_.back().local_before = local_.next;
}

void KernelParser::close_scope() {
  registers_.next = scopes_.back().registers_before;
  local_.next = scopes_.back().local_before;
  scopes_.pop_back();
}

/// From after the opening brace to the brace that closes it.
void KernelParser::parse_body(Lexer& lexer, bool is_kernel) {
  bodies_.emplace_back();
  std::size_t depth = 1;
  open_scope();
  while (depth > 0) {
    const std::string_view word = lexer.next();
    if (word.empty()) throw PtxError("the body of " + program_.name + " is not closed");
    statement_ = word;
    if (word == "{") {
      open_scope();
      ++depth;
    } else if (word == "}") {
      close_scope();
      --depth;
    } else if (word != ";" && !parse_directive(lexer, word)) {
      parse_statement(lexer, word, is_kernel);
    }
  }
  const Body body = std::move(bodies_.back());
  bodies_.pop_back();
  for (const auto& [pc, label] : body.branches) {
    const auto target = body.labels.find(label);
    if (target == body.labels.end()) {
      statement_ = label;
      throw PtxError("no label " + std::string(label));
    }
    program_.code[pc].target = target->second;
  }
  // A branch to a label at the very end, and a body without ret.
  Instruction instruction;
  instruction.control = is_kernel ? Control::exit : Control::ret;
  predicate_ = warp_slot::always;
  negate_ = 0;
  emit(instruction);
}

bool KernelParser::parse_directive(Lexer& lexer, std::string_view word) {
  if (word == ".reg") {
    declare_registers(lexer);
  } else if (word == ".shared" || word == ".local" || word == ".param") {
    declare_variable(lexer, word);
  } else if (word == ".loc") {
    parse_location(lexer);
  } else if (word == ".pragma") {
    lexer.skip_statement();
  } else if (word == ".callprototype" || word == ".calltargets") {
    throw PtxError(
        "a function is called through a pointer, or is virtual, which is not simulated: call it by its name");
  } else if (word[0] == '.') {
    throw PtxError("directive " + std::string(word) + " in " + program_.name);
  } else {
    return false;
  }
  return true;
}

void KernelParser::declare_registers(Lexer& lexer) {
  const std::string_view word = lexer.next();
  const auto type = type_named(word.empty() ? word : word.substr(1));
  if (!type) throw PtxError("registers of an unknown type '" + std::string(word) + "'");
  const std::uint32_t stride =
      *type == Type::pred ? sizeof(LaneMask) : std::size_t{size_of(*type)} * warp_size;
  const std::uint32_t align = *type == Type::pred ? sizeof(LaneMask) : register_align;
  do {
    const std::string_view name = lexer.next();
    if (lexer.accept("<")) {
      const std::uint64_t count = parse_unsigned(lexer.next());
      if (count > most_registers) throw PtxError("more than a million registers");
      lexer.expect(">");
      const std::uint32_t offset = registers_.take(static_cast<std::uint32_t>(count) * stride, align);
      scopes_.back().ranges[name] = {offset, stride, count, *type};
    } else {
      const std::uint32_t offset = registers_.take(stride, align);
      scopes_.back().registers[name] = {{offset, Base::warp, static_cast<std::uint8_t>(size_of(*type))},
                                        *type};
    }
  } while (lexer.accept(","));
  lexer.expect(";");
}

void KernelParser::declare_variable(Lexer& lexer, std::string_view space) {
  std::string_view name;
  const ModuleVariable declared = parse_declaration(lexer, name);
  lexer.expect(";");
  const auto bytes = static_cast<std::uint32_t>(declared.bytes);
  Variable variable;
  if (space == ".shared") {
    program_.static_shared_bytes = round_up(program_.static_shared_bytes, declared.align) + bytes;
    variable = {MemorySpace::shared, program_.static_shared_bytes - bytes, bytes == 0};
    note_shared(name, variable, bytes);
  } else {  // the parameters of a call lie in local memory
    variable = {MemorySpace::local, local_.take(bytes, declared.align), false};
  }
  scopes_.back().variables[name] = variable;
}

/// .loc file line column [, function_name label[+n], inlined_at file line column]
void KernelParser::parse_location(Lexer& lexer) {
  Lexer line(lexer.rest_of_line());
  const auto number = [&line] { return static_cast<std::uint32_t>(parse_unsigned(line.next())); };
  const auto location = [&number] {
    const std::uint32_t file = number();
    const std::uint32_t source_line = number();
    return SourceLocation{file, source_line, number()};
  };
  const SourceLocation innermost = location();
  std::uint32_t called_from = 0;
  for (std::string_view word = line.next(); !word.empty(); word = line.next()) {
    if (word != "inlined_at") continue;
    // Names the caller without the caller's own callers: they are taken to be those with which it was named
    // last.
    const SourceLocation caller = location();
    const auto latest = latest_locations_.find(caller);
    called_from = latest != latest_locations_.end() ? latest->second : index_of(caller, 0);
  }
  // Code without a line gets the line of the call that it was inlined into, or of the code before it. (nvcc
  // 13.0 has line 0 for reads with an access property.)
  if (innermost.line == 0 && called_from == 0) return;
  location_ = index_of(innermost, called_from);
  latest_locations_[innermost] = location_;
}

std::uint32_t KernelParser::index_of(SourceLocation location, std::uint32_t called_from) {
  if (location.line == 0) return called_from;
  for (std::uint32_t index = called_from; index != 0; index = program_.locations[index].called_from) {
    const SourceLocation& caller = program_.locations[index];
    const bool recurses = caller.file == location.file && caller.line == location.line;
    if (recurses && caller.column == location.column) return index;  // shown once, however deep it is
  }
  location.called_from = called_from;
  const auto [known, is_new] =
      known_locations_.try_emplace(location, static_cast<std::uint32_t>(program_.locations.size()));
  if (is_new) program_.locations.push_back(location);
  return known->second;
}

WrittenOperand KernelParser::parse_operand(Lexer& lexer) {
  WrittenOperand operand;
  if (lexer.accept("{")) {
    operand.kind = Kind::vector;
    do {
      operand.elements.push_back(parse_operand(lexer));
    } while (lexer.accept(","));
    lexer.expect("}");
    return operand;
  }
  if (lexer.accept("[")) {
    operand.kind = Kind::address;
    operand.elements.push_back(parse_operand(lexer));
    operand.offset = operand.elements.front().offset;
    lexer.expect("]");
    return operand;
  }
  operand.negated = lexer.accept("!");
  operand.minus = lexer.accept("-");
  operand.text = lexer.next();
  if (operand.text == "_") {
    operand.kind = Kind::nothing;
  } else if (!operand.text.empty() && operand.text[0] >= '0' && operand.text[0] <= '9') {
    operand.kind = Kind::number;
  }
  const bool plus = lexer.accept("+");
  const bool minus = lexer.accept("-");
  if (plus || minus) {
    const auto offset = static_cast<std::int64_t>(parse_unsigned(lexer.next()));
    operand.offset = minus ? -offset : offset;
  }
  return operand;
}

std::vector<WrittenOperand> KernelParser::parse_operands(Lexer& lexer) {
  std::vector<WrittenOperand> operands;
  if (lexer.accept(";")) return operands;
  constexpr std::size_t enough = 4;  // for most
  operands.reserve(enough);
  do {
    operands.push_back(parse_operand(lexer));
  } while (lexer.accept(",") || lexer.accept("|"));
  lexer.expect(";");
  return operands;
}

void KernelParser::parse_statement(Lexer& lexer, std::string_view word, bool is_kernel) {
  predicate_ = warp_slot::always;
  negate_ = 0;
  if (word == "@") {
    negate_ = lexer.accept("!") ? all_lanes : 0;
    const std::string_view name = lexer.next();
    const auto predicate = find_register(name);
    if (!predicate || predicate->type != Type::pred) throw PtxError("no predicate " + std::string(name));
    predicate_ = predicate->place.offset;
    word = lexer.next();
  } else if (lexer.accept(":")) {
    bodies_.back().labels[word] = static_cast<std::uint32_t>(program_.code.size());
    return;
  }

  const std::string_view opcode = word.substr(0, word.find('.'));
  Instruction instruction;
  if (word == "bra" || word == "bra.uni") {
    instruction.control = Control::branch;
    bodies_.back().branches.emplace_back(program_.code.size(), lexer.next());
    lexer.expect(";");
    emit(instruction);
  } else if (word == "exit" || word == "ret" || word == "ret.uni") {
    lexer.expect(";");
    instruction.control = opcode == "ret" && !is_kernel ? Control::ret : Control::exit;
    emit(instruction);
  } else if (opcode == "call") {
    parse_call(lexer, word);
  } else {
    assemble(word, parse_operands(lexer));
  }
}

void KernelParser::emit(const Instruction& instruction) {
  program_.code.push_back(instruction);
  program_.code.back().predicate = predicate_;
  program_.code.back().negate = negate_;
  program_.location_of.push_back(location_);
}

void KernelParser::emit_unknown(std::string_view spelling) {
  Instruction instruction;
  instruction.handler = &execute_unknown;
  instruction.immediate = static_cast<std::int64_t>(program_.unknown.size());
  std::string what = "'";
  what.append(spelling);
  // With its operands, by which alone some forms differ.
  const std::string_view text = module_.text_from(statement_);
  const std::size_t begin = text.find(spelling);
  const std::size_t end = text.find_first_of(";\n");
  if (begin != std::string_view::npos && end != std::string_view::npos && begin + spelling.size() < end) {
    for (const char c : text.substr(begin + spelling.size(), end - begin - spelling.size())) {
      if (c != '\t' || what.back() != ' ') what += c == '\t' ? ' ' : c;
    }
  }
  what.append("', line ").append(std::to_string(line())).append(" of its PTX");
  program_.unknown.push_back(what);
  emit(instruction);
}

bool tells_time(const WrittenOperand& operand) {
  return operand.text.starts_with("%clock") || operand.text.starts_with("%globaltimer");
}

/// By this instruction blocks may have to do with one another, other than by plain accesses to the same bytes.
bool may_meet(std::string_view spelling, const Instruction& instruction) {
  constexpr std::array opcodes{"fence", "membar", "nanosleep", "discard", "mbarrier", "mapa", "getctarank"};
  const std::string_view opcode = spelling.substr(0, spelling.find('.'));
  if (std::find(opcodes.begin(), opcodes.end(), opcode) != opcodes.end()) return true;
  if (spelling.find("cluster") != std::string_view::npos || spelling.find("bulk") != std::string_view::npos ||
      spelling.starts_with("st.async") || spelling.starts_with("red.async")) {
    return true;
  }
  const bool orders = instruction.counted_as == InstructionClass::atomic || instruction.strong ||
                      instruction.acquires || instruction.releases;
  return orders && instruction.space != MemorySpace::shared;
}

void KernelParser::assemble(std::string_view spelling, std::vector<WrittenOperand> operands) {
  address_is_after_static_shared_ = false;
  const bool meets = std::any_of(operands.begin(), operands.end(), tells_time);
  Assembler assembler(spelling, std::move(operands), *this);
  const OpcodeEntry* entry = find_opcode(assembler.opcode());
  bool known = entry != nullptr;
  if (known) {
    try {
      entry->assemble(assembler);
      known = assembler.all_taken();
    } catch (const Unsupported&) {
      known = false;
    }
  }
  if (!known) {
    emit_unknown(spelling);
    return;
  }
  program_.blocks_meet = program_.blocks_meet || meets || may_meet(spelling, assembler.instruction);
  if (address_is_after_static_shared_) {
    addresses_after_static_shared_.push_back(static_cast<std::uint32_t>(program_.code.size()));
  }
  if (!assembler.more_operands.empty()) {
    assembler.instruction.target = static_cast<std::uint32_t>(program_.more_operands.size());
    program_.more_operands.insert(program_.more_operands.end(), assembler.more_operands.begin(),
                                  assembler.more_operands.end());
  }
  emit(assembler.instruction);
}

// ---- Calls

/// call[.uni] [(result),] function[, (argument, ...)];
void KernelParser::parse_call(Lexer& lexer, std::string_view spelling) {
  const auto names = [&lexer] {
    std::vector<std::string_view> list;
    if (lexer.accept(")")) return list;
    do {
      list.push_back(lexer.next());
    } while (lexer.accept(","));
    lexer.expect(")");
    return list;
  };
  std::vector<std::string_view> results;
  std::vector<std::string_view> arguments;
  if (lexer.accept("(")) {
    results = names();
    lexer.expect(",");
  }
  const std::string_view callee = lexer.next();
  if (lexer.accept(",") && lexer.accept("(")) arguments = names();
  lexer.skip_statement();

  const ModuleFunction* function = module_.function(callee);
  const Handler builtin = find_builtin(callee);
  if (function != nullptr) {
    emit_call_of(callee, *function, {0, 0, places_of(arguments), places_of(results), std::string(spelling)});
  } else if (function == nullptr && builtin != nullptr) {
    Instruction instruction;
    instruction.handler = builtin;
    program_.blocks_meet = true;
    std::size_t place = 0;
    for (const auto& list : {arguments, results}) {
      for (const std::uint32_t address : places_of(list)) {
        if (place >= max_operands) throw PtxError("a call of " + std::string(callee) + " with too much");
        instruction.operands.at(place++) = constant(address, Type::b64);
      }
    }
    emit(instruction);
  } else {
    emit_unknown(std::string(spelling) + " " + std::string(callee));
  }
}

/// The places of a call's parameters in local memory.
std::vector<std::uint32_t> KernelParser::places_of(const std::vector<std::string_view>& names) {
  std::vector<std::uint32_t> places;
  for (const std::string_view name : names) {
    const auto variable = find_variable(name);
    if (!variable || variable->space != MemorySpace::local)
      throw PtxError("no parameter " + std::string(name));
    places.push_back(static_cast<std::uint32_t>(variable->address));
  }
  return places;
}

void KernelParser::emit_call_of(std::string_view callee, const ModuleFunction& function, WrittenCall call) {
  const auto known = std::find_if(functions_.begin(), functions_.end(),
                                  [callee](const CalledFunction& any) { return any.name == callee; });
  call.callee = static_cast<std::size_t>(known - functions_.begin());
  call.pc = static_cast<std::uint32_t>(program_.code.size());
  if (known == functions_.end()) functions_.push_back({callee, function.text, 0, {}, {}, {}});
  if (caller_ != kernel_itself) functions_[caller_].calls.push_back(calls_.size());
  Instruction instruction;
  instruction.control = Control::call;
  instruction.immediate = static_cast<std::int64_t>(calls_.size());
  calls_.push_back(std::move(call));
  emit(instruction);
}

/// After the code that is there already: none of it shares registers or local memory with a function.
void KernelParser::parse_function(std::size_t index) {
  caller_ = index;
  location_ = 0;
  registers_.next = registers_.most;
  local_.next = local_.most;
  statement_ = functions_[index].text;
  const std::string_view name = functions_[index].name;
  Lexer lexer(statement_);
  open_scope();
  if (!lexer.accept(name)) {
    functions_[index].results = parse_function_parameters(lexer);
    lexer.expect(name);
  }
  functions_[index].parameters = parse_function_parameters(lexer);
  while (!lexer.accept("{")) {
    if (lexer.next().empty()) throw PtxError("a called function has no body");
  }
  functions_[index].begin = static_cast<std::uint32_t>(program_.code.size());
  parse_body(lexer, false);
  close_scope();
}

std::vector<Parameter> KernelParser::parse_function_parameters(Lexer& lexer) {
  std::vector<Parameter> parameters;
  if (!lexer.accept("(") || lexer.accept(")")) return parameters;
  do {
    lexer.expect(".param");
    std::string_view name;
    const ModuleVariable declared = parse_declaration(lexer, name);
    const auto bytes = static_cast<std::uint32_t>(declared.bytes);
    parameters.push_back({local_.take(bytes, declared.align), bytes});
    scopes_.back().variables[name] = {MemorySpace::local, parameters.back().offset, false};
  } while (lexer.accept(","));
  lexer.expect(")");
  return parameters;
}

/// All functions have their places now.
void KernelParser::link_calls() {
  program_.calls.resize(calls_.size());
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const WrittenCall& call = calls_[i];
    const CalledFunction& callee = functions_[call.callee];
    if (call.arguments.size() != callee.parameters.size() || call.results.size() != callee.results.size()) {
      throw PtxError("a call does not give the parameters of " + std::string(callee.name));
    }
    program_.code[call.pc].target = callee.begin;
    for (std::size_t p = 0; p < call.arguments.size(); ++p) {
      const auto& [offset, bytes] = callee.parameters[p];
      program_.calls[i].arguments.push_back({call.arguments[p], offset, bytes});
    }
    for (std::size_t p = 0; p < call.results.size(); ++p) {
      const auto& [offset, bytes] = callee.results[p];
      program_.calls[i].results.push_back({offset, call.results[p], bytes});
    }
  }
  std::vector<int> state(functions_.size());
  for (std::size_t function = 0; function < functions_.size(); ++function) refuse_recursion(function, state);
}

/// A call of a function from within itself, however far, is an error where it is executed.
void KernelParser::refuse_recursion(std::size_t function, std::vector<int>& state) {
  enum { unseen, open, done };
  if (state[function] != unseen) return;
  state[function] = open;
  for (const std::size_t index : functions_[function].calls) {
    const WrittenCall& call = calls_[index];
    if (state[call.callee] == open) {
      Instruction& instruction = program_.code[call.pc];
      instruction.control = Control::none;
      instruction.handler = &execute_unknown;
      instruction.immediate = static_cast<std::int64_t>(program_.unknown.size());
      program_.unknown.push_back("'" + call.spelling + " " +
                                 demangled_name(std::string(functions_[call.callee].name)) +
                                 "': recursion is not simulated");
    } else {
      refuse_recursion(call.callee, state);
    }
  }
  state[function] = done;
}

// ---- Names and constants

std::optional<Register> KernelParser::find_register(std::string_view name) const {
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::string_view prefix = name.substr(0, last + 1);
  const std::string_view digits = name.substr(last + 1);
  std::uint64_t number = 0;
  for (const char digit : digits) number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->registers.find(name); found != scope->registers.end()) return found->second;
    if (digits.empty()) continue;
    const auto range = scope->ranges.find(prefix);
    if (range == scope->ranges.end() || number >= range->second.count) continue;
    const RegisterRange& r = range->second;
    const auto offset = static_cast<std::uint32_t>(r.first_offset + number * r.stride);
    return Register{{offset, Base::warp, static_cast<std::uint8_t>(size_of(r.type))}, r.type};
  }
  return std::nullopt;
}

std::optional<Variable> KernelParser::find_variable(std::string_view name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->variables.find(name); found != scope->variables.end()) return found->second;
  }
  if (const auto found = shared_at_file_scope_.find(name); found != shared_at_file_scope_.end()) {
    return found->second;
  }
  const ModuleVariable* declared = module_.variable(name);
  if (declared == nullptr) return std::nullopt;
  if (declared->space != MemorySpace::shared) {
    return Variable{declared->space, module_.variable_address(std::string(name), memory_), false};
  }
  const auto bytes = static_cast<std::uint32_t>(declared->bytes);
  Variable variable{MemorySpace::shared, 0, bytes == 0};
  if (bytes != 0) {
    variable.address = round_up(program_.static_shared_bytes, declared->align);
    program_.static_shared_bytes = static_cast<std::uint32_t>(variable.address) + bytes;
    note_shared(name, variable, bytes);
  }
  return shared_at_file_scope_[name] = variable;
}

void KernelParser::note_shared(std::string_view name, const Variable& variable, std::uint32_t bytes) {
  const std::string demangled = demangle(std::string(name));  // "kernel(float const*)::values"
  const std::size_t scope = demangled.rfind("::");
  const std::string in_source = scope == std::string::npos ? demangled : demangled.substr(scope + 2);
  program_.shared_variables.push_back({in_source, static_cast<std::uint32_t>(variable.address), bytes});
}

Operand KernelParser::fresh_constant(std::uint64_t value, std::uint32_t bytes) {
  std::vector<std::byte>& constants = program_.constants;
  const std::size_t offset = (constants.size() + register_align - 1) / register_align * register_align;
  constants.resize(offset + std::size_t{bytes} * warp_size);
  for (std::size_t lane = 0; lane < warp_size; ++lane) {
    std::memcpy(constants.data() + offset + lane * bytes, &value, bytes);
  }
  return {static_cast<std::uint32_t>(offset), Base::constants, static_cast<std::uint8_t>(bytes)};
}

Operand KernelParser::constant(std::uint64_t value, Type type) {
  if (type == Type::pred) value = (value & 1U) != 0 ? all_lanes : 0;
  const std::uint32_t bytes = size_of(type);
  if (bytes < sizeof value) value &= (std::uint64_t{1} << (8 * bytes)) - 1;
  const auto [known, is_new] = known_constants_.try_emplace({value, bytes});
  if (is_new) known->second = fresh_constant(value, bytes);
  return known->second;
}

Operand KernelParser::source(const WrittenOperand& operand, Type type, bool exact_width) {
  if (operand.negated || (operand.kind != Kind::number && operand.minus)) throw Unsupported();
  if (size_of(type) > sizeof(std::uint64_t) && operand.kind == Kind::number) throw Unsupported();
  if (operand.kind == Kind::number)
    return constant(bits_as(parse_number(operand.text), operand.minus, type), type);
  if (operand.kind != Kind::name) throw Unsupported();
  if (operand.text == "WARP_SZ" && size_of(type) <= sizeof(std::uint64_t)) return constant(warp_size, type);
  if (const auto found = find_register(operand.text)) {
    if ((found->type == Type::pred) != (type == Type::pred)) throw Unsupported();
    if (exact_width && found->place.bytes != size_of(type)) throw Unsupported();
    return found->place;
  }
  if (const auto special = special_register(operand.text)) {
    if (exact_width && special->bytes != size_of(type)) throw Unsupported();
    program_.uses_reserved_shared |= operand.text == reserved_shared_register;
    return *special;
  }
  const auto variable = find_variable(operand.text);
  if (!variable || size_of(type) > sizeof(std::uint64_t)) throw Unsupported();
  const std::uint64_t value = variable->address + static_cast<std::uint64_t>(operand.offset);
  if (!variable->after_static_shared) return constant(value, type);
  const Operand place = fresh_constant(value, size_of(type));
  constants_after_static_shared_.push_back(place.offset | (size_of(type) == sizeof(std::uint64_t) ? 1U : 0U));
  return place;
}

Operand KernelParser::destination(const WrittenOperand& operand, Type type, bool exact_width) {
  if (operand.kind == Kind::nothing) {  // a place that is never read
    const std::uint32_t bytes = size_of(type);
    const std::uint32_t offset = registers_.take(bytes * warp_size, register_align);
    return {offset, Base::warp, static_cast<std::uint8_t>(bytes)};
  }
  const auto found = operand.kind == Kind::name ? find_register(operand.text) : std::nullopt;
  if (!found || (found->type == Type::pred) != (type == Type::pred)) throw Unsupported();
  if (exact_width && found->place.bytes != size_of(type)) throw Unsupported();
  return found->place;
}

void KernelParser::address(const WrittenOperand& operand, Instruction& instruction, std::size_t index) {
  if (operand.kind != Kind::address) throw Unsupported();
  const WrittenOperand& base = operand.elements.front();
  instruction.immediate = operand.offset;
  if (base.kind == Kind::number) {
    instruction.immediate += static_cast<std::int64_t>(parse_unsigned(base.text));
    instruction.operands.at(index) = constant(0, Type::b64);
    return;
  }
  if (const auto found = find_register(base.text)) {
    if (found->place.bytes < sizeof(std::uint32_t) || found->type == Type::pred) throw Unsupported();
    instruction.operands.at(index) = found->place;
    return;
  }
  const auto variable = find_variable(base.text);
  if (!variable) throw Unsupported();
  instruction.immediate += static_cast<std::int64_t>(variable->address);
  instruction.operands.at(index) = constant(0, Type::b64);
  address_is_after_static_shared_ = variable->after_static_shared;
  if (instruction.space == MemorySpace::parameter) instruction.space = variable->space;
}

}  // namespace

Program parse_kernel(Module& module, const std::string& name, GlobalMemory& memory) {
  KernelParser parser(module, memory);
  try {
    return parser.parse(name);
  } catch (const PtxError& error) {
    throw PtxError("line " + std::to_string(parser.line()) + ": " + error.what());
  }
}

}  // namespace sim
