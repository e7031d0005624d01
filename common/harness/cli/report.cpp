#include "common/harness/cli/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

/// A column of the table.
struct Column {
  const char* title;
  std::size_t width;
  bool right;
};

namespace {

const char* name(Status status) {
  switch (status) {
    case Status::verified:
      return "verified";
    case Status::wrong:
      return "wrong";
    case Status::not_applicable:
      return "not applicable";
  }
  return "?";
}

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string padded(const std::string& text, std::size_t width, bool right = false) {
  const std::string spaces(width > text.size() ? width - text.size() : 0, ' ');
  return right ? spaces + text : text + spaces;
}

double percent_of_copy(const Record& record) {
  return 100 * record.timing->copy.median_us / record.timing->variant.median_us;
}

/// A field of a record for csv and json: its name, and its value, empty where there is none.
struct Field {
  const char* name;
  std::string value;
  bool is_text;
};

/// `simulated`: with what was counted, and what else the variant declares of it.
std::vector<Field> fields(const Record& record, bool simulated) {
  const auto timed = [&](auto value, int digits) {
    return record.timing ? fixed(value(), digits) : std::string();
  };
  const bool ran = record.status != Status::not_applicable;
  std::vector<Field> all{
      {"stage", record.stage, true},
      {"variant", record.variant, true},
      {"dtype", name(record.problem.dtype), true},
      {"op", name(record.problem.op), true},
      {"rows", std::to_string(record.problem.shape.rows), false},
      {"cols", std::to_string(record.problem.shape.cols), false},
      {"input", name(record.input), true},
      {"status", name(record.status), true},
      {"reason", record.reason, true},
      {"time_us", timed([&] { return record.timing->variant.median_us; }, 3), false},
      {"spread_percent", timed([&] { return record.timing->variant.spread_percent; }, 2), false},
      {"copy_us", timed([&] { return record.timing->copy.median_us; }, 3), false},
      {"copy_spread_percent", timed([&] { return record.timing->copy.spread_percent; }, 2), false},
      {"percent_of_copy", timed([&] { return percent_of_copy(record); }, 2), false},
      {"bandwidth_gb_s",
       timed([&] { return effective_bandwidth_gb_s(record.problem, record.timing->variant.median_us); }, 1),
       false},
      {"passes", ran ? fixed(record.passes, 4) : "", false},
      {"max_error", ran && record.status == Status::verified ? fixed(record.max_error, 4) : "", false},
      {"note", record.timing ? doubts(*record.timing) : "", true},
  };
  if (!simulated) return all;
  const auto declare = [&](const char* field, const std::optional<double>& value) {
    all.push_back({field, value ? fixed(*value, 4) : "", false});
  };
  declare("barriers_per_row", record.row_costs.barriers);
  declare("bank_conflicts_per_row", record.row_costs.bank_conflicts);
  const Counted counted = record.counted.value_or(Counted{});
  const auto add = [&](const char* field, const std::string& value) {
    all.push_back({field, record.counted ? value : "", false});
  };
  add("counted_passes", fixed(counted.passes, 4));
  add("counted_sectors_per_load_request", fixed(counted.sectors_per_load_request, 3));
  add("counted_sectors_per_store_request", fixed(counted.sectors_per_store_request, 3));
  add("counted_shared_wavefronts", std::to_string(counted.shared_wavefronts));
  add("counted_bank_conflicts", std::to_string(counted.bank_conflicts));
  add("counted_shuffles", std::to_string(counted.shuffles));
  add("counted_block_barriers", std::to_string(counted.block_barriers));
  add("counted_special_functions_per_element", fixed(counted.special_functions_per_element, 4));
  const SimCounters& totals = counted.totals;
  add("counted_global_load_requests", std::to_string(totals.global_loads.requests));
  add("counted_global_load_sectors", std::to_string(totals.global_loads.sectors));
  add("counted_global_store_requests", std::to_string(totals.global_stores.requests));
  add("counted_global_store_sectors", std::to_string(totals.global_stores.sectors));
  add("counted_shared_load_requests", std::to_string(totals.shared_loads.requests));
  add("counted_shared_load_wavefronts", std::to_string(totals.shared_loads.wavefronts));
  add("counted_shared_load_conflicts", std::to_string(totals.shared_loads.bank_conflicts));
  add("counted_shared_store_requests", std::to_string(totals.shared_stores.requests));
  add("counted_shared_store_wavefronts", std::to_string(totals.shared_stores.wavefronts));
  add("counted_shared_store_conflicts", std::to_string(totals.shared_stores.bank_conflicts));
  add("counted_special_function_lanes", std::to_string(totals.special_function_lanes));
  add("counted_exp2_lanes", std::to_string(totals.exp2_lanes));
  add("counted_atomics", std::to_string(totals.atomics));
  return all;
}

std::string csv_quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted(1, '"');
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  quoted += '"';
  return quoted;
}

