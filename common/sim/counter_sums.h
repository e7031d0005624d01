// Sums of the counters of counters.h, which is C and has no operators.
#pragma once

#include "common/sim/counters.h"

#define ADD_COUNTER(counter, what) sum.counter += other.counter;
#define ADD_ACCESSES(kind) sum.kind += other.kind;

inline SimAccesses& operator+=(SimAccesses& sum, const SimAccesses& other) {
  SIM_ACCESS_COUNTERS(ADD_COUNTER)
  return sum;
}

inline SimCounters& operator+=(SimCounters& sum, const SimCounters& other) {
  SIM_ACCESS_KINDS(ADD_ACCESSES)
  SIM_COUNTERS(ADD_COUNTER)
  return sum;
}

#undef ADD_COUNTER
#undef ADD_ACCESSES
