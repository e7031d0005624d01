// The numbers that are made of the simulator's counters, by their names in CSV and JSON.
#pragma once

#include <string_view>
#include <vector>

#include "common/harness/problem.h"
#include "common/sim/counters.h"

struct CountedNumber {
  const char* field;
  double value;
  int digits = 0;  ///< after the point, in CSV and JSON
};

std::vector<CountedNumber> counted_numbers(const SimCounters& counters, const Problem& problem);

/// The one of that name.
double counted_number(const SimCounters& counters, const Problem& problem, std::string_view field);
