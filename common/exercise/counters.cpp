#include "common/exercise/counters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "common/harness/simulator.h"
#include "common/sim/counter_sums.h"

namespace {

/// The unit that a counter is divided by.
enum class Per { row, element, byte, load, store };

struct Formula {
  const char* name;
  std::uint64_t (*counted)(const SimCounters&);
  Per per;
};

/// In the order of Counter.
using C = const SimCounters&;
constexpr std::array<Formula, 14> formulas{{
    {"kernels", [](C) { return std::uint64_t{0}; }, Per::row},  // of a launcher, see Counts
    {"passes of reading", [](C c) { return c.global_loads.bytes; }, Per::byte},
    {"passes of writing", [](C c) { return c.global_stores.bytes; }, Per::byte},
    {"bytes per load request of a warp", [](C c) { return c.global_loads.bytes; }, Per::load},
    {"bytes per store request of a warp", [](C c) { return c.global_stores.bytes; }, Per::store},
    {"sectors per load request", [](C c) { return c.global_loads.sectors; }, Per::load},
    {"sectors per store request", [](C c) { return c.global_stores.sectors; }, Per::store},
    {"accesses to shared memory per row",
     [](C c) { return c.shared_loads.requests + c.shared_stores.requests; }, Per::row},
    {"bank conflicts per row",
     [](C c) { return c.shared_loads.bank_conflicts + c.shared_stores.bank_conflicts; }, Per::row},
    {"barriers per row", [](C c) { return c.block_barriers; }, Per::row},
    {"shuffles per row", [](C c) { return c.shuffles; }, Per::row},
    {"exponentials per element", [](C c) { return c.exp2_lanes; }, Per::element},
    {"instructions of a warp per 32 elements", [](C c) { return 32 * c.warp_instructions; }, Per::element},
    {"passes of reading by asynchronous copies", [](C c) { return c.async_copy_bytes; }, Per::byte},
}};

const Formula& formula(Counter counter) {
  return formulas.at(static_cast<std::size_t>(counter));
}

std::uint64_t units(Per per, const SimCounters& counters, Shape shape) {
  const auto elements = static_cast<std::uint64_t>(shape.elements());
  switch (per) {
    case Per::row:
      return static_cast<std::uint64_t>(shape.rows);
    case Per::element:
      return elements;
    case Per::byte:
      return sizeof(float) * elements;
    case Per::load:
      return counters.global_loads.requests;
    case Per::store:
      return counters.global_stores.requests;
  }
  return 0;
}

double value(Counter counter, const SimCounters& counters, Shape shape) {
  const std::uint64_t per = units(formula(counter).per, counters, shape);
  return per == 0 ? 0 : static_cast<double>(formula(counter).counted(counters)) / static_cast<double>(per);
}

/// How much a line has to do with the counter: of few bytes per request the one with the most requests.
double weight(Counter counter, const SimCounters& counters, Shape shape) {
  const bool fewest = counter == Counter::load_bytes || counter == Counter::store_bytes;
  const Formula& of = formula(counter);
  return static_cast<double>(fewest ? units(of.per, counters, shape) : of.counted(counters));
}

/// "void kernel<4>" -> "kernel"
std::string bare_name(std::string kernel) {
  kernel = kernel.substr(0, kernel.find('<'));
  const std::size_t space = kernel.rfind(' ');
  return space == std::string::npos ? kernel : kernel.substr(space + 1);
}

/// Of "file:line from file:line" the first that is not in a header of nvcc, whatever it was inlined into.
Counts::Line innermost(const SimLine& part) {
  const std::string separator = " from ";
  std::string places = part.place;
  const bool in_library = names_library(places);
  for (;;) {
    const std::size_t end = places.find(separator);
    const std::string place = places.substr(0, end);
    const std::size_t colon = place.rfind(':');
    if (colon == std::string::npos) return {"", 0, part.counters, in_library};
    const std::string file = place.substr(0, colon);
    if (end == std::string::npos || !is_header_of_nvcc(file)) {
      return {file, static_cast<unsigned>(std::stoul(place.substr(colon + 1))), part.counters, in_library};
    }
    places.erase(0, end + separator.size());
  }
}

}  // namespace

const char* name(Counter counter) {
  return formula(counter).name;
}

bool is_header_of_nvcc(const std::string& file) {
  return file.find("/include/") != std::string::npos && std::filesystem::path(file).extension() == ".hpp";
}

bool names_library(const std::string& text) {
  constexpr std::array<const char*, 8> parts{"cub::",
                                             "thrust::",
                                             "/cub/",
                                             "/thrust/",
                                             "cooperative_groups/details/reduce.h",
                                             "cooperative_groups/details/coalesced_reduce.h",
                                             "cooperative_groups/details/scan.h",
                                             "cooperative_groups/details/coalesced_scan.h"};
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
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
    counts.block_size = kernel.block[0] * kernel.block[1] * kernel.block[2];
    counts.total += kernel.counters;
    for (std::size_t j = 0; j < kernel.lines; ++j) {
      const Counts::Line line = innermost(*sim->line(i, j));
      const auto same =
          std::find_if(counts.lines.begin(), counts.lines.end(), [&](const Counts::Line& other) {
            return other.line == line.line && other.file == line.file && other.in_library == line.in_library;
          });
      if (same == counts.lines.end()) {
        counts.lines.push_back(line);
      } else {
        same->counters += line.counters;
      }
    }
  }
  return counts;
}
