#include "common/exercise/counters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "common/harness/simulator.h"
#include "common/sim/counter_sums.h"

namespace {

using Number = std::uint64_t (*)(const SimCounters&, Shape);

/// A counter is the number of one thing for each of another.
struct Formula {
  const char* name;
  Number of;
  Number per;
};

constexpr Number zero = [](const SimCounters&, Shape) { return std::uint64_t{0}; };
constexpr Number elements = [](const SimCounters&, Shape s) {
  return static_cast<std::uint64_t>(s.elements());
};
constexpr Number bytes = [](const SimCounters& c, Shape s) { return sizeof(float) * elements(c, s); };
constexpr Number rows = [](const SimCounters&, Shape s) { return static_cast<std::uint64_t>(s.rows); };
constexpr Number loads = [](const SimCounters& c, Shape) { return c.global_loads.requests; };
constexpr Number stores = [](const SimCounters& c, Shape) { return c.global_stores.requests; };
constexpr Number loaded = [](const SimCounters& c, Shape) { return c.global_loads.bytes; };
constexpr Number stored = [](const SimCounters& c, Shape) { return c.global_stores.bytes; };
constexpr Number load_sectors = [](const SimCounters& c, Shape) { return c.global_loads.sectors; };
constexpr Number store_sectors = [](const SimCounters& c, Shape) { return c.global_stores.sectors; };
constexpr Number shared_accesses = [](const SimCounters& c, Shape) {
  return c.shared_loads.requests + c.shared_stores.requests;
};
constexpr Number bank_conflicts = [](const SimCounters& c, Shape) {
  return c.shared_loads.bank_conflicts + c.shared_stores.bank_conflicts;
};
constexpr Number barriers = [](const SimCounters& c, Shape) { return c.block_barriers; };
constexpr Number shuffles = [](const SimCounters& c, Shape) { return c.shuffles; };
constexpr Number exponentials = [](const SimCounters& c, Shape) { return c.exp2_lanes; };
constexpr Number instructions = [](const SimCounters& c, Shape) { return 32 * c.warp_instructions; };

/// In the order of Counter.
constexpr std::array<Formula, 13> formulas{{
    {"kernels", zero, rows},  // of a launcher, see Counts
    {"passes of reading", loaded, bytes},
    {"passes of writing", stored, bytes},
    {"bytes per load request of a warp", loaded, loads},
    {"bytes per store request of a warp", stored, stores},
    {"sectors per load request", load_sectors, loads},
    {"sectors per store request", store_sectors, stores},
    {"accesses to shared memory per row", shared_accesses, rows},
    {"bank conflicts per row", bank_conflicts, rows},
    {"barriers per row", barriers, rows},
    {"shuffles per row", shuffles, rows},
    {"exponentials per element", exponentials, elements},
    {"instructions of a warp per 32 elements", instructions, elements},
}};

const Formula& formula(Counter counter) {
  return formulas.at(static_cast<std::size_t>(counter));
}

double value(Counter counter, const SimCounters& counters, Shape shape) {
  const std::uint64_t per = formula(counter).per(counters, shape);
  return per == 0 ? 0 : static_cast<double>(formula(counter).of(counters, shape)) / static_cast<double>(per);
}

/// How much a line has to do with the counter: of few bytes per request the one with the most requests.
double weight(Counter counter, const SimCounters& counters, Shape shape) {
  const bool fewest = counter == Counter::load_bytes || counter == Counter::store_bytes;
  const Formula& of = formula(counter);
  return static_cast<double>((fewest ? of.per : of.of)(counters, shape));
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
  return formula(counter).name;
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
