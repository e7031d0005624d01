// Finds two accesses to the same bytes by different threads of one launch, at least one of them a write, that nothing
// orders: no barrier of the block, no __syncwarp, and between blocks (or within one) no release that was acquired.
//
// Time goes on at every barrier and whenever another block gets its turn, so that a time also says which block it was.
//
// With several devices, kernels and copies may be under way together. They share one order, and everything
// that its stream and the host had waited for comes before a kernel.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/sim/ptx/program.h"

namespace sim {

struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
  [[nodiscard]] std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

/// When and by whom: the time in the upper bits, then whether the access was strong, then the thread of its block.
using Stamp = std::uint32_t;
inline constexpr std::uint32_t stamp_time_shift = 12;
inline constexpr Stamp stamp_strong = 1U << 11;
inline constexpr Stamp stamp_thread_mask = stamp_strong - 1;

/// One for each scope.
using Stamps4 = std::array<Stamp, num_scopes>;

/// The knowledge that a release passes on: which accesses of one block come before it, and the block's own
/// knowledge. A release passes knowledge on within its scope, and a fence before it within the
/// fence's.
struct Knowledge {
  std::uint64_t block = 0;
  std::uint32_t warp = 0;  ///< the warp that released
  Stamps4 of_block{};      ///< accesses of all threads of the block below this are known so far away,
  Stamps4 of_warp{};       ///< and accesses of that warp below this; 0: nothing is
  std::vector<std::uint32_t> earlier;  ///< the block's other knowledge; indices

  /// Accesses of all threads of the block below this are known everywhere.
  static Knowledge until(std::uint64_t block, Stamp barrier, std::vector<std::uint32_t> earlier);
  [[nodiscard]] bool reaches(Scope distance) const {
    return of_warp.at(static_cast<std::size_t>(distance)) != 0;
  }
};
/// In an index of knowledge, above these bits: how far away it was acquired.
inline constexpr unsigned knowledge_bits = 30;
constexpr std::uint32_t acquired_over(Scope distance, std::uint32_t knowledge) {
  return knowledge | static_cast<std::uint32_t>(distance) << knowledge_bits;
}

/// How the blocks of a grid lie in clusters.
struct Grid {
  Dim3 blocks{0, 0, 0};
  Dim3 cluster;
  [[nodiscard]] Dim3 index_of(std::uint64_t block) const;
  [[nodiscard]] bool same_cluster(std::uint64_t a, std::uint64_t b) const;
};

/// The progress of each stream: the number of kernels and copies that it has done. Also the knowledge that
/// these kernels had acquired from others that were still running.
class Clock {
 public:
  void join(const Clock& other);
  /// An index of knowledge in its LaunchOrder, which is of no use once that has forgotten it.
  void learn(std::uint64_t generation, std::uint32_t knowledge);
  [[nodiscard]] const std::vector<std::uint32_t>& knowledge(std::uint64_t generation) const;
  std::uint64_t advance(std::uint32_t stream) { return ++done_[stream]; }
  [[nodiscard]] bool knows(std::uint32_t stream, std::uint64_t number) const {
    const auto found = done_.find(stream);
    return found != done_.end() && found->second >= number;
  }

 private:
  std::map<std::uint32_t, std::uint64_t> done_;
  std::uint64_t generation_ = 0;
  std::vector<std::uint32_t> knowledge_;
};

/// A kernel or a copy on one of several devices.
struct DeviceWork {
  std::string what;  ///< for people: the kernel's name, or "cudaMemcpyAsync"
  unsigned device = 0;
  std::uint32_t stream = 0;
  std::uint64_t number = 0;  ///< in its stream, from 1
  Clock before;              ///< the work that it knows to have been done before it began
  Grid grid{};               ///< of a copy: without blocks
  Stamp begin = 0;
};

/// The order of one launch, or of the work of several devices: which block had its turn when, and which
/// knowledge was released. `Stamp`s of earlier launches are ordered.
class LaunchOrder {
 public:
  /// Forgets everything.
  void clear();
  void begin_turn(std::uint64_t block, Stamp now) { turns_.push_back({now, block}); }
  [[nodiscard]] std::uint64_t block_at(Stamp stamp) const;
  /// The grid of a launch on the only device.
  void set_grid(const Grid& grid) { grid_ = grid; }
  /// The least scope that reaches from one block to the other.
  [[nodiscard]] Scope distance(std::uint64_t a, std::uint64_t b) const;

