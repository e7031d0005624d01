#include "common/harness/counted.h"

#include "common/harness/simulator.h"
#include "common/sim/counter_sums.h"

namespace {

double ratio(double numerator, double denominator) {
  return denominator == 0 ? 0 : numerator / denominator;
}

}  // namespace

Counted count_launch(const Problem& problem, const std::function<void()>& launch) {
  const SimApi* sim = simulator();
  sim->begin();
  launch();
  sim->end();

  SimCounters total{};
  for (std::size_t i = 0; i < sim->launches(); ++i) total += sim->launch(i)->counters;

  const auto number = [](std::uint64_t count) { return static_cast<double>(count); };
  const auto elements = static_cast<double>(problem.shape.elements());
  Counted counted;
  counted.totals = total;
  counted.passes =
      ratio(number(total.global_loads.bytes + total.global_stores.bytes), number(problem.matrix_bytes()));
  counted.sectors_per_load_request =
      ratio(number(total.global_loads.sectors), number(total.global_loads.requests));
  counted.sectors_per_store_request =
      ratio(number(total.global_stores.sectors), number(total.global_stores.requests));
  counted.shared_wavefronts = total.shared_loads.wavefronts + total.shared_stores.wavefronts;
  counted.bank_conflicts = total.shared_loads.bank_conflicts + total.shared_stores.bank_conflicts;
  counted.shuffles = total.shuffles;
  counted.block_barriers = total.block_barriers;
  counted.special_functions_per_element = ratio(number(total.special_function_lanes), elements);
  return counted;
}
