#include "common/harness/timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace {

using std::chrono::milliseconds;

/// Logs the actions of the timing. A launch takes 3 µs and a copy 2 µs, or as a test says.
class FakeDevice : public TimedDevice {
 public:
  Run prepare(const std::function<void(const Streams&)>& enqueue, bool capturable) override {
    log += capturable ? "graph " : "plain ";
    return [enqueue] { enqueue(nullptr); };
  }
  double microseconds(const Run& run) override {
    const double before = device_us_;
    log += "[";
    run();
    log += "] ";
    return device_us_ - before;
  }
  void flush_l2() override { log += "flush "; }
  void forget_persisting_l2() override { log += "forget "; }
  SmClock clock_during(const Run& run) override {
    log += "clock ";
    microseconds(run);
    return {1200, 1980};
  }
  /// Goes on at each look, so that no wait lasts for ever.
  std::chrono::nanoseconds now() override {
    ++device_us_;
    return std::chrono::nanoseconds(static_cast<std::int64_t>(1e3 * device_us_));
  }

  TimedWork work(std::size_t sets, std::size_t bytes_per_set) {
    return {.sets = sets,
            .bytes_per_set = bytes_per_set,
            .launch = [this](std::size_t set, const Streams& /*streams*/) { enqueue("v", set, launch_us); },
            .copy = [this](std::size_t set, const Streams& /*streams*/) { enqueue("c", set, copy_us); }};
  }

  double launch_us = 3;
  double copy_us = 2;
  std::string log;

 private:
  void enqueue(const char* what, std::size_t set, double us) {
    log += what + std::to_string(set);
    device_us_ += us;
  }
  double device_us_ = 0;
};

Sampling samples(int repeats) {
  return {.repeats = repeats, .warm_up = milliseconds(0)};
}

TEST(Timer, TakesCopyAndVariantInTurnAndFlushesTheL2BeforeEachSample) {
  FakeDevice device;
  time_in_turn(device, device.work(3, 300), samples(2), L2::cold);
  EXPECT_EQ(device.log,
            "forget graph graph "
            "flush [c0c1c2] flush [v0v1v2] "  // not counted
            "flush [c0c1c2] flush [v0v1v2] flush [c0c1c2] flush [v0v1v2] "
            "clock [c0c1c2] flush [v0v1v2] ");
}

TEST(Timer, SetsThatExceedTheL2AreFlushedAndLaunchedOnOnceLikeAnyOther) {
  FakeDevice device;
  time_in_turn(device, device.work(2, std::size_t{1} << 29U), samples(1), L2::cold);
  const std::string pair = "flush [c0c1] flush [v0v1] ";
  EXPECT_EQ(device.log, "forget graph graph " + pair + pair + "clock [c0c1] flush [v0v1] ");
}

TEST(Timer, WarmIsNeverFlushed) {
  FakeDevice device;
  time_in_turn(device, device.work(1, 4), samples(5), L2::warm);
  EXPECT_EQ(device.log.find("flush"), std::string::npos) << device.log;
}

TEST(Timer, GivesTheTimeOfOneLaunchWhateverTheSets) {
  for (const std::size_t sets : {1, 2, 5, 7, 32}) {
    for (const std::size_t bytes :
         {std::size_t{4}, std::size_t{1000}, std::size_t{1} << 29U, std::size_t{1} << 31U}) {
      for (const L2 l2 : {L2::cold, L2::warm}) {
        FakeDevice device;
        const TimedVariant timed = time_in_turn(device, device.work(sets, bytes), samples(3), l2);
        EXPECT_DOUBLE_EQ(timed.variant.median_us, 3) << sets << " sets of " << bytes;
        EXPECT_DOUBLE_EQ(timed.copy.median_us, 2) << sets << " sets of " << bytes;
      }
    }
  }
}

TEST(Timer, LargeSamplesAreNotRepeatedForTheirLength) {
  FakeDevice device;
  time_in_turn(device, device.work(1, std::size_t{1} << 29U), samples(1), L2::warm);
  EXPECT_EQ(device.log, "forget graph graph [c0c0] [v0v0] [c0c0] [v0v0] clock [c0c0] [v0v0] ");
}

TEST(Timer, WhatCannotBeCapturedIsLaunchedPlainly) {
  FakeDevice device;
  TimedWork work = device.work(2, 4);
  work.capturable = false;
  time_in_turn(device, work, samples(1), L2::cold);
  EXPECT_EQ(device.log.find("forget graph plain "), 0U) << device.log;
}

