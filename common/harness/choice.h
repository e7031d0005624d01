// Values that the user names: in options of the executables, and in calls of the C interface.
#pragma once

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

[[noreturn]] inline void refuse(const std::string& what, const std::string& value,
                                const std::string& accepted) {
  throw UsageError(what + ": '" + value + "' is not accepted; accepted: " + accepted);
}

/// The value of that name. `also`: what is accepted beside the names. Throws UsageError.
template <class T>
T choose(const std::string& what, const std::string& text, const Named<T>& choices,
         const std::string& also = "") {
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
  }
  refuse(what, text, names_of(choices) + also);
}
