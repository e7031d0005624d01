// One PTX text: its declarations, found by skimming; a kernel in it is parsed when it is first used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/sim/ptx/program.h"

namespace sim {

class GlobalMemory;

/// A .global, .const or .shared variable at file scope.
struct ModuleVariable {
  MemorySpace space = MemorySpace::global;
  std::uint32_t align = 1;
  std::uint64_t bytes = 0;  ///< 0: the block's dynamic shared memory
  Type element = Type::b8;
  bool managed = false;          ///< __managed__: the host uses it at the same address
  std::string_view initialiser;  ///< the text between '=' and ';', or nothing
};

class Lexer;

/// A function's text from its parameter list on (for .func: from the list of return values on).
struct ModuleFunction {
  bool is_entry = false;
  std::string_view text;
};

class Module {
 public:
  /// Takes whole PTX text. It is not read before the first query.
  explicit Module(std::string ptx) : ptx_(std::move(ptx)) {}
  /// The module for another device, which has its own variables, except for the __managed__ ones.
  [[nodiscard]] std::unique_ptr<Module> for_device(unsigned device) const;

  /// Throws PtxError, as the next two, for text that does not read as PTX: with the line.
  [[nodiscard]] bool has_kernel(const std::string& name);
  /// Parses everything now.
  void parse_all(GlobalMemory& memory);
  /// The kernel, parsed. There must be such a kernel.
  const Program& kernel(const std::string& name, GlobalMemory& memory);

  /// The device address of a .global or .const variable, which is allocated and initialised on first use; 0
  /// when there is none of that name.
  std::uint64_t variable_address(const std::string& name, GlobalMemory& memory);

  [[nodiscard]] const ModuleVariable* variable(std::string_view name) const;
  [[nodiscard]] const ModuleFunction* function(std::string_view name) const;
  [[nodiscard]] const std::map<std::uint32_t, std::string>& files() const { return files_; }
  /// The text from this word of it on.
  [[nodiscard]] std::string_view text_from(std::string_view word) const {
    return std::string_view(ptx_).substr(static_cast<std::size_t>(word.data() - ptx_.data()));
  }
  /// The line of the text, from 1, that has this word of it.
  [[nodiscard]] std::size_t line_of(std::string_view word) const;

 private:
  void skim();
  void skim(Lexer& lexer, std::string_view word);

  std::string ptx_;
  unsigned device_ = 0;
  using Addresses = std::unordered_map<std::string, std::uint64_t>;
  std::shared_ptr<Addresses> managed_addresses_ = std::make_shared<Addresses>();
  bool skimmed_ = false;
  std::unordered_map<std::string_view, ModuleFunction> functions_;
  std::unordered_map<std::string_view, ModuleVariable> variables_;
  Addresses addresses_;
  std::map<std::uint32_t, std::string> files_;
  std::unordered_map<std::string, std::unique_ptr<Program>> programs_;
};

/// A declaration after its state space: [.align n] .type name[size][= initialiser]. The ';' or other token
/// that ends it is left in place. Also gives the name.
ModuleVariable parse_declaration(Lexer& lexer, std::string_view& name);

/// A number as PTX writes it: decimal, 0x, 0f (bits of a float), 0d (bits of a double), 1.5. Throws PtxError.
struct PtxNumber {
  std::uint64_t bits = 0;  ///< of the integer or of the floating-point value in its own format
  bool is_float = false;   ///< 0f
  bool is_double = false;  ///< 0d, or decimal with a point
};
PtxNumber parse_number(std::string_view word);
/// The bits of a number, negative with `minus`, as a value of the type in which it is used.
std::uint64_t bits_as(const PtxNumber& number, bool minus, Type type);
std::uint64_t parse_unsigned(std::string_view word);

}  // namespace sim