std::string json_quoted(const std::string& text) {
  std::string quoted(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  quoted += '"';
  return quoted;
}

// Fixed widths: ./run joins the rows of several executables into one table.
const std::vector<Column> timed_columns{{"stage", 22, false},    {"variant", 32, false}, {"passes", 7, true},
                                        {"time us", 11, true},   {"spread", 8, true},    {"GB/s", 8, true},
                                        {"% of copy", 10, true}, {"error", 7, true}};
// "sectors" are per request; "special" functions per element.
const std::vector<Column> counted_columns{
    {"stage", 22, false},   {"variant", 32, false},   {"passes", 7, true},      {"counted", 8, true},
    {"load sec.", 9, true}, {"store sec.", 10, true}, {"wavefronts", 10, true}, {"conflicts", 9, true},
    {"shuffles", 8, true},  {"barriers", 8, true},    {"special", 7, true},     {"error", 5, true}};

void print_columns(std::ostream& out, const std::vector<Column>& columns,
                   const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += padded(cells[i], columns.at(i).width, columns.at(i).right) + "  ";
  }
  out << line.substr(0, line.find_last_not_of(' ') + 1) << std::endl;  // flushed: a row shows when it is done
}

std::vector<std::string> timed_cells(const Record& record) {
  const double median_us = record.timing->variant.median_us;
  return {fixed(record.passes, 2), fixed(median_us, 2),
          fixed(record.timing->variant.spread_percent, 1) + " %",
          fixed(effective_bandwidth_gb_s(record.problem, median_us), 0), fixed(percent_of_copy(record), 1)};
}

std::vector<std::string> counted_cells(const Record& record) {
  const Counted& counted = *record.counted;
  return {fixed(record.passes, 2),
          fixed(counted.passes, 2),
          fixed(counted.sectors_per_load_request, 1),
          fixed(counted.sectors_per_store_request, 1),
          std::to_string(counted.shared_wavefronts),
          std::to_string(counted.bank_conflicts),
          std::to_string(counted.shuffles),
          std::to_string(counted.block_barriers),
          fixed(counted.special_functions_per_element, 2)};
}

}  // namespace

Report::Report(std::ostream& out, Options options, Device device)
    : out_(out), options_(std::move(options)), device_(std::move(device)) {
  if (options_.format == Format::csv && options_.sections.heading) {
    const char* comma = "";
    for (const Field& field : fields(Record{.problem = {{}, {}, nullptr}}, device_.simulated)) {
      out_ << comma << field.name;
      comma = ",";
    }
    out_ << std::endl;
  }
}

void Report::begin(const Problem& problem, InputKind input) {
  if (options_.format != Format::table || options_.verify_only || !options_.sections.heading) return;
  out_ << "\n" << describe(problem) << ", input " << name(input) << "  (" << device_.gpu;
  if (device_.simulated) {
    out_ << ": numbers counted, none measured)\n\n";
  } else {
    out_ << ", CUDA " << device_.cuda_runtime << ", " << (options_.l2 == L2::cold ? "cold" : "warm")
         << " L2, median of " << options_.repeats << ")\n\n";
  }
  std::vector<std::string> titles;
  for (const Column& column : columns()) titles.emplace_back(column.title);
  print_columns(out_, columns(), titles);
}

void Report::add(const Record& record) {
  const bool is_ceiling = record.stage.empty();
  if (!(is_ceiling ? options_.sections.ceiling : options_.sections.rows)) return;
  records_.push_back(record);
  switch (options_.format) {
    case Format::table:
      print_table_row(record);
      break;
    case Format::csv:
      print_csv_row(record);
      break;
    case Format::json:
      break;
  }
}

