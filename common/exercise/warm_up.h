// What the exercises of the primer compute: there is no softmax in them yet.
#pragma once

#include "common/harness/operation.h"

/// {x} -> {y}, y = x.
extern const Operation copy_operation;
/// {x} -> {sums}, the sum of each row.
extern const Operation row_sums_operation;
