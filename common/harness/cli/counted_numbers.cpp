#include "common/harness/cli/counted_numbers.h"

#include <stdexcept>
#include <string>

namespace {

double ratio(double numerator, double denominator) {
  return denominator == 0 ? 0 : numerator / denominator;
}

}  // namespace

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
  return {
      {"passes", ratio(bytes, count(problem.matrix_bytes())), 4},
      {"sectors_per_load_request", load_sectors, 3},
      {"sectors_per_store_request", store_sectors, 3},
      {"shared_wavefronts", count(shared_loads.wavefronts + shared_stores.wavefronts), 0},
      {"bank_conflicts", conflicts, 0},
      {"shuffles", count(counters.shuffles), 0},
      {"block_barriers", count(counters.block_barriers), 0},
      {"special_functions_per_element", ratio(special, elements), 4},
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

double counted_number(const SimCounters& counters, const Problem& problem, std::string_view field) {
  for (const CountedNumber& number : counted_numbers(counters, problem)) {
    if (number.field == field) return number.value;
  }
  throw std::logic_error("no counted number is called " + std::string(field));
}
