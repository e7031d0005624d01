// Finds two accesses of different threads of a block to the same bytes, at least one a write, with no barrier
// between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sim {

/// When and by whom: the time in the upper bits, the thread in the lower 11. Time goes on at each barrier.
using Stamp = std::uint32_t;
inline constexpr std::uint32_t stamp_thread_bits = 11;
inline constexpr Stamp stamp_thread_mask = (1U << stamp_thread_bits) - 1;
inline constexpr std::uint32_t latest_time = ~Stamp{0} >> stamp_thread_bits;

/// What orders the accesses of a thread after earlier ones.
struct RaceOrder {
  Stamp block_barrier = 0;  ///< stamps below are before the block's last barrier
  Stamp warp_barrier = 0;   ///< stamps below, of the same warp, are before its last bar.warp.sync
};

/// Who was last to read and to write, for each two bytes of a piece of memory. (So two threads may write
/// neighbouring __half values, but accesses of one byte are not watched.)
class RaceShadow {
 public:
  explicit RaceShadow(std::size_t bytes);

  static constexpr std::size_t grain = 2;

  /// Records an access of one thread, of `bytes` bytes from `first` on. Gives the stamp of an earlier access
  /// that it races with, or 0.
  Stamp read(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order);
  Stamp write(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order, bool& other_wrote);

  /// Records the accesses of 32 threads, thread t to `bytes` bytes at first + t * bytes, `now` being that of
  /// the first. False, and nothing recorded, when one of them needs a closer look.
  bool read_contiguous(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order);
  bool write_contiguous(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order);

  void clear();

 private:
  struct Free {
    void operator()(Stamp* stamps) const;
  };
  using Stamps = std::unique_ptr<Stamp[], Free>;  // NOLINT(modernize-avoid-c-arrays): from calloc
  static Stamps make_stamps(std::size_t count);

  /// Stamps of reads or of writes; neither may have been left there by another thread since the last barrier.
  bool record_contiguous(Stamp* stamps, std::size_t first, std::size_t bytes, Stamp now,
                         const RaceOrder& order);

  std::size_t count_;
  Stamps reads_;
  Stamps writes_;
};

/// "thread 5", "several threads"
struct StampedThread {
  bool one = false;  ///< false: several threads
  std::uint32_t thread = 0;
};
StampedThread thread_of(Stamp stamp);

}  // namespace sim
