#include "common/harness/cli/table.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

#include "common/harness/cli/counted_numbers.h"
#include "common/harness/cli/report.h"
#include "common/harness/cli/text.h"

namespace {

constexpr std::size_t widest_bar = 8;

/// Three digits that mean something: 0, 4.5, 10, 578.
std::string short_number(double value) {
  const bool is_whole = value == std::floor(value);
  return fixed(value, is_whole || value >= 99.95 ? 0 : 1);
}

std::string without_trailing_blanks(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

double counted(const Record& record, std::string_view field) {
  return counted_number(*record.counted, record.problem, field);
}

std::function<std::string(const Record&)> per_row(std::string_view field) {
  return [field](const Record& record) {
    return short_number(counted(record, field) / static_cast<double>(record.problem.shape.rows));
  };
}

/// As counted, or where nothing is counted as declared.
double passes_of(const Record& record) {
  return record.counted ? counted(record, "passes") : record.passes;
}

/// One = for each pass.
std::string bar(const Record& record) {
  const auto length = static_cast<std::size_t>(std::lround(passes_of(record)));
  return length <= widest_bar ? std::string(length, '=') : std::string(widest_bar - 1, '=') + ">";
}

std::string shape_text(Shape shape) {
  return std::to_string(shape.rows) + " x " + std::to_string(shape.cols);
}

}  // namespace

Table::Table(std::ostream& out, const Options& options, const Device& device, const Stage& stage,
             Screen screen)
    : out_(out), options_(options), device_(device), stage_(stage), screen_(screen) {
  if (device.simulated && options.recorded) recorded_ = RecordedPercentages(*options.recorded);
}

std::vector<Table::Column> Table::all_columns() const {
  const auto timing = [](auto text_of) {
    return [text_of](const Record& record) { return text_of(record, record.timing->variant); };
  };
  std::vector<Column> columns{
      {"", "variant", 32, 0, [](const Record& record) { return record.variant; }, "", {}, true, 0},
      {"", "passes", 6, 0, [](const Record& record) { return fixed(passes_of(record), 2); },
       "passes: bytes that the threads request / bytes of the matrix, with one = for each. The copy makes "
       "the fewest.",
       Number::passes},
      {"", "", widest_bar, 2, bar, "", {}, true, 1},
  };
  if (!device_.simulated) {
    const std::vector<Column> timed{
        {"", "time us", 9, 0,
         timing([](const Record&, const Timing& time) { return fixed(time.median_us, 2); }),
         "time: of one launch, as the median of " + std::to_string(options_.repeats) +
             " samples; spread: between their quartiles."},
        {"", "spread", 7, 4,
         timing([](const Record&, const Timing& time) { return fixed(time.spread_percent, 1) + " %"; })},
        {"", "GB/s", 6, 3, timing([](const Record& record, const Timing& time) {
           return fixed(effective_bandwidth_gb_s(record.problem, time.median_us), 0);
         }),
         "GB/s: counts only the bytes that must be moved, even if the variant moves more."},
        {"% of", "copy", 6, 0, [](const Record& record) { return fixed(percent_of_copy(*record.timing), 1); },
         "% of copy: the speed, against a plain copy that is timed in turn with the variant.", Number::time},
        {"", "error", 5, 5,
         [](const Record& record) { return record.stage.empty() ? "" : fixed(record.max_error, 2); },
         "error: the largest, against double precision, relative to the allowed error."}};
    columns.insert(columns.end(), timed.begin(), timed.end());
    return columns;
  }
  const std::vector<Column> counts{
      {"sectors", "/load", 7, 0,
       [](const Record& record) { return fixed(counted(record, "sectors_per_load_request"), 1); },
       "sectors/load: pieces of 32 bytes that one load of a warp touches; a lane's 4 neighbouring bytes make "
       "4, "
       "its 16 make 16.",
       Number::load_sectors},
      {"sectors", "/store", 7, 5,
       [](const Record& record) { return fixed(counted(record, "sectors_per_store_request"), 1); }},
      {"wavefronts", "/row", 10, 7, per_row("shared_wavefronts"),
       "wavefronts: steps that accesses to shared memory take."},
      {"conflicts", "/row", 9, 1, per_row("bank_conflicts"),
       "conflicts: extra wavefronts, because lanes need different words of one bank.",
       Number::bank_conflicts},
      {"shuffles", "/row", 8, 4, per_row("shuffles"), "shuffles, barriers: of warps, and of blocks."},
      {"barriers", "/row", 8, 3, per_row("block_barriers")},
      {"exp", "/elem", 5, 6,
       [](const Record& record) { return fixed(counted(record, "special_functions_per_element"), 2); },
       "exp: exponentials and other special functions."},
  };
  columns.insert(columns.end(), counts.begin(), counts.end());
  if (recorded_shape_) {
    columns.push_back({"recorded", "% copy", 8, 0,
                       [this](const Record& record) { return recorded_percent(record); },
                       "recorded: percent of a plain copy's speed on another machine (" + recorded_.gpu() +
                           ", " + shape_text(*recorded_shape_) + "). Here nothing is timed."});
  }
  return columns;
}

void Table::choose_columns() {
  columns_ = all_columns();
  left_out_.clear();
  const auto width = [this] {
    std::size_t sum = 0;
    for (const Column& column : columns_) sum += column.gap + column.width;
    return sum;
  };
  while (width() > screen_.width) {
    const auto last = std::max_element(columns_.begin(), columns_.end(),
                                       [](const Column& a, const Column& b) { return a.goes < b.goes; });
    if (last->goes == 0) break;
    if (!last->title.empty()) {
      left_out_ +=
          (left_out_.empty() ? "" : ", ") + (last->over.empty() ? last->title : last->over + last->title);
    }
    columns_.erase(last);
  }
}

std::string Table::recorded_percent(const Record& record) const {
  const auto percent = recorded_.percent(record.stage, record.variant, record.problem, *recorded_shape_);
  return percent ? fixed(*percent, 1) : "";
}

void Table::begin(const Problem& problem, InputKind input) {
  // Without --rows, a GPU would use its own default.
  recorded_shape_ =
      recorded_.nearest(problem, options_.rows.empty() ? default_rows(false) : problem.shape.rows);
  choose_columns();
  if (options_.sections.heading) {
    const std::string how = device_.simulated
                                ? ": numbers counted, none measured"
                                : ", CUDA " + device_.cuda_runtime + ", " + name(options_.l2) + " L2";
    out_ << "\n"
         << bold(describe(problem), screen_) << ", input " << name(input) << "\n"
         << wrapped(device_.gpu + how, screen_, 0) << "\n\n";
    for (std::string Column::*line : {&Column::over, &Column::title}) {
      std::string titles;
      for (const Column& column : columns_) {
        titles += std::string(column.gap, ' ') + padded(column.*line, column.width, column.is_text);
      }
      titles = without_trailing_blanks(titles);
      if (!titles.empty()) out_ << titles << "\n";
    }
  }
  if (options_.sections.rows) {
    out_ << "\n"
         << bold(stage_.name, screen_) << "  " << wrapped(stage_.idea, screen_, stage_.name.size() + 2);
    out_ << std::endl;
  }
}

void Table::add(const Record& record) {
  if (record.stage.empty()) out_ << "\n";
  std::string line;
  if (record.timing || record.counted) {
    has_numbers_ = true;
    for (const Column& column : columns_) {
      const std::string cell = padded(column.cell(record), column.width, column.is_text);
      const bool stands_out = column.number && !record.stage.empty() &&
                              (*column.number == stage_.changes || *column.number == Number::time);
      line += std::string(column.gap, ' ') + (stands_out ? bold(cell, screen_) : cell);
    }
  } else {
    line = padded(record.variant, columns_.front().width);
  }
  if (record.status == Status::not_applicable) {
    const std::size_t indent = columns_.front().width + 2;
    line = padded(record.variant, indent) + wrapped("not applicable: " + record.reason, screen_, indent);
  }
  out_ << without_trailing_blanks(line) << std::endl;  // flushed: a row shows when it is done
  if (record.counted && std::abs(passes_of(record) - record.passes) > 0.05 * record.passes) {
    add_line("declared: " + fixed(record.passes, 2) + " passes");
  }
  if (record.timing && !doubts(*record.timing).empty()) add_line(doubts(*record.timing));
  if (record.status == Status::wrong) add_line("WRONG: " + record.reason);
}

void Table::add_line(const std::string& text) {
  out_ << "    " << wrapped(text, screen_, 4) << std::endl;
}

void Table::print_legend() {
  if (!has_numbers_) return;
  out_ << "\n";
  const auto add_lines = [this](const std::string& text) {
    if (!text.empty()) out_ << wrapped(text, screen_, 0) << "\n";
  };
  for (const Column& column : columns_) add_lines(column.legend);
  if (screen_.has_styles) add_lines("Bold: the number that the stage sets out to change.");
  if (!left_out_.empty())
    add_lines("The screen is too narrow for: " + left_out_ + " (--format csv has them).");
}
