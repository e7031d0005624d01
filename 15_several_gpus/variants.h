// The variants of stage 15, for the ranks of one process: all of them, or one.
#pragma once

#include "15_several_gpus/mail_windows.h"
#include "common/harness/launches.cuh"

using SplitOperations = OpList<Softmax, LogSoftmax, CrossEntropy>;

/// The ranks of this process: those it is given, or all GPUs, from the first use on.
class AllGpus {
 public:
  AllGpus() = default;
  explicit AllGpus(std::vector<Rank> ranks) : ranks_(std::move(ranks)) {}

  /// The ranks of this process, out of `count` in all processes.
  const std::vector<Rank>& ranks(int count) {
    if (ranks_.empty()) ranks_ = ranks_of_one_process(count);
    return ranks_;
  }

  /// Windows for `bytes` bytes of messages: launches that share them follow one another on each GPU.
  std::shared_ptr<MailWindows> windows(int count, std::size_t bytes) {
    if (!windows_ || windows_->bytes() < bytes) {
      windows_ = std::make_shared<MailWindows>(ranks(count), count, bytes);
    }
    return windows_;
  }

  /// The message that a failed kernel has left.
  [[nodiscard]] std::string why() const { return windows_ ? windows_->overdue() : ""; }

 private:
  std::vector<Rank> ranks_;
  std::shared_ptr<MailWindows> windows_;
};
using Gpus = std::shared_ptr<AllGpus>;

inline bool makes_loss(const Problem& problem) {
  return is_one_of(OpList<CrossEntropy>{}, problem.op);
}

/// In the order in which the lesson has them.
std::vector<Variant> split_variants(const Gpus& gpus);
