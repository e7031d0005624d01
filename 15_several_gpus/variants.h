// Code of the host: the variants of stage 15, for the ranks of this process. main.cu has all ranks in one
// process, processes.cu has one rank per process.
#pragma once

#include "15_several_gpus/mail_windows.h"
#include "common/harness/launches.cuh"

using SplitOperations = OpList<Softmax, LogSoftmax, CrossEntropy>;

/// The ranks of this process, and their windows. Without ranks from the constructor, the first use makes one
/// of each GPU.
class AllGpus {
 public:
  AllGpus() = default;
  explicit AllGpus(std::vector<Rank> ranks) : ranks_(std::move(ranks)) {}

  /// Returns the ranks of this process. count: the number of ranks in all processes.
  const std::vector<Rank>& ranks(int count) {
    if (ranks_.empty()) ranks_ = ranks_of_one_process(count);
    return ranks_;
  }

  /// Windows with space for `bytes` bytes of messages per launch. Launches share them, so on each GPU one
  /// launch must follow the other.
  std::shared_ptr<MailWindows> windows(int count, std::size_t bytes) {
    if (!windows_ || windows_->bytes() < bytes) {
      windows_ = std::make_shared<MailWindows>(ranks(count), count, bytes);
    }
    return windows_;
  }

  /// Why a kernel has failed, if it waited too long for a message; otherwise "".
  [[nodiscard]] std::string why() const { return windows_ ? windows_->overdue() : ""; }

 private:
  std::vector<Rank> ranks_;
  std::shared_ptr<MailWindows> windows_;
};
using Gpus = std::shared_ptr<AllGpus>;

inline bool makes_loss(const Problem& problem) {
  return is_one_of(OpList<CrossEntropy>{}, problem.op);
}

/// The variants, in the order of the lesson.
std::vector<Variant> split_variants(const Gpus& gpus);
