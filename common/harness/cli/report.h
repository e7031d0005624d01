// The output for the reader: one record per variant and problem, as a table, CSV or JSON.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "common/harness/cli/command_line.h"
#include "common/harness/cli/screen.h"
#include "common/harness/cli/table.h"
#include "common/harness/device.h"
#include "common/harness/timer.h"
#include "common/sim/counters.h"

enum class Status { verified, wrong, not_applicable };

struct Record {
  std::string stage{};    ///< empty for the copy ceiling
  std::string variant{};  ///< "copy" for the copy ceiling
  Problem problem{};
  InputKind input = InputKind::normal;
  Status status = Status::verified;
  std::string reason{};  ///< why it is not applicable, or the mistake
  double passes = 0;
  double max_error = 0;                  ///< worst |got - reference| / allowed
  std::optional<TimedVariant> timing{};  ///< on a GPU
  std::optional<SimCounters> counted{};  ///< on the simulator
  RowCosts row_costs{};                  ///< as declared
};

double percent_of_copy(const TimedVariant& timed);

/// Prints records as they come (JSON: at the end), so that a long run shows where it is.
class Report {
 public:
  /// A report on one stage, which must outlive it.
  Report(std::ostream& out, Options options, Device device, const Stage& stage, Screen screen);
  Report(const Report&) = delete;  // the table refers to the options and the device in here
  Report& operator=(const Report&) = delete;
  ~Report() = default;

  /// Starts the records of one problem: a heading in the table.
  void begin(const Problem& problem, InputKind input);
  void add(const Record& record);
  /// Prints everything that is only known at the end: JSON, the legend of a table, and the summary of
  /// --verify-only.
  void finish();

 private:
  [[nodiscard]] bool shows_table() const;
  void print_json();
  void print_verify_summary();

  std::ostream& out_;
  Options options_;
  Device device_;
  Table table_;
  std::vector<Record> records_;
};
