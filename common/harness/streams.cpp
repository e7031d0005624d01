#include "common/harness/streams.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "common/harness/errors.h"
#include "common/harness/simulator.h"

namespace {

/// False: not done yet.
bool is_done(const Streams& streams, int device) {
  const cudaError_t state = cudaStreamQuery(streams[device]);
  if (state == cudaErrorNotReady) return false;
  if (state == cudaSuccess) return true;
  (void)cudaGetLastError();
  throw std::runtime_error("GPU " + std::to_string(device) + ": " + cudaGetErrorName(state) + " (" +
                           cudaGetErrorString(state) + ")");
}

}  // namespace

void synchronize(const Streams& streams) {
  if (streams.devices() == 1 ||
      simulator() != nullptr) {  // which itself reports a thread that waits for ever
    for (int device = 0; device < streams.devices(); ++device) {
      CUDA_CHECK(cudaStreamSynchronize(streams[device]));
    }
    return;
  }
  using std::chrono::steady_clock;
  const auto begin = steady_clock::now();
  const auto limit = std::chrono::seconds(most_seconds_together);
  for (;;) {
    std::string missing;
    for (int device = 0; device < streams.devices(); ++device) {
      if (!is_done(streams, device))
        missing += (missing.empty() ? "GPU " : ", GPU ") + std::to_string(device);
    }
    if (missing.empty()) return;
    if (steady_clock::now() - begin > limit) {
      std::fflush(stdout);
      std::fprintf(stderr, "%s not done after %d s: it waits for another one, or that one failed\n",
                   missing.c_str(), most_seconds_together);
      std::_Exit(static_cast<int>(ExitCode::cuda_error));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}
