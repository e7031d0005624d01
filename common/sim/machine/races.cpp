#include "common/sim/machine/races.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <sstream>
#include <utility>

#include "common/sim/machine/processors.h"

namespace sim {
namespace {

// In the thread bits of a reading stamp: below 1024 a thread, then "several of one warp", then these.
constexpr std::uint32_t several_of_warp = 1024;
constexpr std::uint32_t several_blocks = stamp_thread_mask - 1;
constexpr std::uint32_t several = stamp_thread_mask;
constexpr std::uint32_t log2_warp_size = 5;
constexpr std::uint32_t no_warp = ~std::uint32_t{0};

std::uint32_t who(Stamp stamp) {
  return stamp & stamp_thread_mask;
}

std::uint32_t warp_of(Stamp stamp) {
  const std::uint32_t thread = who(stamp);
  if (thread < several_of_warp) return thread >> log2_warp_size;
  return thread < several_blocks ? thread - several_of_warp : no_warp;
}

/// Accesses of this warp of the block below it are known.
Stamp known_until(const RaceOrder& order, std::uint64_t block, std::uint32_t warp) {
  Stamp until = 0;
  for (const Acquired* acquired : {order.acquired_by_block, order.acquired_by_warp}) {
    const Acquired::OfBlock* known = acquired->of(block, *order.launch);
    if (known == nullptr) continue;
    until = std::max(until, known->block_barrier);
    const auto of_warp = known->warps.find(warp);
    if (of_warp != known->warps.end()) until = std::max(until, of_warp->second);
  }
  return until;
}

/// The kernel or copy on another stream or device is known to have ended.
bool work_is_known(std::uint64_t block, const RaceOrder& order) {
  const LaunchOrder& launch = *order.launch;
  if (!launch.has_several_devices()) return false;
  const DeviceWork& work = launch.work_of(block);
  return launch.work_of(order.block).before.knows(work.stream, work.number) ||
         order.acquired_by_block->knows(work, launch) || order.acquired_by_warp->knows(work, launch);
}

bool is_known(Stamp earlier, Stamp now, std::uint64_t block, const RaceOrder& order) {
  if (work_is_known(block, order)) return true;
  if (order.acquired_by_block->list().empty() && order.acquired_by_warp->list().empty()) return false;
  if (warp_of(earlier) != no_warp) return earlier < known_until(order, block, warp_of(earlier));
  // Several of the block, of which the stamp has the time of the last: that one is known, and something of all others.
  bool last = false;
  for (std::uint32_t warp = 0; warp < order.warps; ++warp) {
    const Stamp until = known_until(order, block, warp);
    last = last || earlier < until;
    if (until < order.block_barrier && !(block == order.block && warp == warp_of(now))) return false;
  }
  return last;
}

/// Of several blocks only the last is in the stamp: what is known of that one stands for all of them.
bool last_is_known(Stamp earlier, const RaceOrder& order) {
  const std::uint64_t block = order.launch->block_at(earlier);
  return work_is_known(block, order) || earlier < known_until(order, block, no_warp);
}

bool ordered(Stamp earlier, Stamp now, const RaceOrder& order) {
  if (earlier < order.begin) return true;
  if (who(earlier) == several_blocks) return last_is_known(earlier, order);
  const std::uint64_t block = earlier >= order.turn_begin ? order.block : order.launch->block_at(earlier);
  if (block == order.block) {
    if (earlier < order.block_barrier || who(earlier) == who(now)) return true;
    if (warp_of(earlier) == warp_of(now) && earlier < order.warp_barrier) return true;
  }
  return is_known(earlier, now, block, order);
}

/// Two atomics, or an atomic and a volatile access, do not race; between devices both have to be of system scope.
bool both_strong(Stamp earlier, Stamp now, const RaceOrder& order) {
  if ((earlier & now & stamp_strong) == 0) return false;
  const LaunchOrder& launch = *order.launch;
  return !launch.has_several_devices() || earlier >= order.turn_begin || earlier < order.begin ||
         launch.same_device(launch.block_at(earlier), order.block) ||
         (order.system && earlier >> stamp_time_shift != order.narrow >> stamp_time_shift);
}

Stamp with_reader(Stamp earlier, Stamp now, const RaceOrder& order) {
  if (earlier < order.begin || (earlier >= order.turn_begin && who(earlier) == who(now))) return now;
  if (who(earlier) != several_blocks && ordered(earlier, now, order)) return now;
  const Stamp time = now & ~(stamp_thread_mask | (earlier & now & stamp_strong ? 0 : stamp_strong));
  if (earlier < order.turn_begin && order.launch->block_at(earlier) != order.block)
    return time | several_blocks;
  return time | (warp_of(earlier) == warp_of(now) ? several_of_warp + warp_of(now) : several);
}

// ---- The same without branches, where order.is_plain(): for runs of neighbouring threads

struct PlainOrder {
  explicit PlainOrder(const RaceOrder& order)
      : begin(order.begin),
        turn_begin(order.turn_begin),
        block_barrier(order.block_barrier),
        warp_barrier(order.warp_barrier) {}
  Stamp begin;
  Stamp turn_begin;
  Stamp block_barrier;
  Stamp warp_barrier;