TEST(Timer, WarmsUpWithCopiesForAsLongAsAsked) {
  FakeDevice device;
  Sampling sampling = samples(1);
  sampling.warm_up = milliseconds(1);
  device.copy_us = 250;
  time_in_turn(device, device.work(1, 4), sampling, L2::cold);
  const std::string copy = "flush [c0] ";
  const std::string launch = "flush [v0] ";
  EXPECT_EQ(device.log, "forget graph graph " + copy + copy + copy + copy + launch + copy + launch +
                            "clock [c0] " + launch);
}

TEST(Timer, SlowWorkGetsFewerSamplesButNotTooFew) {
  FakeDevice device;
  device.launch_us = 30'000;
  Sampling sampling = samples(25);
  sampling.limit = milliseconds(200);
  time_in_turn(device, device.work(1, 4), sampling, L2::warm);
  const auto runs = std::count(device.log.begin(), device.log.end(), 'v');
  EXPECT_EQ(runs, 32 * (1 + Sampling::least_samples + 1)) << "the first and the last are not counted";

  const Sampling unlimited{25};
  EXPECT_TRUE(wants_another_sample(unlimited, 24, milliseconds(60'000)));
  EXPECT_FALSE(wants_another_sample(unlimited, 25, milliseconds(0)));
  const Sampling limited{25, milliseconds(0), milliseconds(200)};
  EXPECT_TRUE(wants_another_sample(limited, 24, milliseconds(199)));
  EXPECT_FALSE(wants_another_sample(limited, 5, milliseconds(200)));
  EXPECT_TRUE(wants_another_sample(limited, 4, milliseconds(60'000)));
  const Sampling trial{3, milliseconds(0), milliseconds(200)};
  EXPECT_FALSE(wants_another_sample(trial, 3, milliseconds(0)));
}

TEST(Timer, MedianAndQuartileSpread) {
  const Timing timing = summarize({5, 1, 4, 2, 3});
  EXPECT_DOUBLE_EQ(timing.median_us, 3);
  EXPECT_DOUBLE_EQ(timing.spread_percent, 100. * (4 - 2) / 3);
  EXPECT_DOUBLE_EQ(summarize({1, 2}).median_us, 1.5);
}

TEST(Timer, ABufferSetForEachColdLaunchOfASample) {
  const std::size_t mebibyte = std::size_t{1} << 20U;
  EXPECT_EQ(buffer_sets_for(0, L2::cold), 32U);
  EXPECT_EQ(buffer_sets_for(mebibyte, L2::cold), 32U);
  EXPECT_EQ(buffer_sets_for(128 * mebibyte, L2::cold), 8U);
  EXPECT_EQ(buffer_sets_for(1024 * mebibyte, L2::cold), 2U);
  EXPECT_EQ(buffer_sets_for(mebibyte, L2::warm), 1U);
}

TEST(Timer, EachNumberHasItsNameInJson) {
  const JsonMembers wanted{{"time_us", "1"},
                           {"spread_percent", "2"},
                           {"copy_us", "3"},
                           {"copy_spread_percent", "4"},
                           {"note", R"("throttled: SM clock 1200 of 1980 MHz")"}};
  EXPECT_EQ(json_members({{1, 2}, {3, 4}, {1200, 1980}}), wanted);
}

TEST(Timer, SaysWhatSpeaksAgainstItsNumbers) {
  const auto doubts_of = [](double spread, double copy_spread, SmClock clock) {
    return doubts({{10, spread}, {8, copy_spread}, clock});
  };
  EXPECT_EQ(doubts_of(0.3, 0.2, {1900, 1980}), "");
  EXPECT_EQ(doubts_of(4.9, 4.9, {1490, 1980}), "");
  EXPECT_EQ(doubts_of(0.3, 0.2, {}), "") << "the clock is not known";
  EXPECT_EQ(doubts_of(0.3, 0.2, {1200, 1980}), "throttled: SM clock 1200 of 1980 MHz");
  EXPECT_EQ(doubts_of(12, 0.2, {1980, 1980}), "did not settle: spread 12 %");
  EXPECT_EQ(doubts_of(1, 7, {1980, 1980}), "did not settle: the copy's spread 7 %");
  EXPECT_EQ(doubts_of(12, 7, {1400, 1980}),
            "throttled: SM clock 1400 of 1980 MHz; did not settle: spread 12 %");

  FakeDevice device;
  const TimedVariant timed = time_in_turn(device, device.work(1, 4), samples(3), L2::cold);
  EXPECT_EQ(doubts(timed), "throttled: SM clock 1200 of 1980 MHz");
}

}  // namespace
