#include "common/sim/ptx/module.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/sim/machine/memory.h"
#include "common/sim/ptx/lexer.h"
#include "common/sim/ptx/parser.h"

namespace sim {
namespace {

bool is_linkage(std::string_view word) {
  return word == ".visible" || word == ".weak" || word == ".extern" || word == ".common";
}

constexpr std::uint32_t largest_align = 128;
constexpr std::uint64_t largest_variable = std::uint64_t{1} << 31;

bool is_name(std::string_view word) {
  return !word.empty() &&
         (std::isalpha(static_cast<unsigned char>(word[0])) != 0 || word[0] == '_' || word[0] == '$');
}

/// The bytes that an initialiser gives: numbers, one per element.
std::vector<std::byte> initial_bytes(const ModuleVariable& variable) {
  std::vector<std::byte> bytes(variable.bytes);
  std::size_t at = 0;
  Lexer lexer(variable.initialiser);
  const std::size_t element_bytes = size_of(variable.element);
  if (element_bytes > sizeof(std::uint64_t)) throw PtxError("an initialiser of 128 bits");
  for (std::string_view word = lexer.next(); !word.empty(); word = lexer.next()) {
    if (word == "{" || word == "}" || word == ",") continue;
    const bool minus = word == "-";
    if (minus) word = lexer.next();
    if (is_name(word)) {
      throw PtxError(
          "the address of " + std::string(word) +
          " in an initialiser (for calls through a pointer or of virtual functions, say) is not simulated");
    }
    const std::uint64_t bits = bits_as(parse_number(word), minus, variable.element);
    if (at + element_bytes > bytes.size()) throw PtxError("an initialiser is longer than its variable");
    std::memcpy(bytes.data() + at, &bits, element_bytes);
    at += element_bytes;
  }
  return bytes;
}

}  // namespace

std::uint64_t parse_unsigned(std::string_view word) {
  const PtxNumber number = parse_number(word);
  if (number.is_float || number.is_double)
    throw PtxError("'" + std::string(word) + "' is not a whole number");
  return number.bits;
}

PtxNumber parse_number(std::string_view word) {
  const std::string text(word);
  const auto from = [&](std::size_t begin, int base) {
    std::string_view digits = std::string_view(text).substr(begin);
    while (!digits.empty() && (digits.back() == 'U' || digits.back() == 'L')) digits.remove_suffix(1);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      throw PtxError("'" + text + "' is not a number");
    }
    return value;
  };
  if (text.size() > 2 && text[0] == '0') {
    switch (text[1]) {
      case 'f':
      case 'F':
        return {from(2, 16), true, false};
      case 'd':
      case 'D':
        return {from(2, 16), false, true};
      case 'x':
      case 'X':
        return {from(2, 16), false, false};
      case 'b':
      case 'B':
        return {from(2, 2), false, false};
      default:
        break;
    }
  }
  if (text.find('.') != std::string::npos) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (*end != '\0') throw PtxError("'" + text + "' is not a number");
    PtxNumber number{0, false, true};
    std::memcpy(&number.bits, &value, sizeof value);
    return number;
  }
  const bool octal = text.size() > 1 && text[0] == '0';
  return {from(0, octal ? 8 : 10), false, false};
}

std::uint64_t bits_as(const PtxNumber& number, bool minus, Type type) {
  const bool is_integer = !number.is_float && !number.is_double;
  if (is_integer && type != Type::f32 && type != Type::f64) return minus ? ~number.bits + 1 : number.bits;
  const double magnitude = number.is_float    ? std::bit_cast<float>(static_cast<std::uint32_t>(number.bits))
                           : number.is_double ? std::bit_cast<double>(number.bits)
                                              : static_cast<double>(number.bits);
  // As f32 or f64 whatever it is written as; as bits, 0f has 32 and 0d has 64 of them.
  const bool as_single = type == Type::f32 || (type != Type::f64 && number.is_float);
  if (!as_single) return std::bit_cast<std::uint64_t>(minus ? -magnitude : magnitude);
  const auto single = static_cast<float>(magnitude);
  return std::bit_cast<std::uint32_t>(minus ? -single : single);
}

ModuleVariable parse_declaration(Lexer& lexer, std::string_view& name) {
  ModuleVariable variable;
  std::uint32_t values = 1;
  std::uint32_t align = 0;
  for (bool has_type = false; !has_type;) {
    const std::string_view word = lexer.next();
    if (word == ".align") {
      align = static_cast<std::uint32_t>(parse_unsigned(lexer.next()));
      if (align == 0 || (align & (align - 1)) != 0 || align > largest_align) {
        throw PtxError("an alignment that is no power of two up to 128");
      }
    } else if (word == ".attribute") {
      lexer.expect("(");
      variable.managed = lexer.accept(".managed");
      lexer.skip_to(")");
    } else if (word == ".v2") {
      values = 2;
    } else if (word == ".v4") {
      values = 4;
    } else if (word == ".ptr" || word == ".global" || word == ".shared" || word == ".const" ||
               word == ".local") {
      continue;  // the space is that which a .ptr parameter points to
    } else if (const auto type = word.empty() ? std::nullopt : type_named(word.substr(1))) {
      variable.element = *type;
      has_type = true;
    } else {
      throw PtxError("a declaration with '" + std::string(word) + "'");
    }
  }
  if (lexer.accept(".ptr")) {
    for (std::string_view word = lexer.peek(); !word.empty() && word[0] == '.'; word = lexer.peek()) {
      lexer.next();
      if (word == ".align") lexer.next();  // of the data pointed to
    }
  }
  name = lexer.next();
  variable.bytes = std::uint64_t{size_of(variable.element)} * values;
  variable.align = align != 0 ? align : static_cast<std::uint32_t>(variable.bytes);
  while (lexer.accept("[")) {
    if (lexer.accept("]")) {
      variable.bytes = 0;
    } else {
      const std::uint64_t count = parse_unsigned(lexer.next());
      if (count > largest_variable / std::max<std::uint64_t>(variable.bytes, 1)) {
        throw PtxError("variable " + std::string(name) + " is larger than 2 GiB");
      }
      variable.bytes *= count;
      lexer.expect("]");
    }
  }
  return variable;
}

