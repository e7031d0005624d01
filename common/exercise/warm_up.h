// The operations of the primer's exercises, which do not have softmax yet.
#pragma once

#include "common/harness/operation.h"

/// {x} -> {y}, y = x.
extern const Operation copy_operation;
/// {x} -> {sums}, the sum of each row.
extern const Operation row_sums_operation;
