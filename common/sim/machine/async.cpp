#include "common/sim/machine/async.h"

#include <algorithm>
#include <cstring>

#include "common/sim/machine/access.h"
#include "common/sim/machine/block.h"

namespace sim {

void land(const Flight& flight, const Warp& by, int lane) {
  Block& block = *flight.to;
  const std::size_t bytes = flight.data.size();
  if (flight.combine != nullptr) {
    flight.combine(block.shared.data() + flight.offset, flight.data.data());
  } else {
    std::memcpy(block.shared.data() + flight.offset, flight.data.data(), bytes);
  }
  block.shared_written.add(flight.offset, bytes);
  block.in_flight.remove(flight.offset, bytes);
  --block.flights;
  block.shared_shadow.land(flight.offset, bytes, by.stamp_of(lane, false));
  ++block.launch.progress;
}

void land_copies(Warp& warp, const std::array<std::uint32_t, warp_size>& groups) {
  auto& waiting = warp.copies.waiting;
  const auto is_waited_for = [&groups](const AsyncCopies::Copy& copy) {
    return copy.group < groups[static_cast<std::size_t>(copy.lane)];
  };
  for (const AsyncCopies::Copy& copy : waiting) {
    if (is_waited_for(copy)) land(copy.flight, warp, copy.lane);
  }
  std::erase_if(waiting, is_waited_for);
}

namespace {

// Bits of a barrier: arrivals expected, arrivals pending, bytes (signed), phase.
constexpr unsigned count_bits = 20;
constexpr unsigned bytes_bits = 23;
constexpr std::uint64_t count_mask = (std::uint64_t{1} << count_bits) - 1;

}  // namespace

Mbarrier Mbarrier::load(const std::byte* from) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  Mbarrier barrier;
  barrier.expected = static_cast<std::uint32_t>(bits & count_mask);
  barrier.pending = static_cast<std::uint32_t>(bits >> count_bits & count_mask);
  const auto bytes = static_cast<std::uint32_t>(bits >> (2 * count_bits)) << (32 - bytes_bits);
  barrier.bytes = static_cast<std::int32_t>(bytes) >> (32 - bytes_bits);
  barrier.phase = bits >> 63U != 0;
  return barrier;
}

void Mbarrier::store(std::byte* to) const {
  const std::uint64_t unsigned_bytes = static_cast<std::uint32_t>(bytes) & ((1U << bytes_bits) - 1);
  const std::uint64_t bits = expected | std::uint64_t{pending} << count_bits |
                             unsigned_bytes << (2 * count_bits) | (phase ? std::uint64_t{1} << 63U : 0);
  std::memcpy(to, &bits, sizeof bits);
}

bool Mbarrier::settle() {
  if (pending != 0 || bytes != 0) return false;
  phase = !phase;
  pending = expected;
  return true;
}

}  // namespace sim
