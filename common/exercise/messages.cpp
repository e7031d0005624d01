#include "common/exercise/messages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

namespace {

constexpr int cell_width = 12;

std::string short_path(const std::string& path) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string() + "/";
  return !error && path.rfind(here, 0) == 0 ? path.substr(here.size()) : path;
}

/// The text of a line without its indentation; "" where the file cannot be read.
std::string text_of_line(const std::string& file, unsigned line) {
  std::ifstream in(file);
  std::string text;
  for (unsigned i = 0; i < line; ++i) {
    if (!std::getline(in, text)) return "";
  }
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first);
}

std::string padded(const std::string& text, int width) {
  const int missing = width - static_cast<int>(text.size());
  return std::string(static_cast<std::size_t>(std::max(missing, 0)), ' ') + text;
}

/// "3 passes of reading", and "1 pass of reading".
std::string counted_in(const std::string& count, Counter counter) {
  std::string unit = name(counter);
  if (count == "1") {
    const std::size_t end = std::min({unit.find(" of "), unit.find(" per "), unit.find(" to "), unit.size()});
    const std::size_t ending = unit.compare(end - 4, 4, "sses") == 0 ? 2 : 1;
    unit.erase(end - ending, ending);
  }
  return std::string(count).append(" ").append(unit);
}

std::string short_number(double value, int digits = 5) {
  if (std::isnan(value)) return "nan";  // not "-nan", which says nothing more
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

/// A remark on the sum of a row's results; "" if they add up to 1, or some are NaN.
std::string wrong_sum(const std::vector<float>& y) {
  const double sum = std::accumulate(y.begin(), y.end(), 0.0);
  if (!std::isfinite(sum) || std::fabs(sum - 1) < 0.005) return "";
  return " The results of this row add up to " + short_number(sum) + " instead of 1.";
}

/// The place of the NaN that a row must not lose; "" if it has none.
std::string place_of_nan(const std::vector<float>& x) {
  const auto nan = std::find_if(x.begin(), x.end(), [](float value) { return std::isnan(value); });
  return nan == x.end() ? "" : " The NaN of this row is in column " + std::to_string(nan - x.begin()) + ".";
}

/// A description of an input; "" if its name is enough.
std::string explain(InputKind input) {
  static const std::map<InputKind, std::string> notes{
      {InputKind::very_negative, "all around -200"},
      {InputKind::lowest, "all -1e30"},
      {InputKind::large_magnitude, "from about -4000 to 4000"},
      {InputKind::neg_inf_prefix, "the first half of each row is -inf, as a mask makes it"},
      {InputKind::all_neg_inf, "every second row is -inf and nothing else: NaN is right there"},
      {InputKind::one_nan, "every second row holds one NaN, and must become NaN"},
      {InputKind::near_one_hot, "one element of each row has nearly all of the softmax"},
      {InputKind::one_outlier, "one element of each row is 60, the others are around 0"},
      {InputKind::ascending, "each element is larger than the one before"}};
  const auto note = notes.find(input);
  return note == notes.end() ? "" : std::string(" (").append(note->second).append(")");
}

}  // namespace

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string wrong_element(const std::string& run, InputKind input, const Verdict& verdict,
                          const std::vector<float>& x, const std::vector<float>& y,
                          const ReferenceRow& reference) {
  const std::size_t row = static_cast<std::size_t>(verdict.first_wrong) / x.size();
  const std::size_t wrong_col = static_cast<std::size_t>(verdict.first_wrong) % x.size();
  const auto expected = [&](std::size_t col) { return reference.softmax(x[col]); };
  const auto got = [&](std::size_t col) { return is_poison(y[col]) ? "not written" : short_number(y[col]); };
  const std::size_t begin = wrong_col < 2 ? 0 : wrong_col - 2;
  const std::size_t end = std::min(x.size(), begin + 6);

  const auto line = [&](const std::string& title, const auto& cell) {
    std::string text = padded(title, cell_width);
    for (std::size_t col = begin; col < end; ++col) text += padded(cell(col), cell_width);
    return text;
  };
  return "Wrong result: row " + std::to_string(row) + ", column " + std::to_string(wrong_col) + " of " + run +
         explain(input) + ":\n  got " + got(wrong_col) + ", expected " + short_number(expected(wrong_col)) +
         "; " + verdict.explanation.substr(0, verdict.explanation.find(';')) + "." +
         (std::isnan(expected(wrong_col)) ? place_of_nan(x) : wrong_sum(y)) + "\n\n" +
         line("column",
              [&](auto col) { return std::string(col == wrong_col ? "> " : "") + std::to_string(col); }) +
         "\n" + line("x", [&](auto col) { return short_number(x[col]); }) + "\n" +
         line("expected", [&](auto col) { return short_number(expected(col)); }) + "\n" + line("got", got);
}

