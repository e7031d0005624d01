// The GPUs that work together. NCCL calls each of them a rank. One process may drive all ranks, or each rank
// may have its own process.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/harness/streams.h"

/// Throws if a call of NCCL has failed. The message names the call and the reason.
inline void check_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(result) + " (" +
                           ncclGetLastError(nullptr) + ")");
}

struct CommDestroyer {
  // ncclCommDestroy would wait for the enqueued work, possibly for ever.
  void operator()(ncclComm_t comm) const { (void)ncclCommAbort(comm); }
};
using Comm = std::unique_ptr<std::remove_pointer_t<ncclComm_t>, CommDestroyer>;

/// A rank that this process drives.
struct Rank {
  int number = 0;  ///< its number among the ranks of all processes
  int device = 0;
  Comm comm{};
};

/// Calls use(rank, i) for each rank of this process, with the rank's GPU as the current device.
template <class Use>
void on_each(const std::vector<Rank>& ranks, Use use) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const CurrentDevice current(ranks[i].device);
    use(ranks[i], i);
  }
}

/// Calls `use` for each rank, as one group of NCCL calls: no call waits for another rank before all calls
/// have been made. Without a group, the first call could wait for ever.
template <class Use>
void as_group(const std::vector<Rank>& ranks, Use use) {
  check_nccl(ncclGroupStart(), "ncclGroupStart");
  on_each(ranks, use);
  check_nccl(ncclGroupEnd(), "ncclGroupEnd");
}

/// The GPUs 0 to count - 1, as ranks with the same numbers.
inline std::vector<Rank> ranks_of_one_process(int count) {
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(count));
  check_nccl(ncclCommInitAll(comms.data(), count, nullptr), "ncclCommInitAll");
  std::vector<Rank> ranks;
  for (int number = 0; number < count; ++number) {
    ranks.push_back({number, number, Comm(comms[static_cast<std::size_t>(number)])});
  }
  return ranks;
}