  static bool same_warp(Stamp earlier, Stamp now) {
    return (who(earlier) >> log2_warp_size == who(now) >> log2_warp_size) |
           (who(earlier) == several_of_warp + (who(now) >> log2_warp_size));
  }
  [[nodiscard]] bool by_barrier(Stamp earlier, Stamp now) const {
    return (who(earlier) != several_blocks) &
           ((earlier < block_barrier) | (same_warp(earlier, now) & (earlier < warp_barrier)));
  }
  /// As ordered().
  [[nodiscard]] bool orders(Stamp earlier, Stamp now) const {
    return (earlier < begin) |
           ((earlier >= turn_begin) & (by_barrier(earlier, now) | (who(earlier) == who(now))));
  }
  /// As with_reader().
  [[nodiscard]] Stamp with_reader(Stamp earlier, Stamp now) const {
    const Stamp time = now & ~(stamp_thread_mask | stamp_strong);
    const Stamp several_here =
        time | (same_warp(earlier, now) ? several_of_warp + (who(now) >> log2_warp_size) : several);
    const Stamp several_now = earlier < turn_begin ? time | several_blocks : several_here;
    return orders(earlier, now) ? now : several_now;
  }
};

/// Calls function(grain, stamp of its thread). `grains`, of each thread, is a power of two.
template <class Function>
void for_each_grain(std::uint32_t count, std::uint32_t grains, Stamp now, Function function) {
  const auto shift = static_cast<unsigned>(std::countr_zero(grains));
  for (std::uint32_t i = 0; i < count << shift; ++i) function(i, now + (i >> shift));
}

bool few_ordered(const Stamp* stamps, std::uint32_t count, std::uint32_t grains, Stamp now,
                 const PlainOrder& order) {
  std::uint32_t racing = 0;
  for_each_grain(count, grains, now,
                 [&](std::uint32_t i, Stamp here) { racing |= order.orders(stamps[i], here) ? 0U : 1U; });
  return racing == 0;
}
void record_few_reads(Stamp* stamps, std::uint32_t count, std::uint32_t grains, Stamp now,
                      const PlainOrder& order) {
  for_each_grain(count, grains, now,
                 [&](std::uint32_t i, Stamp here) { stamps[i] = order.with_reader(stamps[i], here); });
}
/// Of a single thread, as most runs of scattered accesses are, vector instructions cost more than they spare.
constexpr std::uint32_t few = 1;

SIM_EACH_PROCESSOR bool many_ordered(const Stamp* stamps, std::uint32_t count, std::uint32_t grains,
                                     Stamp now, PlainOrder order) {
  return few_ordered(stamps, count, grains, now, order);
}
SIM_EACH_PROCESSOR void record_many_reads(Stamp* stamps, std::uint32_t count, std::uint32_t grains, Stamp now,
                                          PlainOrder order) {
  record_few_reads(stamps, count, grains, now, order);
}
bool all_ordered(const Stamp* stamps, std::uint32_t count, std::uint32_t grains, Stamp now,
                 const PlainOrder& order) {
  return count <= few ? few_ordered(stamps, count, grains, now, order)
                      : many_ordered(stamps, count, grains, now, order);
}
void record_reads(Stamp* stamps, std::uint32_t count, std::uint32_t grains, Stamp now,
                  const PlainOrder& order) {
  if (count <= few) return record_few_reads(stamps, count, grains, now, order);
  record_many_reads(stamps, count, grains, now, order);
}
void record_writes(Stamp* stamps, std::uint32_t count, std::uint32_t grains, Stamp now) {
  for_each_grain(count, grains, now, [&](std::uint32_t i, Stamp here) { stamps[i] = here; });
}

}  // namespace

// ---- What orders blocks

void Clock::join(const Clock& other) {
  for (const auto& [stream, number] : other.done_) {
    std::uint64_t& known = done_[stream];
    known = std::max(known, number);
  }
  for (const std::uint32_t knowledge : other.knowledge_) learn(other.generation_, knowledge);
}

void Clock::learn(std::uint64_t generation, std::uint32_t knowledge) {
  if (generation < generation_) return;
  if (generation > std::exchange(generation_, generation)) knowledge_.clear();
  if (std::find(knowledge_.begin(), knowledge_.end(), knowledge) == knowledge_.end()) {
    knowledge_.push_back(knowledge);
  }
}

const std::vector<std::uint32_t>& Clock::knowledge(std::uint64_t generation) const {
  static const std::vector<std::uint32_t> nothing;
  return generation == generation_ ? knowledge_ : nothing;
}

void LaunchOrder::clear() {
  works_.clear();
  forget_turns(0);
}

void LaunchOrder::forget_turns(Stamp now) {
  for (DeviceWork& work : works_) work.begin = now;
  turns_.clear();
  knowledge_.clear();
  released_.clear();
  completed_.clear();
  narrow_.clear();
  ++generation_;
}

std::uint64_t LaunchOrder::begin_work(DeviceWork work) {
  const std::uint64_t first_block = works_.size() << block_bits;
  begin_turn(first_block, work.begin);
  works_.push_back(std::move(work));
  return first_block;
}

Stamp LaunchOrder::begin_of(const DeviceWork& work, Stamp now) const {
  Stamp begin = now;
  for (const DeviceWork& other : works_) {
    if (!work.before.knows(other.stream, other.number)) begin = std::min(begin, other.begin);
  }
  return begin;
}

bool LaunchOrder::is_known(const Clock& clock) const {
  return std::all_of(works_.begin(), works_.end(),
                     [&](const DeviceWork& work) { return clock.knows(work.stream, work.number); });
}

std::string LaunchOrder::describe(std::uint64_t block) const {
  const DeviceWork& work = work_of(block);
  std::ostringstream text;
  if (work.grid_x != 0) {
    const std::uint64_t number = block & ((std::uint64_t{1} << block_bits) - 1);
    text << "block (" << number % work.grid_x << ", " << number / work.grid_x % work.grid_y << ", "
         << number / work.grid_x / work.grid_y << ") of ";
  }
  text << work.what << " on device " << work.device;
  return text.str();
}

Stamp LaunchOrder::narrow_at(std::uint64_t address) const {
  const auto found = narrow_.find(address);
  return found == narrow_.end() ? 0 : found->second;
}

std::uint64_t LaunchOrder::block_at(Stamp stamp) const {
  const auto after = std::upper_bound(turns_.begin(), turns_.end(), stamp,
                                      [](Stamp value, const Turn& turn) { return value < turn.begin; });
  return after == turns_.begin() ? no_block : std::prev(after)->block;
}

std::uint32_t LaunchOrder::release(std::uint64_t address, Knowledge known, bool adds) {
  const auto before = released_.find(address);
  if (adds && before != released_.end()) known.earlier.push_back(before->second);
  return released_[address] = add(std::move(known));
}

std::uint32_t LaunchOrder::add(Knowledge known) {
  knowledge_.push_back(std::move(known));
  return static_cast<std::uint32_t>(knowledge_.size() - 1);
}

std::uint32_t LaunchOrder::of_phase(std::uint64_t address) const {
  const auto found = completed_.find(address);
  return found == completed_.end() ? none : found->second;
}

std::uint32_t LaunchOrder::acquire(std::uint64_t address) const {
  const auto found = released_.find(address);
  return found == released_.end() ? none : found->second;
}

void Acquired::add(std::uint32_t knowledge) {
  if (list_.empty() || list_.back() != knowledge) list_.push_back(knowledge);
}

void Acquired::add(const Acquired& other) {
  for (const std::uint32_t knowledge : other.list_) add(knowledge);
}

void Acquired::clear() {
  list_.clear();
  blocks_.clear();
  works_ = {};
  found_out_ = 0;
}

void Acquired::find_out(const LaunchOrder& order) const {
  if (found_out_ == list_.size()) return;
  std::vector<std::uint32_t> next(list_.begin() + static_cast<std::ptrdiff_t>(found_out_), list_.end());
  found_out_ = list_.size();
  std::unordered_map<std::uint32_t, bool> seen;
  while (!next.empty()) {
    const std::uint32_t index = next.back();
    next.pop_back();
    if (std::exchange(seen[index], true)) continue;
    const Knowledge& known = order.known(index & ~from_another_device);
    const bool here = (index & from_another_device) == 0;
    const Stamp barrier = here ? known.block_barrier : std::min(known.block_barrier, known.system_time);
    OfBlock& block = blocks_[known.block];
    block.block_barrier = std::max(block.block_barrier, barrier);
    Stamp& warp = block.warps[known.warp];
    warp = std::max(warp, here ? known.warp_time : known.system_time);
    if (order.has_several_devices()) works_.join(order.work_of(known.block).before);
    next.insert(next.end(), known.earlier.begin(), known.earlier.end());
  }
}

const Acquired::OfBlock* Acquired::of(std::uint64_t block, const LaunchOrder& order) const {
  if (list_.empty()) return nullptr;
  find_out(order);
  const auto found = blocks_.find(block);
  return found == blocks_.end() ? nullptr : &found->second;
}

bool Acquired::knows(const DeviceWork& work, const LaunchOrder& order) const {
  if (list_.empty()) return false;
  find_out(order);
  return works_.knows(work.stream, work.number);
}

// ---- The shadow

void RaceShadow::Free::operator()(Stamp* stamps) const {
  std::free(stamps);  // NOLINT: the counterpart of calloc, whose pages cost nothing until they are touched
}

RaceShadow::Stamps RaceShadow::make_stamps(std::size_t count) {
  auto* stamps = static_cast<Stamp*>(std::calloc(count, sizeof(Stamp)));  // NOLINT
  if (stamps == nullptr) throw std::bad_alloc();
  return Stamps(stamps);
}

RaceShadow::RaceShadow(std::size_t bytes)
    : count_(bytes / grain_ + 1), reads_(make_stamps(count_)), writes_(make_stamps(count_)) {}

void RaceShadow::clear() {
  std::fill_n(reads_.get(), count_, 0);
  std::fill_n(writes_.get(), count_, 0);
}

void RaceShadow::refine() {
  const std::size_t count = count_ * grain_;
  for (Stamps* stamps : {&reads_, &writes_}) {
    Stamps finer = make_stamps(count);
    for (std::size_t i = 0; i < count; ++i) finer[i] = (*stamps)[i / grain_];
    *stamps = std::move(finer);
  }
  count_ = count;
  grain_ = 1;
}

Stamp RaceShadow::read(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order) {
  if (bytes < grain_) refine();
  for (std::size_t i = first / grain_; i < (first + bytes) / grain_; ++i) {
    if (!both_strong(writes_[i], now, order) && !ordered(writes_[i], now, order)) return writes_[i];
    reads_[i] = with_reader(reads_[i], now, order);
  }
  return 0;
}

Stamp RaceShadow::write(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order,
                        bool& other_wrote) {
  if (bytes < grain_) refine();
  for (std::size_t i = first / grain_; i < (first + bytes) / grain_; ++i) {
    const bool read_before = !both_strong(reads_[i], now, order) && !ordered(reads_[i], now, order);
    other_wrote = !read_before;
    if (read_before) return reads_[i];
    if (!both_strong(writes_[i], now, order) && !ordered(writes_[i], now, order)) return writes_[i];
    // A plain write before it by the same thread still races with the atomics of others.
    const bool plain_before = writes_[i] >= order.turn_begin && writes_[i] >= order.block_barrier &&
                              who(writes_[i]) == who(now) && (writes_[i] & stamp_strong) == 0;
    writes_[i] = plain_before ? now & ~stamp_strong : now;
  }
  return 0;
}

bool RaceShadow::read_run(std::size_t first, std::size_t bytes, std::uint32_t count, Stamp now,
                          const RaceOrder& order) {
  if (bytes < grain_) refine();
  const std::size_t at = first / grain_;
  const auto grains = static_cast<std::uint32_t>(bytes / grain_);
  if (!all_ordered(writes_.get() + at, count, grains, now, PlainOrder(order))) return false;
  record_reads(reads_.get() + at, count, grains, now, PlainOrder(order));
  return true;
}

bool RaceShadow::write_run(std::size_t first, std::size_t bytes, std::uint32_t count, Stamp now,
                           const RaceOrder& order) {
  if (bytes < grain_) refine();
  const std::size_t at = first / grain_;
  const auto grains = static_cast<std::uint32_t>(bytes / grain_);
  if (!all_ordered(reads_.get() + at, count, grains, now, PlainOrder(order)) ||
      !all_ordered(writes_.get() + at, count, grains, now, PlainOrder(order))) {
    return false;
  }
  record_writes(writes_.get() + at, count, grains, now);
  return true;
}

void RaceShadow::land(std::size_t first, std::size_t bytes, Stamp now) {
  std::fill_n(writes_.get() + first / grain_, bytes / grain_, now);
}

Stamp RaceShadow::find_other(const RaceOrder& order) const {
  for (const Stamps* stamps : {&reads_, &writes_}) {
    for (std::size_t i = 0; i < count_; ++i) {
      const Stamp stamp = (*stamps)[i];
      if (stamp < order.begin || order.launch->block_at(stamp) == order.block) continue;
      if (!ordered(stamp, 0, order)) return stamp;
    }
  }
  return 0;
}

StampedThread thread_of(Stamp stamp) {
  return {who(stamp) < several_of_warp, who(stamp) == several_blocks, who(stamp)};
}

}  // namespace sim
