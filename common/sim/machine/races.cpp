#include "common/sim/machine/races.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <sstream>
#include <type_traits>
#include <utility>

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

/// The knowledge of a block that the asking block and its warp have.
class KnownOf {
 public:
  KnownOf(std::uint64_t block, const RaceOrder& order)
      : by_block_(order.acquired_by_block->of(block, *order.launch)),
        by_warp_(order.acquired_by_warp->of(block, *order.launch, order.acquired_by_block)) {}

  /// Accesses of this warp of the block below it are known.
  [[nodiscard]] Stamp until(std::uint32_t warp) const {
    return std::max(by_block_ != nullptr ? by_block_->until(warp) : 0,
                    by_warp_ != nullptr ? by_warp_->until(warp) : 0);
  }

 private:
  const Acquired::OfBlock* by_block_;
  const Acquired::OfBlock* by_warp_;
};

/// The kernel or copy on another stream or device is known to have ended.
bool work_is_known(std::uint64_t block, const RaceOrder& order) {
  const LaunchOrder& launch = *order.launch;
  if (!launch.has_several_devices()) return false;
  const DeviceWork& work = launch.work_of(block);
  return launch.work_of(order.block).before.knows(work.stream, work.number) ||
         order.acquired_by_block->knows(work, launch) ||
         order.acquired_by_warp->knows(work, launch, order.acquired_by_block);
}

bool is_known(Stamp earlier, Stamp now, std::uint64_t block, const RaceOrder& order) {
  if (work_is_known(block, order)) return true;
  if (order.acquired_by_block->list().empty() && order.acquired_by_warp->list().empty()) return false;
  const KnownOf known(block, order);
  if (warp_of(earlier) != no_warp) return earlier < known.until(warp_of(earlier));
  // Several of the block, of which the stamp has the time of the last: that one is known, and something of all others; of this
  // block since its last barrier, before which all is in order.
  const Stamp least = block == order.block ? order.block_barrier : 1;
  bool last = false;
  for (std::uint32_t warp = 0; warp < order.warps; ++warp) {
    const Stamp until = known.until(warp);
    last = last || earlier < until;
    if (until < least && !(block == order.block && warp == warp_of(now))) return false;
  }
  return last;
}

/// If there were several blocks, only the last is in the stamp: the knowledge of that block stands for all of
/// them.
bool last_is_known(Stamp earlier, const RaceOrder& order) {
  const std::uint64_t block = order.launch->block_at(earlier);
  return work_is_known(block, order) || earlier < KnownOf(block, order).until(no_warp);
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

/// Two atomics, or an atomic and a volatile access, do not race if the scope of each reaches the other.
bool both_strong(Stamp earlier, Stamp now, const RaceOrder& order) {
  if ((earlier & now & stamp_strong) == 0) return false;
  const LaunchOrder& launch = *order.launch;
  const bool is_narrow = earlier >> stamp_time_shift == order.narrow.at >> stamp_time_shift;
  const Scope scope = std::min(order.scope, is_narrow ? order.narrow.scope : Scope::system);
  return scope == Scope::system || earlier >= order.turn_begin || earlier < order.begin ||
         launch.distance(launch.block_at(earlier), order.block) <= scope;
}

Stamp with_reader(Stamp earlier, Stamp now, const RaceOrder& order) {
  if (earlier < order.begin || (earlier >= order.turn_begin && who(earlier) == who(now))) return now;
  if (who(earlier) != several_blocks && ordered(earlier, now, order)) return now;
  const Stamp time = now & ~(stamp_thread_mask | (earlier & now & stamp_strong ? 0 : stamp_strong));
  if (earlier < order.turn_begin && order.launch->block_at(earlier) != order.block)
    return time | several_blocks;
  return time | (warp_of(earlier) == warp_of(now) ? several_of_warp + warp_of(now) : several);
}

// ---- The same without branches

bool same_warp(Stamp earlier, Stamp now) {
  return (who(earlier) >> log2_warp_size == who(now) >> log2_warp_size) |
         (who(earlier) == several_of_warp + (who(now) >> log2_warp_size));
}

}  // namespace

bool PlainOrder::by_barrier(Stamp earlier, Stamp now) const {
  return (who(earlier) != several_blocks) &
         ((earlier < block_barrier_) | (same_warp(earlier, now) & (earlier < warp_barrier_)));
}

