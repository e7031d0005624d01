#include "common/harness/cli/waiting.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string_view>
#include <utility>

namespace {

using std::chrono::seconds;

void tell(const std::stop_token& stop, const std::string& what) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  seconds elapsed{2};
  const auto ends_within = [&](seconds time) {
    return stopped.wait_for(lock, stop, time, [&stop] { return stop.stop_requested(); });
  };
  if (ends_within(elapsed)) return;
  do {
    std::cerr << "\r\033[K" << what << ": running for " << elapsed.count() << " s" << std::flush;
  } while (++elapsed, !ends_within(seconds{1}));
  std::cerr << "\r\033[K" << std::flush;
}

}  // namespace

Waiting::Waiting(std::string what) {
  const char* terminal = std::getenv("TERM");
  if (isatty(STDERR_FILENO) == 0 || terminal == nullptr || std::string_view(terminal) == "dumb") return;
  clock_.emplace([what = std::move(what)](const std::stop_token& stop) { tell(stop, what); });
}
