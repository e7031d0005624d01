// The counters of an exercise are all that the simulator counted, added up. The counts come from this
// file: each counter of each launch and line has a value of its own.
#include "common/exercise/counters.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace {

constexpr std::size_t num_counters = sizeof(SimCounters) / sizeof(std::uint64_t);
using Numbers = std::array<std::uint64_t, num_counters>;

/// first, first + step, first + 2 step ...
SimCounters counters(std::uint64_t first, std::uint64_t step) {
  Numbers numbers{};
  for (std::size_t i = 0; i < num_counters; ++i) numbers.at(i) = first + i * step;
  SimCounters all{};
  static_assert(sizeof all == sizeof numbers);
  std::memcpy(&all, numbers.data(), sizeof all);
  return all;
}

Numbers numbers(const SimCounters& all) {
  Numbers numbers{};
  std::memcpy(numbers.data(), &all, sizeof all);
  return numbers;
}

// Two launches of one kernel, and in each the same line, inlined through two calls.
const std::array<SimLaunch, 2> launches{{{"kernel<4>", {1, 1, 1}, {32, 1, 1}, 0, counters(100, 1), 2},
                                         {"kernel<4>", {1, 1, 1}, {32, 1, 1}, 0, counters(1000, 7), 2}}};
const std::array<SimLine, 2> lines{
    {{"a.cu:3 from a.cu:9", counters(10, 3)}, {"a.cu:3 from a.cu:8", counters(20, 5)}}};

const SimApi fake_simulator{
    .version = SIM_API_VERSION,
    .device = "a list of numbers",
    .begin = [] {},
    .end = [] {},
    .launches = [] { return launches.size(); },
    .launch = [](std::size_t index) { return &launches.at(index); },
    .line = [](std::size_t /*launch*/, std::size_t index) { return &lines.at(index); },
    .forget = nullptr,
    .faults = nullptr,
    .last_fault = nullptr};

TEST(Counters, EveryCounterOfEveryLaunchAndLineIsAddedUp) {
  const Counts counts = count({1, 32}, [] {});
  EXPECT_EQ(counts.kernels, (std::vector<std::string>{"kernel", "kernel"}));
  EXPECT_EQ(numbers(counts.total), numbers(counters(100 + 1000, 1 + 7)));
  ASSERT_EQ(counts.lines.size(), 1U);
  EXPECT_EQ(numbers(counts.lines[0].counters), numbers(counters(60, 16)));
}

}  // namespace

extern "C" const SimApi* simulator_api() {
  return &fake_simulator;
}