/// As ordered().
bool PlainOrder::orders(Stamp earlier, Stamp now) const {
  return is_over(earlier) |
         ((earlier >= turn_begin_) & (by_barrier(earlier, now) | (who(earlier) == who(now))));
}

/// As with_reader().
Stamp PlainOrder::with_reader(Stamp earlier, Stamp now) const {
  const Stamp time = now & ~(stamp_thread_mask | stamp_strong);
  const Stamp several_here =
      time | (same_warp(earlier, now) ? several_of_warp + (who(now) >> log2_warp_size) : several);
  const Stamp several_now = earlier < turn_begin_ ? time | several_blocks : several_here;
  return orders(earlier, now) ? now : several_now;
}

namespace {

// ---- Runs of neighbouring threads

/// Calls function(grain, stamp of its thread), with 2^shift grains of each.
template <class Function>
void for_each_grain(std::uint32_t count, unsigned shift, Stamp now, Function function) {
  for (std::uint32_t i = 0; i < count << shift; ++i) function(i, now + (i >> shift));
}

/// function(count, shift), which for most whole warps are numbers that the compiler knows: it unrolls their loops.
template <class Function>
bool with_run(std::uint32_t count, unsigned shift, Function function) {
  constexpr std::integral_constant<std::uint32_t, 1U << log2_warp_size> whole_warp;
  if (count != whole_warp) return function(count, shift);
  switch (shift) {
    case 0:
      return function(whole_warp, std::integral_constant<unsigned, 0>{});
    case 1:
      return function(whole_warp, std::integral_constant<unsigned, 1>{});
    case 2:
      return function(whole_warp, std::integral_constant<unsigned, 2>{});
    default:
      return function(count, shift);
  }
}

/// Whether all accesses, of any thread, are older than the launch or block of the order.
bool are_over(const Stamp* writes, const Stamp* reads, std::uint32_t grains, const PlainOrder& order) {
  std::uint32_t not_over = 0;
  for (std::uint32_t i = 0; i < grains; ++i) {
    not_over |= order.is_over(writes[i]) & order.is_over(reads[i]) ? 0U : 1U;
  }
  return not_over == 0;
}

[[gnu::flatten]] bool read_grains(const Stamp* writes, Stamp* reads, std::uint32_t of_threads,
                                  unsigned log2_of_each, Stamp now, PlainOrder order) {
  return with_run(of_threads, log2_of_each, [=](auto count, auto shift) {
    if (are_over(writes, reads, count << shift, order)) {
      for_each_grain(count, shift, now, [=](std::uint32_t i, Stamp here) { reads[i] = here; });
      return true;
    }
    std::uint32_t racing = 0;
    for_each_grain(count, shift, now,
                   [&](std::uint32_t i, Stamp here) { racing |= order.orders(writes[i], here) ? 0U : 1U; });
    if (racing != 0) return false;
    for_each_grain(count, shift, now,
                   [=](std::uint32_t i, Stamp here) { reads[i] = order.with_reader(reads[i], here); });
    return true;
  });
}

[[gnu::flatten]] bool write_grains(Stamp* writes, const Stamp* reads, std::uint32_t of_threads,
                                   unsigned log2_of_each, Stamp now, PlainOrder order) {
  return with_run(of_threads, log2_of_each, [=](auto count, auto shift) {
    std::uint32_t racing = 0;
    if (!are_over(writes, reads, count << shift, order)) {
      for_each_grain(count, shift, now, [&](std::uint32_t i, Stamp here) {
        racing |= order.orders(writes[i], here) & order.orders(reads[i], here) ? 0U : 1U;
      });
    }
    if (racing != 0) return false;
    for_each_grain(count, shift, now, [=](std::uint32_t i, Stamp here) { writes[i] = here; });
    return true;
  });
}

}  // namespace

// ---- The order of blocks

Knowledge Knowledge::until(std::uint64_t block, Stamp barrier, std::vector<std::uint32_t> earlier) {
  Knowledge known{block, 0, {}, {}, std::move(earlier)};
  known.of_block.fill(barrier);
  return known;
}

Dim3 Grid::index_of(std::uint64_t block) const {
  return {static_cast<std::uint32_t>(block % blocks.x),
          static_cast<std::uint32_t>(block / blocks.x % blocks.y),
          static_cast<std::uint32_t>(block / blocks.x / blocks.y)};
}

