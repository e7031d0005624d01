#include "common/sim/races.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace sim {
namespace {

// In the thread bits of a reading stamp: below 1024 a thread, then "several of one warp", then "several".
constexpr std::uint32_t several_of_warp = 1024;
constexpr std::uint32_t several = stamp_thread_mask;
constexpr std::uint32_t log2_warp_size = 5;

std::uint32_t who(Stamp stamp) {
  return stamp & stamp_thread_mask;
}

bool same_warp(Stamp earlier, Stamp now) {
  const std::uint32_t warp = who(now) >> log2_warp_size;
  return who(earlier) == several_of_warp + warp ||
         (who(earlier) < several_of_warp && who(earlier) >> log2_warp_size == warp);
}

bool ordered(Stamp earlier, Stamp now, const RaceOrder& order) {
  return earlier < order.block_barrier || who(earlier) == who(now) ||
         (same_warp(earlier, now) && earlier < order.warp_barrier);
}

Stamp with_reader(Stamp earlier, Stamp now, const RaceOrder& order) {
  if (ordered(earlier, now, order)) return now;
  const Stamp time = now & ~stamp_thread_mask;
  return time | (same_warp(earlier, now) ? several_of_warp + (who(now) >> log2_warp_size) : several);
}

}  // namespace

void RaceShadow::Free::operator()(Stamp* stamps) const {
  std::free(stamps);  // NOLINT: the counterpart of calloc, whose pages cost nothing until they are touched
}

RaceShadow::Stamps RaceShadow::make_stamps(std::size_t count) {
  auto* stamps = static_cast<Stamp*>(std::calloc(count, sizeof(Stamp)));  // NOLINT
  if (stamps == nullptr) throw std::bad_alloc();
  return Stamps(stamps);
}

RaceShadow::RaceShadow(std::size_t bytes)
    : count_(bytes / grain + 1), reads_(make_stamps(count_)), writes_(make_stamps(count_)) {}

void RaceShadow::clear() {
  std::fill_n(reads_.get(), count_, 0);
  std::fill_n(writes_.get(), count_, 0);
}

Stamp RaceShadow::read(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order) {
  for (std::size_t i = first / grain; i < (first + bytes) / grain; ++i) {
    if (!ordered(writes_[i], now, order)) return writes_[i];
    reads_[i] = with_reader(reads_[i], now, order);
  }
  return 0;
}

Stamp RaceShadow::write(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order,
                        bool& other_wrote) {
  for (std::size_t i = first / grain; i < (first + bytes) / grain; ++i) {
    const bool read_before = !ordered(reads_[i], now, order);
    other_wrote = !read_before;
    if (read_before) return reads_[i];
    if (!ordered(writes_[i], now, order)) return writes_[i];
    writes_[i] = now;
  }
  return 0;
}

bool RaceShadow::record_contiguous(Stamp* stamps, std::size_t first, std::size_t bytes, Stamp now,
                                   const RaceOrder& order) {
  const std::size_t grains = bytes / grain;
  const Stamp* reads = reads_.get() + first / grain;
  const Stamp* writes = writes_.get() + first / grain;
  stamps += first / grain;
  bool plain = true;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = lane * grains; i < (lane + 1) * grains; ++i) {
      plain &= writes[i] < order.block_barrier || who(writes[i]) == who(now + lane);
      plain &= reads[i] < order.block_barrier || who(reads[i]) == who(now + lane);
    }
  }
  if (!plain) return false;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = lane * grains; i < (lane + 1) * grains; ++i) stamps[i] = now + lane;
  }
  return true;
}

bool RaceShadow::read_contiguous(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order) {
  return record_contiguous(reads_.get(), first, bytes, now, order);
}

bool RaceShadow::write_contiguous(std::size_t first, std::size_t bytes, Stamp now, const RaceOrder& order) {
  return record_contiguous(writes_.get(), first, bytes, now, order);
}

StampedThread thread_of(Stamp stamp) {
  return {who(stamp) < several_of_warp, who(stamp)};
}

}  // namespace sim
