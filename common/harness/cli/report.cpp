#include "common/harness/cli/report.h"

#include <algorithm>
#include <array>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "common/harness/cli/counted_numbers.h"
#include "common/harness/cli/text.h"
#include "common/harness/json.h"

namespace {

const char* name(Status status) {
  constexpr std::array names{"verified", "wrong", "not applicable"};  // in the order of the enum
  return names.at(static_cast<std::size_t>(status));
}

/// A field of a record for CSV and JSON: its name, and its value, empty where there is none.
struct Field {
  std::string name;
  std::string value;
  bool is_text = false;
};

/// `simulated`: with the counted numbers, and the variant's declared ones.
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

}  // namespace

double percent_of_copy(const TimedVariant& timed) {
  return 100 * timed.copy.median_us / timed.variant.median_us;
}

Report::Report(std::ostream& out, Options options, Device device, const Stage& stage, Screen screen)
    : out_(out),
      options_(std::move(options)),
      device_(std::move(device)),
      table_(out, options_, device_, stage, screen) {
  if (options_.format == Format::csv && options_.sections.heading) {
    const Record any{.problem = {{}, DType::f32, &softmax_operation}};
    print_csv(out_, fields(any, device_.simulated), &Field::name);
  }
}

bool Report::shows_table() const {
  return options_.format == Format::table && !options_.verify_only;
}

void Report::begin(const Problem& problem, InputKind input) {
  if (shows_table()) table_.begin(problem, input);
}

void Report::add(const Record& record) {
  const bool is_ceiling = record.stage.empty();
  if (!(is_ceiling ? options_.sections.ceiling : options_.sections.rows)) return;
  records_.push_back(record);
  if (shows_table()) table_.add(record);
  if (options_.format == Format::csv) print_csv(out_, fields(record, device_.simulated), &Field::value);
  if (options_.format == Format::table && options_.verify_only && record.status == Status::wrong) {
    out_ << "WRONG  " << record.variant << ", " << describe(record.problem) << ", input "
         << name(record.input) << ": " << record.reason << std::endl;
  }
}

void Report::print_json() {
  const JsonMembers settings{{"l2", json_quoted(name(options_.l2))},
                             {"repeats", std::to_string(options_.repeats)},
                             {"seed", std::to_string(options_.seed)},
                             {"offset", std::to_string(options_.offsets.input)},
                             {"output_offset", std::to_string(options_.offsets.output)},
                             {"next_offset", std::to_string(options_.offsets.next)}};
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
    out_ << padded(variant, 34) << padded(name(dtype), 6) << padded(std::string(op), 13);
    for (const Status status : {Status::verified, Status::wrong, Status::not_applicable}) {
      out_ << padded(std::to_string(count.of[status]), 6, false) << " " << name(status);
    }
    out_ << "   worst error " << fixed(count.max_error, 3) << " of the tolerance\n";
  }
}

void Report::finish() {
  if (shows_table() && options_.sections.ceiling) table_.print_legend();
  if (options_.format == Format::json) print_json();
  if (options_.format == Format::table && options_.verify_only) print_verify_summary();
}
