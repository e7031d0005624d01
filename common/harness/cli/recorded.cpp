#include "common/harness/cli/recorded.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "common/harness/errors.h"
#include "common/harness/operation.h"

RecordedPercentages::RecordedPercentages(const std::string& file) {
  std::error_code unknown;
  bool is_whole = std::filesystem::is_regular_file(file, unknown);  // a device may never end
  std::ifstream stream;
  if (is_whole) stream.open(file);
  std::getline(stream, gpu_);
  for (Row row; is_whole && stream >> row.stage;) {
    stream >> row.variant >> row.dtype >> row.operation >> row.shape.rows >> row.shape.cols >> row.percent;
    is_whole = !stream.fail();
    rows_.push_back(row);
  }
  if (!is_whole || rows_.empty()) {
    throw UsageError("--recorded: '" + file + "' is not accepted; accepted: a file of common/tools recorded");
  }
}

bool RecordedPercentages::Row::is_of(const Problem& problem) const {
  return dtype == name(problem.dtype) && operation == problem.op->name && shape.cols == problem.shape.cols;
}

std::optional<Shape> RecordedPercentages::nearest(const Problem& problem, std::int64_t rows) const {
  const auto distance = [rows](const Row& row) {  // twice as many are as far away as half as many
    return std::abs(std::log2(static_cast<double>(row.shape.rows)) -
                    std::log2(static_cast<double>(std::max<std::int64_t>(rows, 1))));
  };
  const Row* found = nullptr;
  for (const Row& row : rows_) {
    if (row.is_of(problem) && (found == nullptr || distance(row) < distance(*found))) found = &row;
  }
  if (found == nullptr) return std::nullopt;
  return found->shape;
}

std::optional<double> RecordedPercentages::percent(const std::string& stage, const std::string& variant,
                                                   const Problem& problem, Shape shape) const {
  for (const Row& row : rows_) {
    if (row.stage == stage && row.variant == variant && row.is_of(problem) && row.shape.rows == shape.rows) {
      return row.percent;
    }
  }
  return std::nullopt;
}
