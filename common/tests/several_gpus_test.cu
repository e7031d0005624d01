// Stage 15's exchange between two GPUs: many launches in a row, and a GPU that never sends. Needs two GPUs, or the simulator with
// SIM_DEVICES=2. The GPU's context is lost with the second test, which is therefore the last.
#include <cstdio>
#include <cstring>

#include "15_several_gpus/device_exchange.cuh"
#include "15_several_gpus/mail_windows.h"
#include "common/harness/device.h"
#include "common/harness/device_vector.h"
#include "common/harness/errors.h"
#include "common/harness/simulator.h"

namespace {

constexpr int gpus = 2;
/// The simulator keeps account of everything that was sent.
const std::int64_t rows = simulator() != nullptr ? 8 : 512;
constexpr std::int64_t cols = 1024;  // of a part

int failures = 0;
void expect(bool right, const char* what) {
  if (right) return;
  ++failures;
  std::printf("FAILED: %s\n", what);
}

/// Column c of row r, of any launch, on any GPU.
float element(std::int64_t row, std::int64_t col) {
  return static_cast<float>((row * 7919 + col * 104729) % 1009) / 100;
}

class TwoGpus {
 public:
  TwoGpus() {
    on_each(ranks_, [&](const Rank&, std::size_t i) {
      std::vector<float> x(rows * cols);
      for (std::int64_t at = 0; at < rows * cols; ++at) {
        x[at] = element(at / cols, at % cols + static_cast<std::int64_t>(i) * cols);
      }
      streams_.push_back(make_stream());
      x_.emplace_back(x);
      y_.emplace_back(rows * cols);
      counters_.emplace_back(std::vector<TicketCounter>{0});
      (void)DeviceExchange::clusters<Softmax, float>(cols);
    });
  }

  /// On the first `count` GPUs.
  void launch(std::size_t count) const {
    on_each(ranks_, [&](const Rank&, std::size_t i) {
      if (i >= count) return;
      const Part<float> part{.x = x_[i].data(),
                             .y = y_[i].data(),
                             .shape = {rows, cols},
                             .first_col = static_cast<std::int64_t>(i) * cols,
                             .row_cols = gpus * cols};
      DeviceExchange::launch<Softmax>(part, windows_.mail(i), counters_[i].data(), streams_[i].get());
    });
  }
  [[nodiscard]] Streams streams(std::size_t count) const {
    std::vector<cudaStream_t> streams;
    for (std::size_t i = 0; i < count; ++i) streams.push_back(streams_[i].get());
    return Streams(streams);
  }
  [[nodiscard]] std::vector<std::vector<float>> results() const {
    std::vector<std::vector<float>> all;
    for (const auto& y : y_) all.push_back(to_host(y));
    return all;
  }
  [[nodiscard]] std::string overdue() const { return windows_.overdue(); }

 private:
  std::vector<Rank> ranks_ = ranks_of_one_process(gpus);
  MailWindows windows_{ranks_, gpus, DeviceExchange::message_bytes<Softmax>(rows, gpus)};
  std::vector<Stream> streams_;
  std::vector<DeviceVector<float>> x_;
  std::vector<DeviceVector<float>> y_;
  std::vector<DeviceVector<TicketCounter>> counters_;
};

void test_many_launches(const TwoGpus& two, int launches) {
  two.launch(gpus);
  synchronize(two.streams(gpus));
  const auto first = two.results();
  for (int i = 0; i < launches; ++i) two.launch(gpus);
  synchronize(two.streams(gpus));
  expect(two.results() == first, "many launches in a row give what the first gave");
  double sum = 0;
  for (const auto& part : first) {
    for (std::int64_t col = 0; col < cols; ++col) sum += part[col];
  }
  expect(sum > 0.999 && sum < 1.001, "a row adds up to 1 over both parts");
}

void test_lost_peer(const TwoGpus& two, bool simulated) {
  std::string said;
  try {
    two.launch(1);
    synchronize(two.streams(1));
  } catch (const std::exception& error) {
    said = error.what();
  }
  std::printf("a GPU alone: %s; %s\n", said.c_str(), two.overdue().c_str());
  expect(!said.empty(), "a GPU that waits for one that does not send ends with an error");
  // The simulator finds that it waits for ever before its clock says so.
  if (!simulated) expect(two.overdue().find("of GPU 1") != std::string::npos, "which names the other one");
}

}  // namespace

int main() {
  const bool simulated = simulator() != nullptr;
  if (!gpu_is_present() || count_devices() < gpus) {
    std::printf("skipped: needs 2 GPUs\n");
    return static_cast<int>(ExitCode::no_device);
  }
  const TwoGpus two;
  test_many_launches(two, simulated ? 4 : 1000);
  test_lost_peer(two, simulated);
  std::printf(failures == 0 ? "all is right\n" : "%d failed\n", failures);
  std::fflush(stdout);
  std::_Exit(failures == 0 ? 0 : 1);  // on a context that is lost nothing can be freed
}
