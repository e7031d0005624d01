#include "common/harness/cli/command_line.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <sstream>
#include <utility>

#include "common/harness/choice.h"

namespace {

constexpr std::int64_t largest_size = std::int64_t{1} << 40U;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  std::stringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  if (items.empty() || list.back() == ',') items.emplace_back();
  return items;
}

std::int64_t whole_number(const std::string& option, const std::string& text, std::int64_t least,
                          std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    refuse(option, text, "whole numbers from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

std::vector<std::int64_t> whole_numbers(const std::string& option, const std::string& list,
                                        std::int64_t least) {
  std::vector<std::int64_t> values;
  for (const std::string& item : split(list))
    values.push_back(whole_number(option, item, least, largest_size));
  return values;
}

/// A comma list of named values, or "all".
template <class T>
std::vector<T> choices(const std::string& option, const std::string& list, const Named<T>& all) {
  std::vector<T> values;
  if (list == "all") {
    for (const auto& [name, value] : all) values.push_back(value);
    return values;
  }
  for (const std::string& item : split(list)) values.push_back(choose(option, item, all, ", all"));
  return values;
}

Sections parse_sections(const std::string& list) {
  Sections sections{false, false, false};
  for (const std::string& item : split(list)) {
    const auto section = choose<bool Sections::*>(
        "--section", item,
        {{"heading", &Sections::heading}, {"rows", &Sections::rows}, {"ceiling", &Sections::ceiling}});
    sections.*section = true;
  }
  return sections;
}

Offsets parse_offsets(const std::string& list) {
  const std::vector<std::string> items = split(list);
  if (items.size() > 3) {
    refuse("--offset", list, "up to three numbers: of inputs, of outputs, and from one of them to the next");
  }
  const auto number = [&](std::size_t i) { return whole_number("--offset", items[i], 0, Offsets::most); };
  return {.input = number(0),
          .output = number(items.size() > 1 ? 1 : 0),
          .next = items.size() > 2 ? number(2) : 0};
}

struct Option {
  std::string name;
  std::string value;  ///< the placeholder of the value in --help; empty if the option takes none
  std::string help;
  std::function<void(Options&, const std::string&)> apply;
};

const std::string& name(const Option& option) {
  return option.name;
}

Named<std::string> variant_names(const Stage& stage) {
  Named<std::string> names;
  for (const Variant& variant : stage.variants) names.emplace_back(variant.name, variant.name);
  return names;
}

/// The only list of options: parsing and --help both read it.
std::vector<Option> option_table(const Stage& stage) {
  using Text = const std::string&;
  const auto operations = by_name(stage.operations);
  const auto inputs = by_name(all_inputs());
  return {
      {"--rows", "N,...", "rows of the matrix, 0 or more (default 49152, on the simulator 64)",
       [](Options& o, Text v) { o.rows = whole_numbers("--rows", v, 0); }},
      {"--cols", "N,...", "columns, 1 or more (default 1024)",
       [](Options& o, Text v) { o.cols = whole_numbers("--cols", v, 1); }},
      {"--dtype", "T,...", "f32 (default), f16, bf16 or all",
       [](Options& o, Text v) { o.dtypes = choices("--dtype", v, by_name(all_dtypes())); }},
      {"--op", "OP,...", names_of(operations) + " or all (default " + operations.front().first + ")",
       [operations](Options& o, Text v) { o.ops = choices("--op", v, operations); }},
      {"--variant", "NAME,...", "only these variants; --list names them (default all)",
       [&stage](Options& o, Text v) { o.variants = choices("--variant", v, variant_names(stage)); }},
      {"--input", "KIND,...", "values to compute on (default normal), or all: " + names_of(inputs),
       [inputs](Options& o, Text v) { o.inputs = choices("--input", v, inputs); }},
      {"--seed", "N", "seed of the input (default 1)",
       [](Options& o, Text v) {
         o.seed = static_cast<std::uint64_t>(whole_number("--seed", v, 0, largest_size));
       }},
      {"--repeats", "N", "timed samples per variant; their median is shown (default 25)",
       [](Options& o, Text v) { o.repeats = static_cast<int>(whole_number("--repeats", v, 1, 100000)); }},
      {"--l2", "cold|warm", "cold (default): every launch finds its data outside the L2 cache",
       [](Options& o, Text v) {
         o.l2 = choose("--l2", v, by_name(std::vector{L2::cold, L2::warm}));
       }},
      {"--offset", "N[,M[,K]]",
       "move inputs N elements off their alignment, outputs M, and each next one K further (default M: N, N, "
       "K: 0)",
       [](Options& o, Text v) { o.offsets = parse_offsets(v); }},
      {"--verify-only", "", "check results without timing", [](Options& o, Text) { o.verify_only = true; }},
      {"--profile", "", "one launch of one --variant between cudaProfilerStart and Stop, for ncu",
       [](Options& o, Text) { o.profile = true; }},
      {"--format", "table|csv|json", "how to print (default table)",
       [](Options& o, Text v) {
         o.format = choose<Format>("--format", v,
                                   {{"table", Format::table}, {"csv", Format::csv}, {"json", Format::json}});
       }},
      {"--section", "PART,...",
       "parts of a table or csv to print: heading, rows, ceiling with legend (default: all three)",
       [](Options& o, Text v) { o.sections = parse_sections(v); }},
      {"--list", "", "name the variants", [](Options& o, Text) { o.list = true; }},
      {"--device", "gpu|sim", "run on the GPU, or on the CPU simulator (default: gpu if there is one)",
       [](Options& o, Text v) {
         o.device = choose<RunOn>("--device", v, {{"gpu", RunOn::gpu}, {"sim", RunOn::sim}});
       }},
      {"--recorded", "FILE", "percentages recorded on a GPU, for the simulator's table; ./run gives them",
       [](Options& o, Text v) { o.recorded = v; }},
      {"--help", "", "this text", [](Options& o, Text) { o.help = true; }},
  };
}

}  // namespace

std::int64_t default_rows(bool simulated) {
  return simulated ? 64 : 49152;
}

Options parse_command_line(const std::vector<std::string>& arguments, const Stage& stage) {
  const std::vector<Option> table = option_table(stage);
  Options options;
  options.ops = {stage.operations.front()};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');  // both --rows 7 and --rows=7
    const std::string given = arguments[i].substr(0, equals);
    const auto option =
        std::find_if(table.begin(), table.end(), [&](const Option& o) { return o.name == given; });
    if (option == table.end()) {
      const auto known = by_name(table);
      throw UsageError("unknown option '" + given + "'" + did_you_mean(given, known) +
                       "; accepted: " + names_of(known));
    }
    const bool takes_value = !option->value.empty();
    if (!takes_value && equals != std::string::npos) throw UsageError(given + " takes no value");
    std::string value;
    if (takes_value && equals != std::string::npos) {
      value = arguments[i].substr(equals + 1);
    } else if (takes_value) {
      if (++i == arguments.size()) throw UsageError(given + " needs a value: " + option->help);
      value = arguments[i];
    }
    option->apply(options, value);
  }
  if (options.profile &&
      (options.variants.size() != 1 || options.rows.size() > 1 || options.cols.size() != 1 ||
       options.dtypes.size() * options.ops.size() * options.inputs.size() != 1)) {
    throw UsageError("--profile is one launch: give one --variant (" + names_of(variant_names(stage)) +
                     "), shape, dtype, op and input");
  }
  return options;
}

