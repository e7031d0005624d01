#include "common/exercise/counters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "common/harness/simulator.h"
#include "common/sim/counter_sums.h"

namespace {

double ratio(std::uint64_t numerator, std::uint64_t denominator) {
  return denominator == 0 ? 0 : static_cast<double>(numerator) / static_cast<double>(denominator);
}

double value(Counter counter, const SimCounters& counters, Shape shape) {
  const auto elements = static_cast<std::uint64_t>(shape.elements());
  const auto rows = static_cast<std::uint64_t>(shape.rows);
  const SimAccesses& loads = counters.global_loads;
  const SimAccesses& stores = counters.global_stores;
  switch (counter) {
    case Counter::kernels:
      return 0;
    case Counter::read_passes:
      return ratio(loads.bytes, sizeof(float) * elements);
    case Counter::written_passes:
      return ratio(stores.bytes, sizeof(float) * elements);
    case Counter::load_bytes:
      return ratio(loads.bytes, loads.requests);
    case Counter::store_bytes:
      return ratio(stores.bytes, stores.requests);
    case Counter::load_sectors:
      return ratio(loads.sectors, loads.requests);
    case Counter::store_sectors:
      return ratio(stores.sectors, stores.requests);
    case Counter::shared_accesses:
      return ratio(counters.shared_loads.requests + counters.shared_stores.requests, rows);
    case Counter::bank_conflicts:
      return ratio(counters.shared_loads.bank_conflicts + counters.shared_stores.bank_conflicts, rows);
    case Counter::barriers:
      return ratio(counters.block_barriers, rows);
    case Counter::shuffles:
      return ratio(counters.shuffles, rows);
    case Counter::exponentials:
      return ratio(counters.exp2_lanes, elements);
    case Counter::instructions:
      return ratio(32 * counters.warp_instructions, elements);
  }
  return 0;
}

/// How much a line has to do with the counter: for a ratio, how often the line makes it.
double weight(Counter counter, const SimCounters& counters, Shape shape) {
  switch (counter) {
    case Counter::load_bytes:
      return static_cast<double>(counters.global_loads.requests);
    case Counter::store_bytes:
      return static_cast<double>(counters.global_stores.requests);
    case Counter::load_sectors:
      return static_cast<double>(counters.global_loads.sectors);
    case Counter::store_sectors:
      return static_cast<double>(counters.global_stores.sectors);
    default:
      return value(counter, counters, shape);
  }
}

/// "void kernel<4>" -> "kernel"
std::string bare_name(std::string kernel) {
  kernel = kernel.substr(0, kernel.find('<'));
  const std::size_t space = kernel.rfind(' ');
  return space == std::string::npos ? kernel : kernel.substr(space + 1);
}

/// Of "file:line from file:line" the first that is not in a header of nvcc: the line itself, whatever calls
/// it was inlined through.
Counts::Line innermost(const SimLine& part) {
  const std::string separator = " from ";
  std::string places = part.place;
  for (;;) {
    const std::size_t end = places.find(separator);
    const std::string place = places.substr(0, end);
    const std::size_t colon = place.rfind(':');
    if (colon == std::string::npos) return {"", 0, part.counters};
    const std::string file = place.substr(0, colon);
    if (end == std::string::npos || !is_header_of_nvcc(file)) {
      return {file, static_cast<unsigned>(std::stoul(place.substr(colon + 1))), part.counters};
    }
    places.erase(0, end + separator.size());
  }
}

}  // namespace

const char* name(Counter counter) {
  switch (counter) {
    case Counter::kernels:
      return "kernels";
    case Counter::read_passes:
      return "passes of reading";
    case Counter::written_passes:
      return "passes of writing";
    case Counter::load_bytes:
      return "bytes per load request of a warp";
    case Counter::store_bytes:
      return "bytes per store request of a warp";
    case Counter::load_sectors:
      return "sectors per load request";
    case Counter::store_sectors:
      return "sectors per store request";
    case Counter::shared_accesses:
      return "accesses to shared memory per row";
    case Counter::bank_conflicts:
      return "bank conflicts per row";
    case Counter::barriers:
      return "barriers per row";
    case Counter::shuffles:
      return "shuffles per row";
    case Counter::exponentials:
      return "exponentials per element";
    case Counter::instructions:
      return "instructions of a warp per 32 elements";
  }
  return "?";
}

bool is_header_of_nvcc(const std::string& file) {
  return file.find("/include/") != std::string::npos && std::filesystem::path(file).extension() == ".hpp";
}

std::string number(double value) {
  std::array<char, 32> text{};
  const bool whole = std::fabs(value - std::round(value)) < 0.005;
  std::snprintf(text.data(), text.size(), "%.*f", whole ? 0 : 2, value);
  return text.data();
}

double Counts::operator[](Counter counter) const {
  return counter == Counter::kernels ? static_cast<double>(kernels.size()) : value(counter, total, shape);
}

double Counts::of_line(Counter counter, const Line& line) const {
  return value(counter, line.counters, shape);
}

std::vector<Counts::Line> Counts::worst_lines(Counter counter, std::size_t most) const {
  std::vector<Line> worst;
  for (const Line& line : lines) {
    if (weight(counter, line.counters, shape) > 0) worst.push_back(line);
  }
  std::stable_sort(worst.begin(), worst.end(), [&](const Line& a, const Line& b) {
    return weight(counter, a.counters, shape) > weight(counter, b.counters, shape);
  });
  const auto counts_little = [&](const Line& line) {
    return weight(counter, line.counters, shape) < 0.02 * weight(counter, worst.front().counters, shape);
  };
  worst.erase(std::find_if(worst.begin(), worst.end(), counts_little), worst.end());
  worst.resize(std::min(worst.size(), most));
  return worst;
}

Counts count(Shape shape, const std::function<void()>& launch) {
  const SimApi* sim = simulator();
  sim->begin();
  launch();
  sim->end();

  Counts counts;
  counts.shape = shape;
  for (std::size_t i = 0; i < sim->launches(); ++i) {
    const SimLaunch& kernel = *sim->launch(i);
    counts.kernels.push_back(bare_name(kernel.kernel));
    counts.total += kernel.counters;
    for (std::size_t j = 0; j < kernel.lines; ++j) {
      const Counts::Line line = innermost(*sim->line(i, j));
      const auto same = std::find_if(
          counts.lines.begin(), counts.lines.end(),
          [&](const Counts::Line& other) { return other.line == line.line && other.file == line.file; });
      if (same == counts.lines.end()) {
        counts.lines.push_back(line);
      } else {
        same->counters += line.counters;
      }
    }
  }
  return counts;
}