bool Grid::same_cluster(std::uint64_t a, std::uint64_t b) const {
  if (cluster.count() == 1) return false;
  const std::uint64_t in_work = (std::uint64_t{1} << LaunchOrder::block_bits) - 1;
  const Dim3 i = index_of(a & in_work);
  const Dim3 j = index_of(b & in_work);
  return i.x / cluster.x == j.x / cluster.x && i.y / cluster.y == j.y / cluster.y &&
         i.z / cluster.z == j.z / cluster.z;
}

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
  fell_short = false;
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
  if (work.grid.blocks.x != 0) {
    const Dim3 index = work.grid.index_of(block & ((std::uint64_t{1} << block_bits) - 1));
    text << "block (" << index.x << ", " << index.y << ", " << index.z << ") of ";
  }
  text << work.what << " on device " << work.device;
  return text.str();
}

LaunchOrder::Narrow LaunchOrder::narrow_at(std::uint64_t place) const {
  const auto found = narrow_.find(place);
  return found == narrow_.end() ? Narrow{} : found->second;
}

Scope LaunchOrder::distance(std::uint64_t a, std::uint64_t b) const {
  if (a == b) return Scope::block;
  if (!works_.empty() && work_of(a).device != work_of(b).device) return Scope::system;
  const Grid& grid = works_.empty() ? grid_ : work_of(a).grid;
  return same_work(a, b) && grid.same_cluster(a, b) ? Scope::cluster : Scope::device;
}

std::uint64_t LaunchOrder::block_at(Stamp stamp) const {
  const auto after = std::upper_bound(turns_.begin(), turns_.end(), stamp,
                                      [](Stamp value, const Turn& turn) { return value < turn.begin; });
  return after == turns_.begin() ? no_block : std::prev(after)->block;
}

void LaunchOrder::add_release(std::uint64_t address, std::uint32_t known, Scope distance) {
  const auto [at, is_first] = released_.try_emplace(address, known);
  if (is_first) return;
  Knowledge both = knowledge_[known];
  both.earlier = {known, acquired_over(distance, at->second)};
  at->second = add(std::move(both));
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
  if (list_.empty()) return;
  list_.clear();
  blocks_.clear();
  works_ = {};
  seen_.clear();
  found_out_ = 0;
}

void Acquired::replace(std::uint32_t knowledge) {
  list_.assign(1, knowledge);
  found_out_ = 0;  // and the contents of blocks_ stay true
}

void Acquired::find_out(const LaunchOrder& order, const Acquired* beside) const {
  if (beside != nullptr) beside->find_out(order, nullptr);
  if (found_out_ == list_.size()) return;
  std::vector<std::uint32_t> next(list_.begin() + static_cast<std::ptrdiff_t>(found_out_), list_.end());
  found_out_ = list_.size();
  while (!next.empty()) {
    const std::uint32_t index = next.back();
    next.pop_back();
    if ((beside != nullptr && beside->seen_.contains(index)) || !seen_.insert(index).second) continue;
    constexpr std::uint32_t number = (std::uint32_t{1} << knowledge_bits) - 1;
    const Knowledge& known = order.known(index & number);
    const std::size_t distance = index >> knowledge_bits;
    blocks_[known.block].add(known.of_block.at(distance), known.warp, known.of_warp.at(distance));
    if (order.has_several_devices()) works_.join(order.work_of(known.block).before);
    for (const std::uint32_t earlier : known.earlier) {
      // A block passes on no more about its own accesses than reaches so far.
      const bool own = order.known(earlier & number).block == known.block;
      next.push_back(own ? std::max(earlier, (earlier & number) | (index & ~number)) : earlier);
    }
  }
}

const Acquired::OfBlock* Acquired::of(std::uint64_t block, const LaunchOrder& order,
                                      const Acquired* beside) const {
  if (list_.empty()) return nullptr;
  find_out(order, beside);
  const auto found = blocks_.find(block);
  return found == blocks_.end() ? nullptr : &found->second;
}

