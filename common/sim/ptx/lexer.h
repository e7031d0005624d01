// Cuts PTX text into words.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sim {

/// PTX text that does not read as PTX.
class PtxError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A word is a run of letters, digits, '_', '$', '.' and '%' (so "ld.global.u32" and "%r1" are one word
/// each; two colons join, as in "ld.L1::no_allocate"), a string in quotes, or one other character. Comments
/// and white space are skipped.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  /// The next word; empty at the end.
  std::string_view next();
  std::string_view peek();
  /// Takes the next word if it is this one.
  bool accept(std::string_view word);
  /// Takes the next word, which must be this one.
  void expect(std::string_view word);
  /// Takes the rest of the line.
  std::string_view rest_of_line();
  /// Takes everything up to and including this word.
  void skip_to(std::string_view wanted);
  /// Takes everything up to and including the brace that closes one already taken.
  void skip_braces();
  /// Takes everything up to and including the next semicolon.
  void skip_statement();

  [[nodiscard]] std::size_t position() const { return at_; }

 private:
  void skip_space();

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace sim
