// The shared code of the files of libnccl.so.2: a communicator, of which each rank has one, and the reports
// of mistakes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "common/sim/nccl/nccl.h"
#include "common/sim/runtime/collectives.h"

namespace nccl {

/// The simulator's libcudart.so. Ends the program where it is not there.
const sim::CollectivesApi& simulator();

struct Meeting;
/// Memory of each rank, at addresses that are a number of 4 GiB apart.
struct FlatMemory {
  std::uint64_t first = 0;  ///< of rank 0
  std::uint64_t stride = 0;
};

/// The shared state of the ranks.
struct Clique {
  std::mutex mutex;
  std::vector<ncclComm*> ranks;
  /// By sender and receiver, or -1 and -1, and the number of the operation among those.
  std::map<std::tuple<int, int, std::uint64_t>, std::shared_ptr<Meeting>> meetings;
  std::vector<FlatMemory> flat;  ///< in the order in which the ranks made it known
};

/// Says why, and gives the result.
ncclResult_t refuse(ncclResult_t result, const std::string& why);
std::string& last_error();
/// Whether the one thread that calls for all ranks would wait in the first call for the others: it would,
/// except in a group of calls.
bool would_wait_for_ever(int ranks);

class OnDevice {
 public:
  explicit OnDevice(int device) {
    (void)cudaGetDevice(&before_);
    (void)cudaSetDevice(device);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { (void)cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

}  // namespace nccl

struct ncclComm {
  std::shared_ptr<nccl::Clique> clique;
  int rank = 0;
  int device = 0;
  std::map<std::tuple<int, int>, std::uint64_t> met{};  ///< how many operations have begun
  std::size_t flat = 0;                                 ///< how much of its memory the others know
  struct Window {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
    struct ncclWindow_vidmem* window = nullptr;
  };
  std::vector<Window> windows{};

  [[nodiscard]] int size() const { return static_cast<int>(clique->ranks.size()); }
};