bool Acquired::knows(const DeviceWork& work, const LaunchOrder& order, const Acquired* beside) const {
  if (list_.empty()) return false;
  find_out(order, beside);
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

void RaceShadow::clear() {
  std::fill_n(reads_.get(), count(), 0);
  std::fill_n(writes_.get(), count(), 0);
  latest_write_ = 0;
}

void RaceShadow::fit(std::size_t first, std::size_t bytes) {
  const std::size_t grain = std::size_t{1} << log2_grain_;
  if (writes_ && ((first | bytes) & (grain - 1)) == 0) return;
  refine(static_cast<unsigned>(std::countr_zero(first | bytes | grain)));
}

void RaceShadow::refine(unsigned log2) {
  const unsigned finer_by = log2_grain_ - log2;
  const std::size_t fine_count = (bytes_ >> log2) + 1;
  for (Stamps* stamps : {&reads_, &writes_}) {
    Stamps fine = make_stamps(fine_count);
    for (std::size_t i = 0; *stamps && i < fine_count; ++i) {
      const Stamp stamp = (*stamps)[i >> finer_by];
      if (stamp != 0) fine[i] = stamp;  // pages of zeros stay as calloc gave them
    }
    *stamps = std::move(fine);
  }
  log2_grain_ = log2;
}

Stamp RaceShadow::read(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order) {
  fit(first, bytes);
  for (std::size_t i = first >> log2_grain_; i < (first + bytes) >> log2_grain_; ++i) {
    if (!both_strong(writes_[i], now, order) && !ordered(writes_[i], now, order)) return writes_[i];
    reads_[i] = with_reader(reads_[i], now, order);
  }
  return 0;
}

Stamp RaceShadow::write(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order,
                        bool& other_wrote) {
  fit(first, bytes);
  for (std::size_t i = first >> log2_grain_; i < (first + bytes) >> log2_grain_; ++i) {
    const bool read_before = !both_strong(reads_[i], now, order) && !ordered(reads_[i], now, order);
    other_wrote = !read_before;
    if (read_before) return reads_[i];
    if (!both_strong(writes_[i], now, order) && !ordered(writes_[i], now, order)) return writes_[i];
    // A plain write before it by the same thread still races with the atomics of others.
    const bool plain_before = writes_[i] >= order.turn_begin && writes_[i] >= order.block_barrier &&
                              writes_[i] >= order.warp_barrier && who(writes_[i]) == who(now) &&
                              (writes_[i] & stamp_strong) == 0;
    writes_[i] = plain_before ? now & ~stamp_strong : now;
    latest_write_ = now;
  }
  return 0;
}

bool RaceShadow::read_run(std::size_t first, std::size_t bytes, std::uint32_t count, Stamp now,
                          const PlainOrder& order) {
  fit(first, bytes);
  Stamp* const writes = writes_.get() + (first >> log2_grain_);
  Stamp* const reads = reads_.get() + (first >> log2_grain_);
  const std::size_t grains = bytes >> log2_grain_;
  if (count > 1) {
    return read_grains(writes, reads, count, static_cast<unsigned>(std::countr_zero(grains)), now, order);
  }
  for (std::size_t i = 0; i < grains; ++i) {
    if (!order.orders(writes[i], now)) return false;
  }
  for (std::size_t i = 0; i < grains; ++i) reads[i] = order.with_reader(reads[i], now);
  return true;
}

bool RaceShadow::write_run(std::size_t first, std::size_t bytes, std::uint32_t count, Stamp now,
                           const PlainOrder& order) {
  fit(first, bytes);
  latest_write_ = now;
  Stamp* const writes = writes_.get() + (first >> log2_grain_);
  const Stamp* const reads = reads_.get() + (first >> log2_grain_);
  const std::size_t grains = bytes >> log2_grain_;
  if (count > 1) {
    return write_grains(writes, reads, count, static_cast<unsigned>(std::countr_zero(grains)), now, order);
  }
  for (std::size_t i = 0; i < grains; ++i) {
    if (!order.orders(writes[i], now) || !order.orders(reads[i], now)) return false;
  }
  for (std::size_t i = 0; i < grains; ++i) writes[i] = now;
  return true;
}

/// Calls record(reads, writes, grains, stamp) for each thread until it returns false.
template <class Record>
std::uint32_t RaceShadow::record_each(std::uint32_t threads, const std::uint64_t* addresses,
                                      std::uint64_t begin, std::size_t bytes, Stamp now, Record record) {
  for (; threads != 0; threads &= threads - 1) {
    const auto thread = static_cast<unsigned>(std::countr_zero(threads));
    const std::size_t first = addresses[thread] - begin;
    fit(first, bytes);
    const std::size_t grain = first >> log2_grain_;
    if (!record(reads_.get() + grain, writes_.get() + grain, bytes >> log2_grain_, now + thread)) break;
  }
  return threads;
}

std::uint32_t RaceShadow::read_each(std::uint32_t threads, const std::uint64_t* addresses,
                                    std::uint64_t begin, std::size_t bytes, Stamp now,
                                    const PlainOrder& order) {
  const auto record = [order](Stamp* reads, const Stamp* writes, std::size_t grains, Stamp here) {
    for (std::size_t i = 0; i < grains; ++i) {
      if (!order.is_over(writes[i]) && !order.orders(writes[i], here)) return false;
    }
    for (std::size_t i = 0; i < grains; ++i) {
      reads[i] = order.is_over(reads[i]) ? here : order.with_reader(reads[i], here);
    }
    return true;
  };
  return record_each(threads, addresses, begin, bytes, now, record);
}

std::uint32_t RaceShadow::write_each(std::uint32_t threads, const std::uint64_t* addresses,
                                     std::uint64_t begin, std::size_t bytes, Stamp now,
                                     const PlainOrder& order) {
  latest_write_ = now;
  const auto record = [order](const Stamp* reads, Stamp* writes, std::size_t grains, Stamp here) {
    for (std::size_t i = 0; i < grains; ++i) {
      if (!(order.is_over(writes[i]) && order.is_over(reads[i])) &&
          !(order.orders(writes[i], here) && order.orders(reads[i], here))) {
        return false;
      }
    }
    std::fill_n(writes, grains, here);
    return true;
  };
  return record_each(threads, addresses, begin, bytes, now, record);
}

void RaceShadow::make_grains_the_same(RaceShadow& a, RaceShadow& b) {
  const std::size_t grain = std::size_t{1} << std::min(a.log2_grain_, b.log2_grain_);
  a.fit(grain, grain);
  b.fit(grain, grain);
}

bool RaceShadow::meet(RaceShadow& a, Stamp a_since, RaceShadow& b, Stamp b_since, std::size_t first,
                      std::size_t end) {
  if (!a.writes_ || !b.writes_ || first >= end) return false;
  if (a.latest_write_ < a_since && b.latest_write_ < b_since) return false;
  make_grains_the_same(a, b);
  unsigned met = 0;
  for (std::size_t i = first >> a.log2_grain_; i <= (end - 1) >> a.log2_grain_; ++i) {
    const bool a_writes = a.writes_[i] >= a_since;
    const bool b_writes = b.writes_[i] >= b_since;
    const bool a_reads = a.reads_[i] >= a_since;
    const bool b_reads = b.reads_[i] >= b_since;
    met |= (a_writes & (b_writes | b_reads)) | (a_reads & b_writes) ? 1U : 0U;
  }
  return met != 0;
}

void RaceShadow::take_over(RaceShadow& from, Stamp now, std::size_t first, std::size_t end) {
  if (!from.writes_ || first >= end) return;
  make_grains_the_same(*this, from);
  for (std::size_t i = first >> log2_grain_; i <= (end - 1) >> log2_grain_; ++i) {
    reads_[i] = from.reads_[i] != 0 ? now : reads_[i];
    writes_[i] = from.writes_[i] != 0 ? now : writes_[i];
  }
  if (from.latest_write_ != 0) latest_write_ = std::max(latest_write_, now);
}

void RaceShadow::land(std::size_t first, std::size_t bytes, Stamp now) {
  fit(first, bytes);
  latest_write_ = now;
  std::fill_n(writes_.get() + (first >> log2_grain_), bytes >> log2_grain_, now);
}

bool RaceShadow::races_with_write(std::size_t byte, Stamp now, const RaceOrder& order) const {
  const Stamp write = last_write(byte);
  return !both_strong(write, now, order) && !ordered(write, now, order);
}

Stamp RaceShadow::find_other(const RaceOrder& order) const {
  for (const Stamps* stamps : {&reads_, &writes_}) {
    for (std::size_t i = 0; i < count(); ++i) {
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
