#include "common/sim/ptx/lexer.h"

#include <algorithm>
#include <array>

namespace sim {
namespace {

enum Kind : unsigned char { other, space, word };

constexpr std::array<Kind, 256> make_kinds() {
  std::array<Kind, 256> kinds{};
  for (const char c : std::string_view(" \n\t\r\f\v")) kinds[static_cast<unsigned char>(c)] = space;
  for (const char c : std::string_view("_$.%")) kinds[static_cast<unsigned char>(c)] = word;
  for (unsigned char c = '0'; c <= '9'; ++c) kinds[c] = word;
  for (unsigned char c = 'a'; c <= 'z'; ++c) kinds[c] = word;
  for (unsigned char c = 'A'; c <= 'Z'; ++c) kinds[c] = word;
  return kinds;
}
constexpr std::array<Kind, 256> kinds = make_kinds();

Kind kind_of(char c) {
  return kinds[static_cast<unsigned char>(c)];
}

/// From `at` on, the first brace, or the beginning of a string or comment, which may hide one; the end if
/// there is none. Most of a text is bodies of functions that are never launched: pieces without any are
/// skipped by vector instructions, which the compiler generates for loops whose length it knows.
std::size_t find_brace_or_hiding(std::string_view text, std::size_t at) {
  const auto is_one = [](char c) { return (c == '{') | (c == '}') | (c == '"') | (c == '/'); };
  const auto skip_pieces = [&]<std::size_t piece>() {
    for (; text.size() - at >= piece; at += piece) {
      unsigned char any = 0;
      for (std::size_t i = 0; i < piece; ++i) any |= is_one(text[at + i]) ? 1 : 0;
      if (any != 0) return;
    }
  };
  skip_pieces.operator()<64>();
  skip_pieces.operator()<16>();
  while (at < text.size() && !is_one(text[at])) ++at;
  return at;
}

}  // namespace

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    if (kind_of(text_[at_]) == space) {
      ++at_;
      continue;
    }
    if (text_[at_] != '/') return;
    if (text_.compare(at_, 2, "//") == 0) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (text_.compare(at_, 2, "/*") == 0) {
      const std::size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) throw PtxError("a comment is not closed");
      at_ = end + 2;
    } else {
      return;
    }
  }
}

std::string_view Lexer::next() {
  skip_space();
  if (at_ >= text_.size()) return {};
  const std::size_t begin = at_;
  if (text_[at_] == '"') {
    const std::size_t end = text_.find('"', at_ + 1);
    if (end == std::string_view::npos) throw PtxError("a string is not closed");
    at_ = end + 1;
  } else if (kind_of(text_[at_]) == word) {
    // "ld.global.L1::no_allocate" is one word, too; ".reg.b32" are two.
    const bool is_directive = text_[at_] == '.';
    while (at_ < text_.size()) {
      if (kind_of(text_[at_]) == word) {
        if (is_directive && at_ != begin && text_[at_] == '.') break;
        ++at_;
      } else if (text_[at_] == ':' && text_.compare(at_, 2, "::") == 0) {
        at_ += 2;
      } else {
        break;
      }
    }
  } else {
    ++at_;
  }
  return text_.substr(begin, at_ - begin);
}

std::string_view Lexer::peek() {
  const std::size_t before = at_;
  const std::string_view word = next();
  at_ = before;
  return word;
}

bool Lexer::accept(std::string_view word) {
  const std::size_t before = at_;
  skip_space();
  if (at_ < text_.size() && text_[at_] == word.front() && next() == word) return true;
  at_ = before;
  return false;
}

void Lexer::expect(std::string_view word) {
  const std::string_view got = next();
  if (got != word)
    throw PtxError("expected '" + std::string(word) + "' and found '" + std::string(got) + "'");
}

std::string_view Lexer::rest_of_line() {
  const std::size_t begin = at_;
  at_ = std::min(text_.find('\n', at_), text_.size());
  return text_.substr(begin, at_ - begin);
}

void Lexer::skip_to(std::string_view wanted) {
  for (std::string_view word = next(); word != wanted; word = next()) {
    if (word.empty()) throw PtxError("'" + std::string(wanted) + "' is missing");
  }
}

/// Only braces matter, and strings and comments, which may hide some.
void Lexer::skip_braces() {
  for (int depth = 1; depth > 0;) {
    at_ = find_brace_or_hiding(text_, at_);
    if (at_ == text_.size()) throw PtxError("a brace is not closed");
    const std::string_view word = next();
    if (word == "{") ++depth;
    if (word == "}") --depth;
  }
}

void Lexer::skip_statement() {
  skip_to(";");
}

}  // namespace sim
