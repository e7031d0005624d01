// Values that the user names: in options of the executables, and in calls of the C interface.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/errors.h"

template <class T>
using Named = std::vector<std::pair<std::string, T>>;

/// Each with its name(value).
template <class T>
Named<T> by_name(const std::vector<T>& values) {
  Named<T> named;
  for (const T& value : values) named.emplace_back(name(value), value);
  return named;
}

/// "cold, warm"
template <class T>
std::string names_of(const Named<T>& choices) {
  std::string names;
  for (const auto& [name, value] : choices) names += (names.empty() ? "" : ", ") + name;
  return names;
}

/// "; did you mean cold?" if a name differs from the text in one letter, or in more for longer texts;
/// otherwise "".
template <class T>
std::string did_you_mean(const std::string& text, const Named<T>& choices) {
  const auto distance = [&text](const std::string& name) {  // letters to add, drop or exchange
    std::vector<std::size_t> row(name.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < name.size(); ++j) {
        const std::size_t exchanged = diagonal + (text[i] == name[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({exchanged, row[j] + 1, diagonal + 1});
      }
    }
    return row.back();
  };
  std::size_t least = (text.size() + 2) / 3;  // one less may differ
  std::string closest;
  for (const auto& [name, value] : choices) {
    if (text.size() < 100 && distance(name) < least) {
      least = distance(name);
      closest = name;
    }
  }
  return closest.empty() ? "" : "; did you mean " + closest + "?";
}

[[noreturn]] inline void refuse(const std::string& what, const std::string& value,
                                const std::string& accepted, const std::string& meant = "") {
  throw UsageError(what + ": '" + value + "' is not accepted" + meant + "; accepted: " + accepted);
}

/// The value of that name. `also`: other texts that are accepted, for the message. Throws UsageError.
template <class T>
T choose(const std::string& what, const std::string& text, const Named<T>& choices,
         const std::string& also = "") {
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
  }
  refuse(what, text, names_of(choices) + also, did_you_mean(text, choices));
}