std::string with_source_line(std::string report) {
  const std::string at = "\n    at ";
  const std::string caller = "\n    called from ";
  const std::size_t begin = report.find(at);
  if (begin == std::string::npos) return report;
  const std::size_t place = begin + at.size();
  std::size_t end = 0;
  std::size_t colon = 0;
  for (;;) {
    end = std::min(report.find('\n', place), report.size());
    colon = report.rfind(':', end);
    if (report.compare(end, caller.size(), caller) != 0) break;
    if (!is_header_of_nvcc(report.substr(place, colon - place))) break;
    report.erase(place, end + caller.size() - place);
  }
  const std::string text = text_of_line(report.substr(place, colon - place),
                                        static_cast<unsigned>(std::atoi(report.c_str() + colon + 1)));
  return text.empty() ? report : report.substr(0, end) + "\n       | " + text + report.substr(end);
}

std::string source_line(const Counts::Line& line, const std::string& note) {
  std::string text = "  ";
  text.append(short_path(line.file)).append(":").append(std::to_string(line.line)).append(note);
  return text.append("\n    | ").append(text_of_line(line.file, line.line)).append("\n");
}

std::string broken_rule(Counter counter, double least, double most, const Counts& counts) {
  const double counted = counts[counter];
  const double bound = counted < least ? least : most;
  std::string counted_text = number(counted);
  if (counted_text == number(bound)) counted_text = short_number(counted, 9);
  const std::string expected = (least == most     ? ""
                                : counted < least ? "at least "
                                                  : "at most ") +
                               number(bound) + (bound == 1 ? " is" : " are") + " expected";
  std::string text =
      "The result is right, the technique is not yet there: " + counted_in(counted_text, counter) +
      ", where " + expected + " (counted at " + std::to_string(counts.shape.rows) + " x " +
      std::to_string(counts.shape.cols) + ").\n";
  // If a count is too low, no line is to blame: only a ratio can be blamed on one line.
  const bool ratio = counter == Counter::load_bytes || counter == Counter::store_bytes ||
                     counter == Counter::load_sectors || counter == Counter::store_sectors;
  if (counted < least && !ratio) return text;
  int shown = 0;
  for (const Counts::Line& line : counts.worst_lines(counter, 8)) {
    const double part = counts.of_line(counter, line);
    if (shown == 3 || (ratio && part >= least && part <= most)) continue;
    text += source_line(line, "  " + counted_in(number(part), counter));
    ++shown;
  }
  return text;
}

std::string comparison(const std::vector<Counter>& counters, const std::string& before_name,
                       const std::optional<Counts>& before, const Counts& after) {
  const int before_width = std::max(cell_width, static_cast<int>(before_name.size()) + 2);
  const auto row = [&](std::string title, const std::string& old_cell, const std::string& new_cell) {
    title.resize(44, ' ');
    return title + padded(old_cell, before_width) + padded(new_cell, cell_width) + "\n";
  };
  std::string text = row("", before_name, "yours");
  for (const Counter counter : counters) {
    text += row(std::string("  ") + name(counter), before ? number((*before)[counter]) : "stopped",
                number(after[counter]));
  }
  return text;
}
