#include "common/harness/cli/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "common/harness/json.h"

namespace {

const char* name(Status status) {
  constexpr std::array names{"verified", "wrong", "not applicable"};  // in the order of the enum
  return names.at(static_cast<std::size_t>(status));
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

/// A column of the table. Widths are fixed: ./run joins the rows of several executables into one table.
struct Column {
  std::string title;
  std::size_t width;
  bool right = true;
};

/// A number made of the counters, in CSV and JSON; and in the table, where its column has a title.
struct CountedNumber {
  const char* field;
  double value;
  int digits = 0;
  Column column{"", 0};
  int digits_in_table = 0;
};

double ratio(double numerator, double denominator) {
  return denominator == 0 ? 0 : numerator / denominator;
}

std::vector<CountedNumber> counted_numbers(const SimCounters& counters, const Problem& problem) {
  const auto count = [](std::uint64_t number) { return static_cast<double>(number); };
  const SimAccesses& loads = counters.global_loads;
  const SimAccesses& stores = counters.global_stores;
  const SimAccesses& shared_loads = counters.shared_loads;
  const SimAccesses& shared_stores = counters.shared_stores;
  const double bytes = count(loads.bytes + stores.bytes);
  const double conflicts = count(shared_loads.bank_conflicts + shared_stores.bank_conflicts);
  const double special = count(counters.special_function_lanes);
  const double elements = count(problem.shape.elements());
  const double load_sectors = ratio(count(loads.sectors), count(loads.requests));
  const double store_sectors = ratio(count(stores.sectors), count(stores.requests));
  // In the table "sectors" are per request, "special" functions per element.
  return {
      {"passes", ratio(bytes, count(problem.matrix_bytes())), 4, {"counted", 8}, 2},
      {"sectors_per_load_request", load_sectors, 3, {"load sec.", 9}, 1},
      {"sectors_per_store_request", store_sectors, 3, {"store sec.", 10}, 1},
      {"shared_wavefronts", count(shared_loads.wavefronts + shared_stores.wavefronts), 0, {"wavefronts", 10}},
      {"bank_conflicts", conflicts, 0, {"conflicts", 9}},
      {"shuffles", count(counters.shuffles), 0, {"shuffles", 8}},
      {"block_barriers", count(counters.block_barriers), 0, {"barriers", 8}},
      {"special_functions_per_element", ratio(special, elements), 4, {"special", 7}, 2},
      {"global_load_requests", count(loads.requests)},
      {"global_load_sectors", count(loads.sectors)},
      {"global_store_requests", count(stores.requests)},
      {"global_store_sectors", count(stores.sectors)},
      {"shared_load_requests", count(shared_loads.requests)},
      {"shared_load_wavefronts", count(shared_loads.wavefronts)},
      {"shared_load_conflicts", count(shared_loads.bank_conflicts)},
      {"shared_store_requests", count(shared_stores.requests)},
      {"shared_store_wavefronts", count(shared_stores.wavefronts)},
      {"shared_store_conflicts", count(shared_stores.bank_conflicts)},
      {"special_function_lanes", special},
      {"exp2_lanes", count(counters.exp2_lanes)},
      {"atomics", count(counters.atomics)},
  };
}

std::vector<Column> columns(bool simulated) {
  std::vector<Column> all{{"stage", 22, false}, {"variant", 32, false}, {"passes", 7}};
  if (!simulated) {
    all.insert(all.end(), {{"time us", 11}, {"spread", 8}, {"GB/s", 8}, {"% of copy", 10}, {"error", 7}});
    return all;
  }
  for (const CountedNumber& number : counted_numbers({}, {})) {
    if (number.column.width > 0) all.push_back(number.column);
  }
  all.push_back({"error", 5});
  return all;
}

double percent_of_copy(const TimedVariant& timed) {
  return 100 * timed.copy.median_us / timed.variant.median_us;
}

/// A field of a record for CSV and JSON: its name, and its value, empty where there is none.
struct Field {
  std::string name;
  std::string value;
  bool is_text = false;
};

/// `simulated`: with what was counted, and what else the variant declares of it.
std::vector<Field> fields(const Record& record, bool simulated) {
  const Problem& problem = record.problem;
  std::vector<Field> all{{"stage", record.stage, true},
                         {"variant", record.variant, true},
                         {"dtype", name(problem.dtype), true},
                         {"op", std::string(name(problem.op)), true},
                         {"rows", std::to_string(problem.shape.rows)},
                         {"cols", std::to_string(problem.shape.cols)},
                         {"input", name(record.input), true},
                         {"status", name(record.status), true},
                         {"reason", record.reason, true}};
  const auto add = [&all](const std::string& field, bool known, double value, int digits) {
    all.push_back({field, known ? fixed(value, digits) : ""});
  };
  const bool is_timed = record.timing.has_value();
  const TimedVariant timed = record.timing.value_or(TimedVariant{});
  add("time_us", is_timed, timed.variant.median_us, 3);
  add("spread_percent", is_timed, timed.variant.spread_percent, 2);
  add("copy_us", is_timed, timed.copy.median_us, 3);
  add("copy_spread_percent", is_timed, timed.copy.spread_percent, 2);
  add("percent_of_copy", is_timed, percent_of_copy(timed), 2);
  add("bandwidth_gb_s", is_timed, effective_bandwidth_gb_s(problem, timed.variant.median_us), 1);
  add("passes", record.status != Status::not_applicable, record.passes, 4);
  add("max_error", record.status == Status::verified, record.max_error, 4);
  all.push_back({"note", is_timed ? doubts(timed) : "", true});
  if (!simulated) return all;
  const RowCosts& declared = record.row_costs;
  add("barriers_per_row", declared.barriers.has_value(), declared.barriers.value_or(0), 4);
  add("bank_conflicts_per_row", declared.bank_conflicts.has_value(), declared.bank_conflicts.value_or(0), 4);
  for (const CountedNumber& number : counted_numbers(record.counted.value_or(SimCounters{}), problem)) {
    add(std::string("counted_") + number.field, record.counted.has_value(), number.value, number.digits);
  }
  return all;
}

std::string csv_quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted(1, '"');
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

void print_csv(std::ostream& out, const std::vector<Field>& fields, std::string Field::*what) {
  const char* comma = "";
  for (const Field& field : fields) {
    out << comma << csv_quoted(field.*what);
    comma = ",";
  }
  out << std::endl;
}

std::string json(const std::vector<Field>& fields) {
  JsonMembers members;
  for (const Field& field : fields) {
    const std::string number = field.value.empty() ? "null" : field.value;
    members.emplace_back(field.name, field.is_text ? json_quoted(field.value) : number);
  }
  return json_object(members);
}

void print_columns(std::ostream& out, const std::vector<Column>& columns,
                   const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += padded(cells[i], columns.at(i).width, columns.at(i).right) + "  ";
  }
  out << line.substr(0, line.find_last_not_of(' ') + 1) << std::endl;  // flushed: a row shows when it is done
}

std::vector<std::string> cells_of(const Record& record) {
  std::vector<std::string> cells{record.stage, record.variant};
  if (!record.timing && !record.counted) return cells;
  cells.push_back(fixed(record.passes, 2));
  if (record.timing) {
    const Timing& timing = record.timing->variant;
    cells.push_back(fixed(timing.median_us, 2));
    cells.push_back(fixed(timing.spread_percent, 1) + " %");
    cells.push_back(fixed(effective_bandwidth_gb_s(record.problem, timing.median_us), 0));
    cells.push_back(fixed(percent_of_copy(*record.timing), 1));
  } else {
    for (const CountedNumber& number : counted_numbers(*record.counted, record.problem)) {
      if (number.column.width > 0) cells.push_back(fixed(number.value, number.digits_in_table));
    }
  }
  if (!record.stage.empty()) cells.push_back(fixed(record.max_error, 2));
  return cells;
}

}  // namespace

