// The messages of a check: which element is wrong, which counter is off, and in which source line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/exercise/counters.h"
#include "common/harness/input.h"
#include "common/harness/reference.h"
#include "common/harness/verify.h"

/// "a, b"
std::string join(const std::vector<std::string>& words);

/// The first wrong element in words, and a table of its neighbours. x, y: the element's row.
std::string wrong_element(const std::string& run, InputKind input, const Verdict& verdict,
                          const std::vector<float>& x, const std::vector<float>& y,
                          const ReferenceRow& reference);

/// A fault's report with the text of the source line that it names, which is not in a header of nvcc.
std::string with_source_line(std::string report);

/// A source line: its place with a note, and its text.
std::string source_line(const Counts::Line& line, const std::string& note = "");

/// "8 shuffles per row were counted, at least 10 are expected (4 x 1024)", and the lines that make them.
std::string broken_rule(Counter counter, double least, double most, const Counts& counts);

/// A table: a row for each counter, a column for before and one for after.
std::string comparison(const std::vector<Counter>& counters, const std::string& before_name,
                       const std::optional<Counts>& before, const Counts& after);
