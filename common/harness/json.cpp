#include "common/harness/json.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace {

std::string list(char begin, const std::vector<std::string>& items, char end) {
  std::string text(1, begin);
  for (const std::string& item : items) {
    if (text.size() > 1) text += ", ";
    text += item;
  }
  text += end;
  return text;
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string quoted(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted + '"';
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "1e999";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

std::string json_object(const JsonMembers& members) {
  std::vector<std::string> items;
  for (const auto& [name, value] : members) items.push_back(json_quoted(name) + ": " + value);
  return list('{', items, '}');
}

std::string json_list(const std::vector<std::string>& items) {
  return list('[', items, ']');
}

JsonMembers json_members(const Device& device) {
  return {{"gpu", json_quoted(device.gpu)},
          {"compute_capability", json_quoted(device.compute_capability)},
          {"multiprocessors", std::to_string(device.multiprocessors)},
          {"l2_bytes", std::to_string(device.l2_bytes)},
          {"memory_bytes", std::to_string(device.memory_bytes)},
          {"cuda_driver", json_quoted(device.cuda_driver)},
          {"cuda_runtime", json_quoted(device.cuda_runtime)}};
}
