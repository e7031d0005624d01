// Code of the host: the windows through which mailbox.cuh sends messages, on all GPUs of this process.
#pragma once

#include "15_several_gpus/mailbox.cuh"
#include "15_several_gpus/ranks.h"
#include "common/harness/cuda_handles.h"
#include "common/kernel/grid.cuh"

class MailWindows {
 public:
  /// All ranks, also those of other processes, must call it together with the same `bytes`: the size of all
  /// messages that a rank may receive in a launch. A window has twice that size, see Mail.
  MailWindows(const std::vector<Rank>& ranks, int world, std::size_t bytes)
      : ranks_(ranks), world_(world), bytes_(round_up(static_cast<std::int64_t>(bytes), 4096)) {
    CUDA_CHECK(cudaHostAlloc(&overdue_, sizeof(Overdue), cudaHostAllocPortable | cudaHostAllocMapped));
    *overdue_ = {};
    own_.resize(ranks.size());
    on_each(ranks, [&](const Rank&, std::size_t i) {
      check_nccl(ncclMemAlloc(&own_[i].memory, 2 * bytes_), "ncclMemAlloc");
      CUDA_CHECK(cudaMemset(own_[i].memory, 0, 2 * bytes_));
      own_[i].launch = allocate_device(sizeof(unsigned));
      const unsigned first = 1;  // 0 marks a message that has not been written yet
      CUDA_CHECK(cudaMemcpy(own_[i].launch.get(), &first, sizeof first, cudaMemcpyHostToDevice));
      CUDA_CHECK(cudaDeviceSynchronize());
    });
    as_group(ranks, [&](const Rank& rank, std::size_t i) {
      check_nccl(ncclCommWindowRegister(rank.comm.get(), own_[i].memory, 2 * bytes_, &own_[i].window,
                                        NCCL_WIN_COLL_SYMMETRIC),
                 "ncclCommWindowRegister");
    });
  }
  MailWindows(const MailWindows&) = delete;
  MailWindows& operator=(const MailWindows&) = delete;
  ~MailWindows() {
    for (std::size_t i = 0; i < own_.size(); ++i) {
      (void)cudaSetDevice(ranks_[i].device);
      (void)ncclCommWindowDeregister(ranks_[i].comm.get(), own_[i].window);
      (void)ncclMemFree(own_[i].memory);
    }
    (void)cudaSetDevice(0);
    (void)cudaFreeHost(overdue_);
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] Mail mail(std::size_t i) const {
    return {.window = own_[i].window,
            .bytes_of_launch = bytes_,
            .launch = static_cast<unsigned*>(own_[i].launch.get()),
            .overdue = overdue_,
            .rank = ranks_[i].number,
            .ranks = world_};
  }
  /// Returns a message that says which rank has waited in vain for which, or "".
  [[nodiscard]] std::string overdue() const {
    if (overdue_->waiting < 0) return "";
    return "GPU " + std::to_string(overdue_->waiting) + " has waited 10 s for row " +
           std::to_string(overdue_->row) + " of GPU " + std::to_string(overdue_->missing);
  }

 private:
  struct OfRank {
    void* memory = nullptr;
    ncclWindow_t window{};
    DeviceMemory launch{};
  };
  const std::vector<Rank>& ranks_;
  int world_;
  std::size_t bytes_;
  Overdue* overdue_ = nullptr;
  std::vector<OfRank> own_;
};
