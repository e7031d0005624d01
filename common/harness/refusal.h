// The words for a launcher's refusal of a matrix.
#pragma once

#include <string>

#include "common/kernel/limits.h"

/// One line for the reader of a table; it is empty if nothing is refused.
std::string words(const Refusal& refusal);