std::vector<Problem> problems(const Options& options, const Device& device, int devices) {
  std::vector<Problem> all;
  for (const std::int64_t rows :
       options.rows.empty() ? std::vector{default_rows(device.simulated)} : options.rows) {
    for (const std::int64_t cols : options.cols) {
      for (const DType dtype : options.dtypes) {
        for (const Operation* op : options.ops)
          all.push_back({{rows, cols}, dtype, op, options.offsets, options.seed, devices});
      }
    }
  }
  return all;
}

std::vector<const Variant*> wanted_variants(const Options& options, const std::vector<Variant>& all) {
  std::vector<const Variant*> wanted;
  for (const Variant& variant : all) {
    const auto& names = options.variants;
    if (names.empty() || std::find(names.begin(), names.end(), variant.name) != names.end())
      wanted.push_back(&variant);
  }
  return wanted;
}

std::string help_text(const Stage& stage) {
  std::ostringstream text;
  text << stage.name << ": " << stage.idea << "\n\nusage: " << stage.name << " [options]\n";
  for (const Option& option : option_table(stage)) {
    std::string left = "  " + option.name + (option.value.empty() ? "" : " " + option.value);
    left.resize(std::max<std::size_t>(left.size() + 2, 26), ' ');
    text << left << option.help << "\n";
  }
  text << "\nexit codes: 0 fine, 1 wrong result, 2 bad usage, 3 no usable device, 4 a CUDA error "
          "or\nanother, such as output that cannot be written\n";
  return text.str();
}