  // ---- With several devices: blocks are numbered within their work, whose own number is in the upper bits
  static constexpr unsigned block_bits = 28;
  /// Gives the number of its first block.
  std::uint64_t begin_work(DeviceWork work);
  /// The work is ordered after all stamps below this.
  [[nodiscard]] Stamp begin_of(const DeviceWork& work, Stamp now) const;
  [[nodiscard]] bool has_several_devices() const { return !works_.empty(); }
  [[nodiscard]] const DeviceWork& work_of(std::uint64_t block) const { return works_[block >> block_bits]; }
  [[nodiscard]] bool same_work(std::uint64_t a, std::uint64_t b) const {
    return works_.empty() || a >> block_bits == b >> block_bits;
  }
  /// Goes on when knowledge is forgotten.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  /// Whether the clock covers all work.
  [[nodiscard]] bool is_known(const Clock& clock) const;
  /// The text about a race between two of them.
  static constexpr const char* not_ordered =
      ", and nothing orders the two (an event, the host that waits, or a release and an acquire of system "
      "scope do)";
  static constexpr const char* not_of_system_scope =
      "; one of the two is not of system scope (as atomicAdd_system and cuda::thread_scope_system are)";
  static constexpr const char* too_narrow =
      "; an atomic, a fence, a release or an acquire between blocks is of block or cluster scope, which does "
      "not reach so far (__threadfence, atomicAdd and cuda::thread_scope_device do)";
  /// "block (3, 0, 0) of softmax on device 1"
  [[nodiscard]] std::string describe(std::uint64_t block) const;
  /// Time has begun anew: the turns are forgotten, the work that is under way is not.
  void forget_turns(Stamp now);
  /// A strong access that some threads need not see.
  struct Narrow {
    Stamp at = 0;
    Scope scope = Scope::system;
  };
  /// The last of them at a place (see key()).
  void set_narrow(std::uint64_t place, const Narrow& access) { narrow_[place] = access; }
  [[nodiscard]] Narrow narrow_at(std::uint64_t place) const;
  [[nodiscard]] bool has_narrow() const { return !narrow_.empty(); }
  /// Something was released or acquired with a scope that did not reach the other block.
  bool fell_short = false;

  /// A write that releases replaces the knowledge that its address released before. (An atomic has acquired that, and passes it
  /// on.) The arrival at a barrier adds to it.
  static constexpr std::uint64_t no_block =
      ~std::uint64_t{0};  ///< block_at() of a stamp of an earlier launch
  std::uint32_t add(Knowledge known);
  void release(std::uint64_t address, std::uint32_t known) { released_[address] = known; }
  void add_release(std::uint64_t address, std::uint32_t known, Scope distance);
  void forget_release(std::uint64_t address) { released_.erase(address); }
  /// The index of the knowledge released at the address; `none` if there is none.
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  [[nodiscard]] std::uint32_t acquire(std::uint64_t address) const;
  /// The phase of a barrier is complete: a thread that waits for it acquires the knowledge released until
  /// now, and no more.
  void complete_phase(std::uint64_t address) { completed_[address] = acquire(address); }
  [[nodiscard]] std::uint32_t of_phase(std::uint64_t address) const;
  [[nodiscard]] const Knowledge& known(std::uint32_t index) const { return knowledge_[index]; }

 private:
  struct Turn {
    Stamp begin = 0;
    std::uint64_t block = 0;
  };
  std::vector<Turn> turns_;
  std::vector<DeviceWork> works_;
  std::uint64_t generation_ = 0;
  Grid grid_;
  std::unordered_map<std::uint64_t, Narrow> narrow_;
  std::vector<Knowledge> knowledge_;
  std::unordered_map<std::uint64_t, std::uint32_t> released_;   // by address
  std::unordered_map<std::uint64_t, std::uint32_t> completed_;  // of barriers in shared memory
};

/// The knowledge that a block or a warp has acquired, and everything that follows from it, which is computed
/// at the first query. A warp's is in addition to its block's: the block's knowledge is not searched again.
class Acquired {
 public:
  void add(std::uint32_t knowledge);
  void add(const Acquired& other);
  [[nodiscard]] const std::vector<std::uint32_t>& list() const { return list_; }
  void clear();
  /// By knowledge that has everything that was acquired.
  void replace(std::uint32_t knowledge);

