#include "common/harness/cli/command_line.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <sstream>
#include <utility>

namespace {

constexpr std::int64_t largest_size = std::int64_t{1} << 40U;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  std::stringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  if (items.empty() || list.back() == ',') items.emplace_back();
  return items;
}

std::string join(const std::vector<std::string>& items) {
  std::string joined;
  for (const std::string& item : items) joined += (joined.empty() ? "" : ", ") + item;
  return joined;
}

[[noreturn]] void refuse(const std::string& option, const std::string& value, const std::string& accepted) {
  throw UsageError(option + ": '" + value + "' is not accepted; accepted: " + accepted);
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

/// One of several named values.
template <class T>
T choice(const std::string& option, const std::string& text,
         const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& [choice_name, value] : choices) {
    if (choice_name == text) return value;
    names.push_back(choice_name);
  }
  refuse(option, text, join(names));
}

/// A comma list of named values, or "all".
template <class T>
std::vector<T> choices(const std::string& option, const std::string& list, const std::vector<T>& all) {
  if (list == "all") return all;
  std::vector<std::pair<std::string, T>> named;
  for (const T& value : all) {
    if constexpr (std::is_same_v<T, std::string>) {
      named.emplace_back(value, value);
    } else {
      named.emplace_back(name(value), value);
    }
  }
  std::vector<T> values;
  for (const std::string& item : split(list)) values.push_back(choice(option, item, named));
  return values;
}

Sections parse_sections(const std::string& list) {
  Sections sections{false, false, false};
  for (const std::string& item : split(list)) {
    const auto section = choice<bool Sections::*>(
        "--section", item,
        {{"heading", &Sections::heading}, {"rows", &Sections::rows}, {"ceiling", &Sections::ceiling}});
    sections.*section = true;
  }
  return sections;
}

Offsets parse_offsets(const std::string& list) {
  const std::vector<std::string> items = split(list);
  if (items.size() > 2) refuse("--offset", list, "one number, or two: of inputs and of outputs");
  return {whole_number("--offset", items.front(), 0, Offsets::most),
          whole_number("--offset", items.back(), 0, Offsets::most)};
}

struct Option {
  std::string name;
  std::string value;  ///< what stands for the value in --help; empty: the option takes none
  std::string help;
  std::function<void(Options&, const std::string&)> apply;
};

std::vector<std::string> variant_names(const Stage& stage) {
  std::vector<std::string> names;
  for (const Variant& variant : stage.variants) names.push_back(variant.name);
  return names;
}

std::string operation_names(const Stage& stage) {
  std::vector<std::string> names;
  for (const Operation* op : stage.operations) names.emplace_back(op->name);
  return join(names);
}

std::vector<std::string> input_names() {
  std::vector<std::string> names;
  for (const InputKind kind : all_inputs()) names.emplace_back(name(kind));
  return names;
}

/// The only list of options: parsing and --help both read it.
std::vector<Option> option_table(const Stage& stage) {
  using Text = const std::string&;
  return {
      {"--rows", "N,...", "rows of the matrix, 0 or more (default 49152, on the simulator 64)",
       [](Options& o, Text v) { o.rows = whole_numbers("--rows", v, 0); }},
      {"--cols", "N,...", "columns, 1 or more (default 1024)",
       [](Options& o, Text v) { o.cols = whole_numbers("--cols", v, 1); }},
      {"--dtype", "T,...", "f32 (default), f16, bf16 or all",
       [](Options& o, Text v) { o.dtypes = choices("--dtype", v, all_dtypes()); }},
      {"--op", "OP,...", operation_names(stage) + " or all (default " + stage.operations.front()->name + ")",
       [&stage](Options& o, Text v) { o.ops = choices("--op", v, stage.operations); }},
      {"--variant", "NAME,...", "only these variants; --list names them (default all)",
       [&stage](Options& o, Text v) { o.variants = choices("--variant", v, variant_names(stage)); }},
      {"--input", "KIND,...", "values to compute on (default normal), or all: " + join(input_names()),
       [](Options& o, Text v) { o.inputs = choices("--input", v, all_inputs()); }},
      {"--seed", "N", "seed of the input (default 1)",
       [](Options& o, Text v) {
         o.seed = static_cast<std::uint64_t>(whole_number("--seed", v, 0, largest_size));
       }},
      {"--repeats", "N", "timed samples of each variant, their median is shown (default 25)",
       [](Options& o, Text v) { o.repeats = static_cast<int>(whole_number("--repeats", v, 1, 100000)); }},
      {"--l2", "cold|warm", "cold (default): every launch finds its data outside the L2 cache",
       [](Options& o, Text v) {
         o.l2 = choice<L2>("--l2", v, {{"cold", L2::cold}, {"warm", L2::warm}});
       }},
      {"--offset", "N[,M]", "move inputs N elements off their alignment, outputs M or N, too (default 0)",
       [](Options& o, Text v) { o.offsets = parse_offsets(v); }},
      {"--verify-only", "", "check results, take no times", [](Options& o, Text) { o.verify_only = true; }},
      {"--profile", "", "one launch of one --variant between cudaProfilerStart and Stop, for ncu",
       [](Options& o, Text) { o.profile = true; }},
      {"--format", "table|csv|json", "how to print (default table)",
       [](Options& o, Text v) {
         o.format = choice<Format>("--format", v,
                                   {{"table", Format::table}, {"csv", Format::csv}, {"json", Format::json}});
       }},
      {"--section", "PART,...",
       "parts of a table or csv to print: heading, rows, ceiling (default: all three)",
       [](Options& o, Text v) { o.sections = parse_sections(v); }},
      {"--list", "", "name the variants", [](Options& o, Text) { o.list = true; }},
      {"--device", "gpu|sim", "run on the GPU, or on the CPU simulator (default: gpu, without one sim)",
       [](Options& o, Text v) {
         o.device = choice<RunOn>("--device", v, {{"gpu", RunOn::gpu}, {"sim", RunOn::sim}});
       }},
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
      std::vector<std::string> names;
      for (const Option& known : table) names.push_back(known.name);
      throw UsageError("unknown option '" + given + "'; accepted: " + join(names));
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
    throw UsageError("--profile is one launch: give one --variant (" + join(variant_names(stage)) +
                     "), shape, dtype, op and input");
  }
  return options;
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