std::size_t Module::line_of(std::string_view word) const {
  return 1 + static_cast<std::size_t>(std::count(ptx_.data(), word.data(), '\n'));
}

void Module::skim() {
  if (skimmed_) return;
  Lexer lexer(ptx_);
  std::string_view word = std::string_view(ptx_).substr(0, 0);
  try {
    for (word = lexer.next(); !word.empty(); word = lexer.next()) skim(lexer, word);
  } catch (const PtxError& error) {
    throw PtxError("line " + std::to_string(line_of(word)) + ": " + error.what());
  }
  skimmed_ = true;
}

/// Skims the declaration that begins with this word, at file scope.
void Module::skim(Lexer& lexer, std::string_view word) {
  if (is_linkage(word) || word == ";") return;
  if (word == ".file") {
    const auto number = static_cast<std::uint32_t>(parse_unsigned(lexer.next()));
    const std::string_view path = lexer.next();
    if (path.size() < 2 || path[0] != '"') throw PtxError(".file without a name");
    files_[number] = std::string(path.substr(1, path.size() - 2));
    lexer.rest_of_line();
  } else if (word == ".section") {
    lexer.skip_to("{");
    lexer.skip_braces();
  } else if (word == ".entry" || word == ".func") {
    std::size_t begin = lexer.position();
    if (word == ".func" && lexer.accept("(")) {  // its return values
      lexer.skip_to(")");
    } else if (word == ".func") {
      begin = lexer.position();
    }
    const std::string_view name = lexer.next();
    if (word == ".entry") begin = lexer.position();
    std::string_view before_body = lexer.next();
    while (before_body != "{" && before_body != ";" && !before_body.empty()) before_body = lexer.next();
    if (before_body == ";") return;  // declared here, defined elsewhere
    if (before_body.empty()) throw PtxError(std::string(name) + " has no body");
    lexer.skip_braces();
    functions_[name] = {word == ".entry", std::string_view(ptx_).substr(begin, lexer.position() - begin)};
  } else if (word == ".global" || word == ".const" || word == ".shared") {
    std::string_view name;
    ModuleVariable variable = parse_declaration(lexer, name);
    variable.space = word == ".shared"  ? MemorySpace::shared
                     : word == ".const" ? MemorySpace::constant
                                        : MemorySpace::global;
    if (lexer.accept("=")) {
      const std::size_t begin = lexer.position();
      lexer.skip_statement();
      variable.initialiser = std::string_view(ptx_).substr(begin, lexer.position() - 1 - begin);
    } else {
      lexer.expect(";");
    }
    variables_[name] = variable;
  } else if (word[0] == '.') {
    lexer.rest_of_line();  // .version and others that do not affect the program
  } else {
    throw PtxError("'" + std::string(word) + "' where a directive should stand");
  }
}

std::unique_ptr<Module> Module::for_device(unsigned device) const {
  auto module = std::make_unique<Module>(ptx_);
  module->device_ = device;
  module->managed_addresses_ = managed_addresses_;
  return module;
}

bool Module::has_kernel(const std::string& name) {
  skim();
  const ModuleFunction* found = function(name);
  return found != nullptr && found->is_entry;
}

void Module::parse_all(GlobalMemory& memory) {
  skim();
  for (const auto& [name, function] : functions_) {
    if (function.is_entry) kernel(std::string(name), memory);
  }
}

const ModuleVariable* Module::variable(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

const ModuleFunction* Module::function(std::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : &found->second;
}

const Program& Module::kernel(const std::string& name, GlobalMemory& memory) {
  skim();
  std::unique_ptr<Program>& program = programs_[name];
  if (!program) program = std::make_unique<Program>(parse_kernel(*this, name, memory));
  return *program;
}

std::uint64_t Module::variable_address(const std::string& name, GlobalMemory& memory) {
  skim();
  const ModuleVariable* found = variable(name);
  if (found == nullptr || found->space == MemorySpace::shared) return 0;
  Addresses& addresses = found->managed ? *managed_addresses_ : addresses_;
  if (const auto known = addresses.find(name); known != addresses.end()) return known->second;
  const std::vector<std::byte> bytes = initial_bytes(*found);
  const std::size_t size = std::max<std::size_t>(bytes.size(), 1);
  const std::string what = "variable " + name;
  const std::uint64_t address =
      found->managed ? reinterpret_cast<std::uint64_t>(memory.allocate_host(size, what, MemoryKind::managed))
                     : memory.allocate(size, what, device_);
  memory.copy_in(address, bytes.data(), bytes.size());
  addresses[name] = address;
  return address;
}

}  // namespace sim
