// How kernels on several GPUs send each other messages, by NCCL's device API: each rank has a window of memory that the kernels
// of all ranks write to, over NVLink, by plain stores.
#pragma once

#include <nccl_device.h>

#include <cuda/atomic>

#include "14_several_gpus/part.cuh"
#include "common/kernel/block_merge.cuh"

/// Four bytes of a message with the number of the launch that they belong to. It is written and read in one piece, so that a word
/// of this launch says by itself that it has come: no flag, and no fence between data and flag.
using MailWord = unsigned long long;
template <class Op>
inline constexpr int words_of_message = sizeof(Message<Op>) / sizeof(float);

/// For the host: who has waited for whom in vain. In its memory, which outlives a kernel that has failed.
struct Overdue {
  int waiting = -1;
  int missing = -1;
  long long row = 0;
};

/// A message is overdue after so many cycles: about ten seconds.
inline constexpr long long most_cycles_to_wait = 20'000'000'000;

/// What a rank's kernel knows of the mail.
///
/// A window has a place for each row and sender, twice: for launches by turns. That is enough. A launch sends its first message
/// when the launch before has ended on its GPU, so when all ranks had sent all of theirs; and these had ended the one before
/// that, of which nobody reads any more.
struct Mail {
  ncclWindow_t window{};
  std::size_t bytes_of_turn = 0;
  unsigned* launch = nullptr;  ///< the number of this one; the kernel adds 1
  Overdue* overdue = nullptr;
  int rank = 0;
  int ranks = 1;

  template <class Op>
  __device__ MailWord* place(int at, std::int64_t row, int from, unsigned number) const {
    const std::size_t message = static_cast<std::size_t>(row * ranks + from) * words_of_message<Op>;
    return static_cast<MailWord*>(
        ncclGetLsaPointer(window, number % 2 * bytes_of_turn + message * sizeof(MailWord), at));
  }

  /// One word after the other: to ask for all of them at once was slower on two H200s.
  __device__ MailWord wait_for(MailWord* place, unsigned number, int from, std::int64_t row) const {
    const cuda::atomic_ref<MailWord, cuda::thread_scope_system> word(*place);
    const long long begin = clock64();
    for (;;) {
      const MailWord got = word.load(cuda::memory_order_relaxed);
      if (got >> 32 == number) return got;
      if (clock64() - begin > most_cycles_to_wait) fail(from, row);
    }
  }

  __device__ void fail(int missing, std::int64_t row) const {
    *overdue = {rank, missing, row};
    __threadfence_system();
    __trap();
  }
};

template <class Op>
__device__ Message<Op> merge_messages(Message<Op> a, const Message<Op>& b) {
  a.pair = merge(a.pair, b.pair);
  if constexpr (is_loss<Op>) a.x_label += b.x_label;
  return a;
}

/// Sends `own` to the same row of all ranks, if `sends`, and merges what all have sent, in the same order everywhere. A warp
/// calls it; lane i has rank i.
template <class Op>
__device__ Message<Op> exchange_messages(const Mail& mail, const Message<Op>& own, bool sends,
                                         std::int64_t row, unsigned number) {
  constexpr int words = words_of_message<Op>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto bits = reinterpret_cast<const unsigned*>(&own);
  for (int to = lane; sends && to < mail.ranks; to += 32) {
    MailWord* const place = mail.place<Op>(to, row, mail.rank, number);
    for (int i = 0; i < words; ++i) {
      const MailWord word = MailWord{number} << 32 | bits[i];
      cuda::atomic_ref<MailWord, cuda::thread_scope_system>(place[i]).store(word, cuda::memory_order_relaxed);
    }
  }
  Message<Op> total{};
  for (int from = lane; from < mail.ranks; from += 32) {
    MailWord* const place = mail.place<Op>(mail.rank, row, from, number);
    Message<Op> message{};
    for (int i = 0; i < words; ++i) {
      reinterpret_cast<unsigned*>(&message)[i] =
          static_cast<unsigned>(mail.wait_for(place + i, number, from, row));
    }
    total = merge_messages(total, message);
  }
  total.pair = warp_merge<Op>(total.pair);
  if constexpr (is_loss<Op>) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) total.x_label += shuffle_xor(total.x_label, mask);
  }
  return total;
}