const std::vector<Column>& Report::columns() const {
  return device_.simulated ? counted_columns : timed_columns;
}

void Report::print_table_row(const Record& record) {
  if (options_.verify_only) {
    if (record.status == Status::wrong) {
      out_ << "WRONG  " << record.variant << ", " << describe(record.problem) << ", input "
           << name(record.input) << ": " << record.reason << std::endl;
    }
    return;
  }
  std::vector<std::string> cells{record.stage, record.variant};
  std::vector<std::string> numbers;
  if (record.timing) numbers = timed_cells(record);
  if (record.counted) numbers = counted_cells(record);
  cells.insert(cells.end(), numbers.begin(), numbers.end());
  if (!numbers.empty() && !record.stage.empty()) cells.push_back(fixed(record.max_error, 2));
  print_columns(out_, columns(), cells);
  if (record.timing && !doubts(*record.timing).empty()) {
    out_ << padded("", columns().front().width) << "    " << doubts(*record.timing) << std::endl;
  }
  if (!record.reason.empty()) {
    out_ << padded("", columns().front().width) << "    "
         << (record.status == Status::wrong ? "WRONG: " : "not applicable: ") << record.reason << std::endl;
  }
}

void Report::print_csv_row(const Record& record) {
  const char* comma = "";
  for (const Field& field : fields(record, device_.simulated)) {
    out_ << comma << csv_quoted(field.value);
    comma = ",";
  }
  out_ << std::endl;
}

void Report::print_json() {
  out_ << "{\"machine\": {\"gpu\": " << json_quoted(device_.gpu)
       << ", \"compute_capability\": " << json_quoted(device_.compute_capability)
       << ", \"multiprocessors\": " << device_.multiprocessors << ", \"l2_bytes\": " << device_.l2_bytes
       << ", \"memory_bytes\": " << device_.memory_bytes
       << ", \"cuda_driver\": " << json_quoted(device_.cuda_driver)
       << ", \"cuda_runtime\": " << json_quoted(device_.cuda_runtime) << "},\n \"settings\": {\"l2\": \""
       << (options_.l2 == L2::cold ? "cold" : "warm") << "\", \"repeats\": " << options_.repeats
       << ", \"seed\": " << options_.seed << ", \"offset\": " << options_.offsets.input
       << ", \"output_offset\": " << options_.offsets.output << "},\n \"results\": [";
  const char* separator = "\n  ";
  for (const Record& record : records_) {
    out_ << separator << "{";
    const char* comma = "";
    for (const Field& field : fields(record, device_.simulated)) {
      const std::string number = field.value.empty() ? "null" : field.value;
      out_ << comma << "\"" << field.name << "\": " << (field.is_text ? json_quoted(field.value) : number);
      comma = ", ";
    }
    out_ << "}";
    separator = ",\n  ";
  }
  out_ << "\n]}\n";
}

void Report::print_verify_summary() {
  struct Count {
    int verified = 0;
    int wrong = 0;
    int not_applicable = 0;
    double max_error = 0;
  };
  std::map<std::tuple<std::string, DType, std::string>, Count> counts;
  for (const Record& record : records_) {
    Count& count = counts[{record.variant, record.problem.dtype, record.problem.op->name}];
    count.verified += record.status == Status::verified ? 1 : 0;
    count.wrong += record.status == Status::wrong ? 1 : 0;
    count.not_applicable += record.status == Status::not_applicable ? 1 : 0;
    count.max_error = std::max(count.max_error, record.max_error);
  }
  for (const auto& [key, count] : counts) {
    const auto& [variant, dtype, op] = key;
    out_ << padded(variant, columns().at(1).width + 2) << padded(name(dtype), 6) << padded(op, 13)
         << padded(std::to_string(count.verified), 6, true) << " verified"
         << padded(std::to_string(count.wrong), 6, true) << " wrong"
         << padded(std::to_string(count.not_applicable), 6, true) << " not applicable   worst error "
         << fixed(count.max_error, 3) << " of the tolerance\n";
  }
}

void Report::finish() {
  if (options_.format == Format::json) print_json();
  if (options_.format == Format::table && options_.verify_only) print_verify_summary();
}