Report::Report(std::ostream& out, Options options, Device device)
    : out_(out), options_(std::move(options)), device_(std::move(device)) {
  if (options_.format == Format::csv && options_.sections.heading) {
    const Record any{.problem = {{}, DType::f32, &softmax_operation}};
    print_csv(out_, fields(any, device_.simulated), &Field::name);
  }
}

void Report::begin(const Problem& problem, InputKind input) {
  if (options_.format != Format::table || options_.verify_only || !options_.sections.heading) return;
  out_ << "\n" << describe(problem) << ", input " << name(input) << "  (" << device_.gpu;
  if (device_.simulated) {
    out_ << ": numbers counted, none measured)\n\n";
  } else {
    out_ << ", CUDA " << device_.cuda_runtime << ", " << name(options_.l2) << " L2, median of "
         << options_.repeats << ")\n\n";
  }
  std::vector<std::string> titles;
  for (const Column& column : columns(device_.simulated)) titles.push_back(column.title);
  print_columns(out_, columns(device_.simulated), titles);
}

void Report::add(const Record& record) {
  const bool is_ceiling = record.stage.empty();
  if (!(is_ceiling ? options_.sections.ceiling : options_.sections.rows)) return;
  records_.push_back(record);
  if (options_.format == Format::table) print_table_row(record);
  if (options_.format == Format::csv) print_csv(out_, fields(record, device_.simulated), &Field::value);
}

