// How kernels on several GPUs send each other messages, by NCCL's device API: each rank has a window of memory that the kernels
// of all ranks write to, over NVLink, by plain stores.
#pragma once

#include <nccl_device.h>

#include <cuda/std/bit>

#include "15_several_gpus/part.cuh"
#include "common/kernel/block_merge.cuh"

/// In one piece: cuda::atomic_ref does that with 8 bytes at most.
template <class Op>
__device__ Letter<Op> read_letter(const Letter<Op>* from) {
  ulonglong2 halves;
  asm volatile("{ .reg .b128 both; ld.relaxed.sys.b128 both, [%2]; mov.b128 {%0, %1}, both; }"
               : "=l"(halves.x), "=l"(halves.y)
               : "l"(from)
               : "memory");
  return cuda::std::bit_cast<Letter<Op>>(halves);
}

template <class Op>
__device__ void write_letter(Letter<Op>* to, const Letter<Op>& letter) {
  const auto halves = cuda::std::bit_cast<ulonglong2>(letter);
  asm volatile("{ .reg .b128 both; mov.b128 both, {%1, %2}; st.relaxed.sys.b128 [%0], both; }" ::"l"(to),
               "l"(halves.x), "l"(halves.y)
               : "memory");
}

/// For the host: which rank has waited in vain for which. It is in host memory, which outlives a kernel that
/// has failed.
struct Overdue {
  int waiting = -1;
  int missing = -1;
  long long row = 0;
};

/// The cycles after which a message is overdue: about ten seconds.
inline constexpr long long most_cycles_to_wait = 20'000'000'000;

/// The messages of all ranks, as the kernel of one rank sees them.
///
/// A window has two places per row and sender, which launches use alternately. Two are enough. A launch sends its
/// first message after the previous launch has ended on its GPU, which means that all ranks had sent all their
/// messages of that launch; and so they had ended the launch before it, whose messages are not read any more.
struct Mail {
  ncclWindow_t window{};
  std::size_t bytes_of_turn = 0;
  unsigned* launch = nullptr;  ///< the number of this one; the kernel adds 1
  Overdue* overdue = nullptr;
  int rank = 0;
  int ranks = 1;

  template <class Op>
  __device__ Letter<Op>* place(int at, std::int64_t row, int from, unsigned number) const {
    const std::size_t letter = static_cast<std::size_t>(row * ranks + from);
    return static_cast<Letter<Op>*>(
        ncclGetLsaPointer(window, number % 2 * bytes_of_turn + letter * sizeof(Letter<Op>), at));
  }

  template <class Op>
  __device__ Message<Op> wait_for(int from, std::int64_t row, unsigned number) const {
    const Letter<Op>* const letter = place<Op>(rank, row, from, number);
    const long long begin = clock64();
    for (;;) {
      const Letter<Op> got = read_letter(letter);
      if (got.launch == number) return got.message;
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

/// Sends `own` to the same row of all other ranks, if `sends`, and merges the messages of all ranks, in the
/// same order everywhere. A warp calls it; lane i has rank i.
template <class Op>
__device__ Message<Op> exchange_messages(const Mail& mail, const Message<Op>& own, bool sends,
                                         std::int64_t row, unsigned number) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int to = lane; sends && to < mail.ranks; to += 32) {
    if (to != mail.rank) write_letter(mail.place<Op>(to, row, mail.rank, number), {own, number});
  }
  Message<Op> total{};
  for (int from = lane; from < mail.ranks; from += 32) {
    total = merge_messages(total, from == mail.rank ? own : mail.wait_for<Op>(from, row, number));
  }
  total.pair = warp_merge<Op>(total.pair);
  if constexpr (is_loss<Op>) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) total.x_label += shuffle_xor(total.x_label, mask);
  }
  return total;
}