  class OfBlock {
   public:
    /// Accesses of the warp, or of none, below it are known.
    [[nodiscard]] Stamp until(std::uint32_t warp) const {
      return std::max(block_barrier_, warps_[place(warp)]);
    }
    void add(Stamp block_barrier, std::uint32_t warp, Stamp of_warp) {
      block_barrier_ = std::max(block_barrier_, block_barrier);
      warps_[place(warp)] = std::max(warps_[place(warp)], of_warp);
    }

   private:
    static constexpr std::uint32_t most_warps = 32;
    static std::size_t place(std::uint32_t warp) { return std::min(warp, most_warps); }
    Stamp block_barrier_ = 0;
    std::array<Stamp, most_warps + 1> warps_{};  // the last: of no warp
  };
  /// Null: nothing is known of that block.
  [[nodiscard]] const OfBlock* of(std::uint64_t block, const LaunchOrder& order,
                                  const Acquired* beside = nullptr) const;
  /// Whether the releasing blocks had waited for this work.
  [[nodiscard]] bool knows(const DeviceWork& work, const LaunchOrder& order,
                           const Acquired* beside = nullptr) const;

 private:
  void find_out(const LaunchOrder& order, const Acquired* beside) const;
  std::vector<std::uint32_t> list_;
  mutable std::unordered_map<std::uint64_t, OfBlock> blocks_;
  mutable Clock works_;
  mutable std::unordered_set<std::uint32_t> seen_;  ///< the indices of knowledge that blocks_ contains
  mutable std::size_t found_out_ = 0;               ///< how much of the list is in blocks_
};

/// Everything that orders an access after earlier ones.
struct RaceOrder {
  const LaunchOrder* launch = nullptr;
  std::uint64_t block = 0;
  std::uint32_t warps = 0;  ///< of a block
  Stamp begin = 0;  ///< of the launch; for shared memory, of the block: stamps below belong to earlier users
  Stamp turn_begin = 0;     ///< stamps from here on are of this block
  Stamp block_barrier = 0;  ///< this block's stamps below are before its last barrier
  Stamp warp_barrier = 0;   ///< stamps below, of the same warp, are before its last bar.warp.sync
  const Acquired* acquired_by_block = nullptr;
  const Acquired* acquired_by_warp = nullptr;
  bool first_turn = false;       ///< of this block: any other stamps of the launch belong to other blocks
  Scope scope = Scope::system;   ///< of this access, if it is strong
  LaunchOrder::Narrow narrow{};  ///< of its place

  /// Whether only barriers order anything, so that the stamps suffice.
  [[nodiscard]] bool is_plain() const {
    return first_turn && acquired_by_block->list().empty() && acquired_by_warp->list().empty();
  }
};

/// A RaceOrder that is_plain(), for accesses that are not strong: all without branches, so that runs of neighbouring threads
/// are looked at by vector instructions.
class PlainOrder {
 public:
  explicit PlainOrder(const RaceOrder& order)
      : begin_(order.begin),
        turn_begin_(order.turn_begin),
        block_barrier_(order.block_barrier),
        warp_barrier_(order.warp_barrier) {}

  [[nodiscard]] bool is_over(Stamp earlier) const { return earlier < begin_; }
  [[nodiscard]] bool orders(Stamp earlier, Stamp now) const;
  /// The stamp of the readers after another read.
  [[nodiscard]] Stamp with_reader(Stamp earlier, Stamp now) const;

 private:
  [[nodiscard]] bool by_barrier(Stamp earlier, Stamp now) const;

  Stamp begin_;
  Stamp turn_begin_;
  Stamp block_barrier_;
  Stamp warp_barrier_;
};

/// The last reader and the last writer of each grain of a piece of memory. A grain has the size of the
/// smallest access so far, so that two threads may write neighbouring values.
class RaceShadow {
 public:
  explicit RaceShadow(std::size_t bytes) : bytes_(bytes) {}

