// Finds two accesses to the same bytes by different threads of one launch, at least one of them a write, that nothing
// orders: no barrier of the block, no __syncwarp, and between blocks (or within one) no release that was acquired.
//
// Time goes on at every barrier and whenever another block gets its turn, so that a time also says which block it was.
//
// With several devices, kernels and copies may be under way together. They share one order, and what comes before a kernel
// is what its stream and the host had waited for.
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

namespace sim {

/// When and by whom: the time in the upper bits, then whether the access was strong, then the thread of its block.
using Stamp = std::uint32_t;
inline constexpr std::uint32_t stamp_time_shift = 12;
inline constexpr Stamp stamp_strong = 1U << 11;
inline constexpr Stamp stamp_thread_mask = stamp_strong - 1;

/// What a release makes known: of one block, which of its accesses come before; and what that block knew itself.
struct Knowledge {
  std::uint64_t block = 0;
  Stamp block_barrier = 0;             ///< accesses of all its threads below this
  std::uint32_t warp = 0;              ///< of the warp that released ...
  Stamp warp_time = 0;                 ///< ... accesses below this
  std::vector<std::uint32_t> earlier;  ///< of what else it knew; indices
  Stamp system_time = 0;  ///< what other devices know of that warp, below this; 0: nothing of the block
};
/// In an index of knowledge: acquired from another device.
inline constexpr std::uint32_t from_another_device = std::uint32_t{1} << 31;

/// How far each stream had come: the number of kernels and copies that it has done. And what these kernels had acquired from
/// others that were under way.
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
  Clock before;              ///< what had been done when it began, as far as it can know
  std::uint32_t grid_x = 0;  ///< 0: it has no blocks
  std::uint32_t grid_y = 0;
  Stamp begin = 0;
};

/// Of one launch, or of the work of several devices: which block had its turn when, and what was released. `Stamp`s of
/// earlier launches are ordered.
class LaunchOrder {
 public:
  /// Forgets everything.
  void clear();
  void begin_turn(std::uint64_t block, Stamp now) { turns_.push_back({now, block}); }
  [[nodiscard]] std::uint64_t block_at(Stamp stamp) const;

  // ---- Of several devices: blocks are numbered within their work, whose own number stands in the upper bits
  static constexpr unsigned block_bits = 28;
  /// Gives the number of its first block.
  std::uint64_t begin_work(DeviceWork work);
  /// What is older than this came before the work.
  [[nodiscard]] Stamp begin_of(const DeviceWork& work, Stamp now) const;
  [[nodiscard]] bool has_several_devices() const { return !works_.empty(); }
  [[nodiscard]] const DeviceWork& work_of(std::uint64_t block) const { return works_[block >> block_bits]; }
  [[nodiscard]] bool same_device(std::uint64_t a, std::uint64_t b) const {
    return works_.empty() || work_of(a).device == work_of(b).device;
  }
  [[nodiscard]] bool same_work(std::uint64_t a, std::uint64_t b) const {
    return works_.empty() || a >> block_bits == b >> block_bits;
  }
  /// Goes on when knowledge is forgotten.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  /// Whoever knows this knows that all work has been done.
  [[nodiscard]] bool is_known(const Clock& clock) const;
  /// How a race between two of them is said.
  static constexpr const char* not_ordered =
      ", and nothing orders the two (an event, the host that waits, or a release and an acquire of system "
      "scope do)";
  static constexpr const char* not_of_system_scope =
      "; one of the two is not of system scope (as atomicAdd_system and cuda::thread_scope_system are)";
  /// "block (3, 0, 0) of softmax on device 1"
  [[nodiscard]] std::string describe(std::uint64_t block) const;
  /// Time has begun anew: the turns are forgotten, the work that is under way is not.
  void forget_turns(Stamp now);
  /// The last atomic or volatile access to an address of narrower scope than the system, which other devices need not see.
  void set_narrow(std::uint64_t address, Stamp at) { narrow_[address] = at; }
  [[nodiscard]] Stamp narrow_at(std::uint64_t address) const;

  /// A write that releases replaces what its address released before, an atomic adds to it.
  static constexpr std::uint64_t no_block = ~std::uint64_t{0};  ///< block_at() what an earlier launch did
  std::uint32_t add(Knowledge known);
  std::uint32_t release(std::uint64_t address, Knowledge known, bool adds);
  /// What was added before is released there, too.
  void release(std::uint64_t address, std::uint32_t known);
  void forget_release(std::uint64_t address) { released_.erase(address); }
  /// Of what was released at the address; none: nothing.
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  [[nodiscard]] std::uint32_t acquire(std::uint64_t address) const;
  /// The phase of a barrier is complete: who waits for it learns what was released until now, and no more.
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
  std::unordered_map<std::uint64_t, Stamp> narrow_;
  std::vector<Knowledge> knowledge_;
  std::unordered_map<std::uint64_t, std::uint32_t> released_;   // by address
  std::unordered_map<std::uint64_t, std::uint32_t> completed_;  // of barriers in shared memory
};

/// What somebody has acquired, and everything that follows from it; found out when it is first asked for. A warp has it beside
/// its block: what the block knows is not looked for again.
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
  /// What those had waited for from whom it was acquired.
  [[nodiscard]] bool knows(const DeviceWork& work, const LaunchOrder& order,
                           const Acquired* beside = nullptr) const;

 private:
  void find_out(const LaunchOrder& order, const Acquired* beside) const;
  std::vector<std::uint32_t> list_;
  mutable std::unordered_map<std::uint64_t, OfBlock> blocks_;
  mutable Clock works_;
  mutable std::unordered_set<std::uint32_t> seen_;  ///< what is in blocks_
  mutable std::size_t found_out_ = 0;               ///< how much of the list is in blocks_
};

/// What orders an access after earlier ones.
struct RaceOrder {
  const LaunchOrder* launch = nullptr;
  std::uint64_t block = 0;
  std::uint32_t warps = 0;  ///< of a block
  Stamp begin = 0;       ///< of the launch; of shared memory of the block: what is below was somebody else's
  Stamp turn_begin = 0;  ///< stamps from here on are of this block
  Stamp block_barrier = 0;  ///< this block's stamps below are before its last barrier
  Stamp warp_barrier = 0;   ///< stamps below, of the same warp, are before its last bar.warp.sync
  const Acquired* acquired_by_block = nullptr;
  const Acquired* acquired_by_warp = nullptr;
  bool first_turn = false;  ///< of this block: what other stamps of the launch there are, are of others
  bool system = false;      ///< a strong access whose scope is all devices
  Stamp narrow = 0;         ///< of LaunchOrder::narrow_at()

  /// Nothing but barriers orders anything: the stamps alone tell what does.
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
  /// What is known of the readers when one more reads.
  [[nodiscard]] Stamp with_reader(Stamp earlier, Stamp now) const;

 private:
  [[nodiscard]] bool by_barrier(Stamp earlier, Stamp now) const;

  Stamp begin_;
  Stamp turn_begin_;
  Stamp block_barrier_;
  Stamp warp_barrier_;
};

/// Who was last to read and to write, for each grain of a piece of memory: as many bytes as the smallest access so far, so
/// that two threads may write neighbouring values.
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
