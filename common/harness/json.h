// The JSON that the harness writes: for --format json, and for the C interface.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/harness/device.h"

std::string json_quoted(std::string_view text);
/// All digits; an infinite number as one that is too large for every reader.
std::string json_number(double value);

/// Names, and values that are JSON already.
using JsonMembers = std::vector<std::pair<std::string, std::string>>;
/// {"name": value, "name": value}
std::string json_object(const JsonMembers& members);
/// [item, item]
std::string json_list(const std::vector<std::string>& items);

JsonMembers json_members(const Device& device);