void Report::print_table_row(const Record& record) {
  if (options_.verify_only) {
    if (record.status == Status::wrong) {
      out_ << "WRONG  " << record.variant << ", " << describe(record.problem) << ", input "
           << name(record.input) << ": " << record.reason << std::endl;
    }
    return;
  }
  print_columns(out_, columns(device_.simulated), cells_of(record));
  const auto add_line = [&](const std::string& text) {
    out_ << padded("", columns(device_.simulated)[0].width) << "    " << text << std::endl;
  };
  if (record.timing && !doubts(*record.timing).empty()) add_line(doubts(*record.timing));
  if (record.reason.empty()) return;
  add_line((record.status == Status::wrong ? "WRONG: " : "not applicable: ") + record.reason);
}

void Report::print_json() {
  const JsonMembers settings{{"l2", json_quoted(name(options_.l2))},
                             {"repeats", std::to_string(options_.repeats)},
                             {"seed", std::to_string(options_.seed)},
                             {"offset", std::to_string(options_.offsets.input)},
                             {"output_offset", std::to_string(options_.offsets.output)}};
  out_ << "{\"machine\": " << json_object(json_members(device_))
       << ",\n \"settings\": " << json_object(settings) << ",\n \"results\": [";
  const char* separator = "\n  ";
  for (const Record& record : records_) {
    out_ << separator << json(fields(record, device_.simulated));
    separator = ",\n  ";
  }
  out_ << "\n]}\n";
}

void Report::print_verify_summary() {
  struct Count {
    std::map<Status, int> of;
    double max_error = 0;
  };
  std::map<std::tuple<std::string, DType, std::string_view>, Count> counts;
  for (const Record& record : records_) {
    Count& count = counts[{record.variant, record.problem.dtype, record.problem.op->name}];
    ++count.of[record.status];
    count.max_error = std::max(count.max_error, record.max_error);
  }
  for (auto& [key, count] : counts) {
    const auto& [variant, dtype, op] = key;
    out_ << padded(variant, columns(device_.simulated)[1].width + 2) << padded(name(dtype), 6)
         << padded(std::string(op), 13);
    for (const Status status : {Status::verified, Status::wrong, Status::not_applicable}) {
      out_ << padded(std::to_string(count.of[status]), 6, true) << " " << name(status);
    }
    out_ << "   worst error " << fixed(count.max_error, 3) << " of the tolerance\n";
  }
}

void Report::finish() {
  if (options_.format == Format::json) print_json();
  if (options_.format == Format::table && options_.verify_only) print_verify_summary();
}
