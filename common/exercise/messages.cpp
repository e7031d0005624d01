#include "common/exercise/messages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace {

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

std::string padded_right(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

bool was_written(float value) {
  std::array<unsigned char, sizeof value> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  return std::any_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte != poison_byte; });
}

std::string short_number(double value, int digits = 5) {
  if (std::isnan(value)) return "nan";  // not "-nan", which says nothing more
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

/// What the results of a row tell together; "" where they add up to 1, or some are NaN.
std::string wrong_sum(const std::vector<float>& y) {
  const double sum = std::accumulate(y.begin(), y.end(), 0.0);
  if (!std::isfinite(sum) || std::fabs(sum - 1) < 0.005) return "";
  return " The results of this row add up to " + short_number(sum) + " instead of 1.";
}

/// Where the NaN is that a row must not lose; "" if it has none.
std::string place_of_nan(const std::vector<float>& x) {
  const auto nan = std::find_if(x.begin(), x.end(), [](float value) { return std::isnan(value); });
  return nan == x.end() ? "" : " The NaN of this row is in column " + std::to_string(nan - x.begin()) + ".";
}

const char* explain(InputKind input) {
  switch (input) {
    case InputKind::very_negative:
      return " (all around -200)";
    case InputKind::lowest:
      return " (all -1e30)";
    case InputKind::neg_inf_prefix:
      return " (the first half of each row is -inf, as a mask makes it)";
    case InputKind::all_neg_inf:
      return " (every second row is -inf and nothing else: NaN is right there)";
    case InputKind::one_nan:
      return " (every second row holds one NaN, and must become NaN)";
    case InputKind::one_outlier:
      return " (one element of each row is 60, the others are around 0)";
    case InputKind::ascending:
      return " (each element is larger than the one before)";
    default:
      return "";
  }
}

}  // namespace

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string wrong_element(const std::string& run, InputKind input, const Verdict& verdict, Element element,
                          const std::vector<float>& x, const std::vector<float>& y,
                          const ReferenceRow& reference) {
  const auto expected = [&](std::size_t col) { return reference.softmax(x[col]); };
  const auto got = [&](std::size_t col) {
    return was_written(y[col]) ? short_number(y[col]) : "not written";
  };
  const std::size_t begin = element.col < 2 ? 0 : element.col - 2;
  const std::size_t end = std::min(x.size(), begin + 6);

  const int width = 12;
  std::string columns = padded("column", width);
  std::string inputs = padded("x", width);
  std::string wanted = padded("expected", width);
  std::string found = padded("got", width);
  for (std::size_t col = begin; col < end; ++col) {
    columns += padded((col == element.col ? "> " : "") + std::to_string(col), width);
    inputs += padded(short_number(x[col]), width);
    wanted += padded(short_number(expected(col)), width);
    found += padded(got(col), width);
  }
  return "Wrong result: row " + std::to_string(element.row) + ", column " + std::to_string(element.col) +
         " of " + run + explain(input) + ":\n  got " + got(element.col) + ", expected " +
         short_number(expected(element.col)) + "; " +
         verdict.explanation.substr(0, verdict.explanation.find(';')) + "." +
         (std::isnan(expected(element.col)) ? place_of_nan(x) : wrong_sum(y)) + "\n\n" + columns + "\n" +
         inputs + "\n" + wanted + "\n" + found;
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

std::string source_lines(const std::vector<Counts::Line>& lines, const std::vector<std::string>& notes) {
  std::string all;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string place = short_path(lines[i].file) + ":" + std::to_string(lines[i].line);
    const std::string note = notes[i].empty() ? "" : "  " + notes[i];
    all.append("  ").append(place).append(note).append("\n    | ");
    all.append(text_of_line(lines[i].file, lines[i].line)).append("\n");
  }
  return all;
}

std::string broken_rule(Counter counter, double least, double most, const Counts& counts) {
  const double counted = counts[counter];
  std::string counted_text = number(counted);
  if (counted_text == number(counted < least ? least : most)) counted_text = short_number(counted, 9);
  const std::string bound = least == most ? number(least) + (least == 1 ? " is" : " are") + " expected"
                            : counted < least
                                ? "at least " + number(least) + (least == 1 ? " is" : " are") + " expected"
                                : "at most " + number(most) + (most == 1 ? " is" : " are") + " expected";
  std::string text = "The result is right, the technique is not yet there: " + counted_text + " " +
                     name(counter) + ", where " + bound + " (counted at " +
                     std::to_string(counts.shape.rows) + " x " + std::to_string(counts.shape.cols) + ").\n";
  // Of what there is too little, no line has too much: only a ratio can be blamed on one.
  const bool ratio = counter == Counter::load_bytes || counter == Counter::store_bytes ||
                     counter == Counter::load_sectors || counter == Counter::store_sectors;
  if (counted < least && !ratio) return text;
  std::vector<Counts::Line> lines;
  std::vector<std::string> notes;
  for (const Counts::Line& line : counts.worst_lines(counter, 8)) {
    const double part = counts.of_line(counter, line);
    if (lines.size() == 3 || (ratio && part >= least && part <= most)) continue;
    lines.push_back(line);
    notes.push_back(number(part) + " " + name(counter));
  }
  text += source_lines(lines, notes);
  return text;
}

std::string comparison(const std::vector<Counter>& counters, const std::string& before_name,
                       const std::optional<Counts>& before, const Counts& after) {
  constexpr int width = 12;
  constexpr std::size_t name_width = 44;
  const int before_width = std::max(width, static_cast<int>(before_name.size()) + 2);
  std::string text =
      padded_right("", name_width) + padded(before_name, before_width) + padded("yours", width) + "\n";
  for (const Counter counter : counters) {
    text += "  " + padded_right(name(counter), name_width - 2) +
            padded(before ? number((*before)[counter]) : "stopped", before_width) +
            padded(number(after[counter]), width) + "\n";
  }
  return text;
}
