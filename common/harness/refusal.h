// The words for what a launcher refuses.
#pragma once

#include <string>

#include "common/kernel/limits.h"

/// One line for the reader of a table; "" if nothing is refused.
std::string words(const Refusal& refusal);
