// The command line that every stage's executable understands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/harness/errors.h"
#include "common/harness/input.h"
#include "common/harness/problem.h"
#include "common/harness/problem_run.h"
#include "common/harness/timer.h"
#include "common/harness/variant.h"

enum class Format { table, csv, json };

/// The device to run on: automatic is the GPU, or the simulator if there is no GPU.
enum class RunOn { automatic, gpu, sim };

/// The parts of the report; ./run asks several executables for parts and so joins them into one table.
struct Sections {
  bool heading = true;
  bool rows = true;
  bool ceiling = true;
};

struct Options {
  std::vector<std::int64_t> rows;  ///< empty: not given, default_rows()
  std::vector<std::int64_t> cols{1024};
  std::vector<DType> dtypes{DType::f32};
  std::vector<const Operation*> ops;  ///< the stage's first, if not given
  std::vector<std::string> variants;  ///< empty: all
  std::vector<InputKind> inputs{InputKind::normal};
  std::uint64_t seed = 1;
  int repeats = 25;
  Offsets offsets;
  L2 l2 = L2::cold;
  bool verify_only = false;
  bool profile = false;
  Format format = Format::table;
  Sections sections;
  RunOn device = RunOn::automatic;
  std::optional<std::string> recorded;  ///< a file of RecordedPercentages
  bool list = false;
  bool help = false;
};

/// Rows where the command line gives none: few on the simulator, which runs one warp after the other.
std::int64_t default_rows(bool simulated);

/// Throws UsageError, whose message has the option, its value, and the accepted values. `arguments` without
/// the program's name.
Options parse_command_line(const std::vector<std::string>& arguments, const Stage& stage);

/// In the order in which they are run.
std::vector<Problem> problems(const Options& options, const Device& device, int devices);
/// The variants of a stage that the options select.
std::vector<const Variant*> wanted_variants(const Options& options, const std::vector<Variant>& all);

std::string help_text(const Stage& stage);
