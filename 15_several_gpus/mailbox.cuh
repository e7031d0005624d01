// How kernels on several GPUs send each other messages. NCCL calls a GPU a rank. With NCCL's device API, each
// rank has a window: memory that the kernels of all ranks can write to, over NVLink, by plain stores.
//
// The idea is in exchange_messages() and Mail::wait_for(); the rest can wait. A kernel writes its message into
// the windows of all other ranks, and polls its own window for theirs, as stage 07's blocks poll their slots.
// Polling reads the GPU's own memory; only the stores cross the link.
#pragma once

#include <nccl_device.h>

#include <cuda/std/bit>

#include "15_several_gpus/part.cuh"
#include "common/kernel/block_merge.cuh"

/// Reads a letter in one piece. cuda::atomic_ref does that with at most 8 bytes, so this is PTX: a load of
/// 128 bits (b128) with the scope of the whole system (sys), because another GPU writes them. It is relaxed:
/// no other data has to be visible with it.
template <class Op>
__device__ Letter<Op> read_letter(const Letter<Op>* from) {
  ulonglong2 halves;
  asm volatile("{ .reg .b128 both; ld.relaxed.sys.b128 both, [%2]; mov.b128 {%0, %1}, both; }"
               : "=l"(halves.x), "=l"(halves.y)
               : "l"(from)
               : "memory");
  return cuda::std::bit_cast<Letter<Op>>(halves);
}

/// Writes a letter in one piece.
template <class Op>
__device__ void write_letter(Letter<Op>* to, const Letter<Op>& letter) {
  const auto halves = cuda::std::bit_cast<ulonglong2>(letter);
  asm volatile("{ .reg .b128 both; mov.b128 both, {%1, %2}; st.relaxed.sys.b128 [%0], both; }" ::"l"(to),
               "l"(halves.x), "l"(halves.y)
               : "memory");
}

/// Which rank has waited in vain for which, for the host's error message. It is in host memory: after a
/// kernel has failed, the host can no longer read the GPU's.
struct Overdue {
  int waiting = -1;
  int missing = -1;
  long long row = 0;
};

/// The cycles after which a message is overdue: about ten seconds.
inline constexpr long long most_cycles_to_wait = 20'000'000'000;

/// The windows of all ranks, as the kernel of one rank sees them.
///
/// A window has two places per row and sender. Launches with an odd number use one, those with an even number
/// the other.
///
/// Skip this at a first reading: why are two places enough? Say that a rank begins launch 5, and overwrites
/// messages of launch 3. Its launch 4 has ended, so it has received messages of launch 4 from all ranks. They
/// sent these after their launch 3 had ended, so no rank still reads messages of launch 3.
struct Mail {
  ncclWindow_t window{};
  std::size_t bytes_of_launch = 0;  ///< the size of the places of one launch, half of the window
  unsigned* launch = nullptr;       ///< the number of this launch; the kernel adds 1 for the next one
  Overdue* overdue = nullptr;
  int rank = 0;  ///< the rank of this kernel
  int ranks = 1;

  /// The place of a letter about a row, from rank `from`, in the window of rank `at`. number: of the launch.
  template <class Op>
  __device__ Letter<Op>* place(int at, std::int64_t row, int from, unsigned number) const {
    const std::size_t letter = static_cast<std::size_t>(row * ranks + from);
    // The address of another rank's window, as this kernel sees it. LSA: load/store accessible.
    return static_cast<Letter<Op>*>(
        ncclGetLsaPointer(window, number % 2 * bytes_of_launch + letter * sizeof(Letter<Op>), at));
  }

  /// Waits until the message of another rank about the row is in this rank's window.
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

  /// Ends the kernel with an error. The host then reads `overdue`.
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

/// Sends `own`, this rank's message about a row, to all other ranks (only if `sends`), waits for theirs, and
/// returns all of them merged. A whole warp calls it: lane i writes to rank i and waits for the message of
/// rank i. (With more than 32 ranks, it also does so for rank i + 32, and so on.) A rank's own message is
/// merged in the place of that rank. So all ranks merge in the same order and get the same bits.
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
