// Numbers and words as the columns of a table have them.
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

/// With blanks behind it, or before.
inline std::string padded(const std::string& text, std::size_t width, bool to_the_left = true) {
  const std::string blanks(width > text.size() ? width - text.size() : 0, ' ');
  return to_the_left ? text + blanks : blanks + text;
}
