// Percentages of the copy's speed that were recorded on a GPU: the table shows them next to the counted
// numbers on a machine that cannot take times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/harness/problem.h"

class RecordedPercentages {
 public:
  /// None.
  RecordedPercentages() = default;
  /// A file of `common/tools recorded`: the GPU's name in the first line, then in each line stage, variant, dtype,
  /// operation, rows, columns and percent. Throws UsageError where it cannot be read.
  explicit RecordedPercentages(const std::string& file);

  [[nodiscard]] const std::string& gpu() const { return gpu_; }

  /// The recorded shape to compare with: the problem's shape, except for the number of rows, which is nearest
  /// to `rows`. Empty if no such row length was recorded.
  [[nodiscard]] std::optional<Shape> nearest(const Problem& problem, std::int64_t rows) const;

  [[nodiscard]] std::optional<double> percent(const std::string& stage, const std::string& variant,
                                              const Problem& problem, Shape shape) const;

 private:
  struct Row {
    std::string stage, variant, dtype, operation;
    Shape shape;
    double percent = 0;

    [[nodiscard]] bool is_of(const Problem& problem) const;
  };

  std::string gpu_;
  std::vector<Row> rows_;
};