  /// Records an access of one thread, of `bytes` bytes from `first` on. Gives the stamp of an earlier access that it
  /// races with, or 0.
  Stamp read(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order);
  Stamp write(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order, bool& other_wrote);

  /// Records the plain accesses of `count` threads, thread t to `bytes` bytes at first + t * bytes, `now` being that of
  /// the first. False, and nothing recorded, when one of them races.
  bool read_run(std::size_t first, std::size_t bytes, std::uint32_t count, Stamp now,
                const PlainOrder& order);
  bool write_run(std::size_t first, std::size_t bytes, std::uint32_t count, Stamp now,
                 const PlainOrder& order);

  /// The plain accesses of some of 32 neighbouring threads, thread t to `bytes` bytes at addresses[t] - begin, `now` being
  /// that of thread 0. Gives those that are left, beginning with the first that races, of which nothing is recorded.
  std::uint32_t read_each(std::uint32_t threads, const std::uint64_t* addresses, std::uint64_t begin,
                          std::size_t bytes, Stamp now, const PlainOrder& order);
  std::uint32_t write_each(std::uint32_t threads, const std::uint64_t* addresses, std::uint64_t begin,
                           std::size_t bytes, Stamp now, const PlainOrder& order);

  void clear();

  /// The stamp of an access by another block that nothing orders before now, or 0.
  [[nodiscard]] Stamp find_other(const RaceOrder& order) const;
  /// Writes that nothing in between can have met.
  void land(std::size_t first, std::size_t bytes, Stamp now);
  /// An access that is not recorded.
  [[nodiscard]] bool races_with_write(std::size_t byte, Stamp now, const RaceOrder& order) const;
  /// The stamp of the last write to this byte.
  [[nodiscard]] Stamp last_write(std::size_t byte) const {
    return writes_ ? writes_[byte >> log2_grain_] : 0;
  }

  // ---- Of blocks that ran at the same time, each with a shadow of its own

  /// Among the accesses of two, since a moment each, to the bytes from `first` to `end`, are there two to one byte, one of
  /// them a write?
  static bool meet(RaceShadow& a, Stamp a_since, RaceShadow& b, Stamp b_since, std::size_t first,
                   std::size_t end);
  /// Takes over accesses, as if they were of that moment.
  void take_over(RaceShadow& from, Stamp now, std::size_t first, std::size_t end);
  /// Calls function(first byte, bytes) for the pieces that were written, among those from `first` to `end`.
  template <class Function>
  void for_each_written(std::size_t first, std::size_t end, Function function) const;

 private:
  struct Free {
    void operator()(Stamp* stamps) const;
  };
  using Stamps = std::unique_ptr<Stamp[], Free>;  // NOLINT(modernize-avoid-c-arrays): from calloc
  static Stamps make_stamps(std::size_t count);
  [[nodiscard]] std::size_t count() const { return writes_ ? (bytes_ >> log2_grain_) + 1 : 0; }
  static void make_grains_the_same(RaceShadow& a, RaceShadow& b);
  template <class Record>
  std::uint32_t record_each(std::uint32_t threads, const std::uint64_t* addresses, std::uint64_t begin,
                            std::size_t bytes, Stamp now, Record record);
  /// Makes the grains fine enough for an access.
  void fit(std::size_t first, std::size_t bytes);
  void refine(unsigned log2);

  static constexpr unsigned log2_largest_grain = 4;
  std::size_t bytes_;
  unsigned log2_grain_ = log2_largest_grain;
  Stamps reads_;  // null, as the other, before the first access
  Stamps writes_;
  Stamp latest_write_ = 0;
};

template <class Function>
void RaceShadow::for_each_written(std::size_t first, std::size_t end, Function function) const {
  if (!writes_) return;
  const std::size_t stop = ((end - 1) >> log2_grain_) + 1;
  for (std::size_t i = first >> log2_grain_; i < stop; ++i) {
    const std::size_t begin = i;
    while (i < stop && writes_[i] != 0) ++i;
    if (i > begin) function(begin << log2_grain_, (i - begin) << log2_grain_);
  }
}

/// The thread of its block that an access was by, or which several.
struct StampedThread {
  bool one = false;
  bool several_blocks = false;
  std::uint32_t thread = 0;
};
StampedThread thread_of(Stamp stamp);

}  // namespace sim
