// The table, for people. It is never wider than the screen.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "common/harness/cli/command_line.h"
#include "common/harness/cli/recorded.h"
#include "common/harness/cli/screen.h"
#include "common/harness/device.h"
#include "common/harness/variant.h"

struct Record;

class Table {
 public:
  Table(std::ostream& out, const Options& options, const Device& device, const Stage& stage, Screen screen);

  /// Prints the problem, the titles of the columns and the stage, each at the start of its section.
  void begin(const Problem& problem, InputKind input);
  void add(const Record& record);
  /// Prints the meaning of the columns; nothing if no row has numbers.
  void print_legend();

 private:
  struct Column {
    std::string over;  ///< the title's first line
    std::string title;
    std::size_t width;
    /// If the screen is too narrow, the columns with the highest number are left out first; 0: never.
    int goes;
    std::function<std::string(const Record&)> cell;
    std::string legend{};
    std::optional<Number> number{};  ///< bold if the stage sets out to change it
    bool is_text = false;            ///< aligned to the left
    std::size_t gap = 2;             ///< before it
  };

  [[nodiscard]] std::vector<Column> all_columns() const;
  void choose_columns();
  [[nodiscard]] std::string recorded_percent(const Record& record) const;
  /// A line under a row.
  void add_line(const std::string& text);

  std::ostream& out_;
  const Options& options_;
  const Device& device_;
  const Stage& stage_;
  Screen screen_;
  RecordedPercentages recorded_;
  std::optional<Shape> recorded_shape_;  ///< that the problem is compared with
  std::vector<Column> columns_;
  std::string left_out_;  ///< the columns that the screen is too narrow for
  bool has_numbers_ = false;
};
