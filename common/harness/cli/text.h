// Numbers and words as the columns of a table and messages have them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

inline std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

/// The text with visible control characters, except for the end of a line: a quotation in a message must not
/// move the cursor or colour the terminal.
inline std::string printable(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n' || (code >= 0x20 && code != 0x7f)) {
      shown += c;
    } else {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", code);
      shown += escaped.data();
    }
  }
  return shown;
}

/// The text with blanks after it, or before it.
inline std::string padded(const std::string& text, std::size_t width, bool to_the_left = true) {
  const std::string blanks(width > text.size() ? width - text.size() : 0, ' ');
  return to_the_left ? text + blanks : blanks + text;
}
