#include "common/sim/machine/memory.h"

#include <cstring>
#include <new>
#include <sstream>

namespace sim {
namespace {

constexpr std::uint64_t alignment = 256;
/// Between two allocations, so that a row too many lands in none. Addresses cost nothing.
constexpr std::uint64_t gap = std::uint64_t{1} << 20;
/// Above this an allocation is not watched for races: the watch takes four times as much memory.
constexpr std::size_t most_watched_bytes = std::size_t{1} << 28;

}  // namespace

Allocation::Allocation(std::uint64_t first_address, std::size_t size, std::string description)
    : begin(first_address),
      bytes(size),
      what(std::move(description)),
      data(new std::byte[size]),  // NOLINT(modernize-avoid-c-arrays)
      written(size) {
  std::memset(data.get(), 0xff, size);
}

RaceShadow* Allocation::shadow() {
  if (!shadow_ && bytes <= most_watched_bytes) shadow_ = std::make_unique<RaceShadow>(bytes);
  return shadow_.get();
}

std::uint64_t GlobalMemory::allocate(std::size_t bytes, std::string what) {
  if (bytes > free_bytes() || bytes > end_of_addresses - next_address_ - gap) return 0;
  const std::uint64_t address = next_address_;
  std::unique_ptr<Allocation> allocation;
  try {
    allocation = std::make_unique<Allocation>(address, bytes, std::move(what));
  } catch (const std::bad_alloc&) {
    return 0;
  }
  allocations_[allocation->end()] = std::move(allocation);
  used_bytes_ += bytes;
  next_address_ += (bytes + gap + alignment - 1) / alignment * alignment;
  return address;
}

bool GlobalMemory::free(std::uint64_t address) {
  const auto found = allocations_.upper_bound(address);
  if (found == allocations_.end() || found->second->begin != address) return false;
  used_bytes_ -= found->second->bytes;
  freed_[found->first] = {found->second->begin, found->first};
  allocations_.erase(found);
  latest_ = nullptr;
  return true;
}

Allocation* GlobalMemory::find(std::uint64_t address) {
  if (latest_ != nullptr && latest_->holds(address, 1)) return latest_;
  const auto found = allocations_.upper_bound(address);
  if (found == allocations_.end() || !found->second->holds(address, 1)) return nullptr;
  return latest_ = found->second.get();
}

Allocation* GlobalMemory::find_whole(std::uint64_t address, std::size_t bytes) {
  Allocation* allocation = find(address);
  return allocation != nullptr && allocation->holds(address, bytes) ? allocation : nullptr;
}

bool GlobalMemory::copy_in(std::uint64_t to, const void* from, std::size_t bytes) {
  if (bytes == 0) return true;
  Allocation* allocation = find_whole(to, bytes);
  if (allocation == nullptr) return false;
  std::memmove(allocation->at(to), from, bytes);
  allocation->written.add(to - allocation->begin, bytes);
  return true;
}

bool GlobalMemory::copy_out(void* to, std::uint64_t from, std::size_t bytes) {
  if (bytes == 0) return true;
  Allocation* allocation = find_whole(from, bytes);
  if (allocation == nullptr) return false;
  std::memmove(to, allocation->at(from), bytes);
  return true;
}

bool GlobalMemory::fill(std::uint64_t to, int value, std::size_t bytes) {
  if (bytes == 0) return true;
  Allocation* allocation = find_whole(to, bytes);
  if (allocation == nullptr) return false;
  std::memset(allocation->at(to), value, bytes);
  allocation->written.add(to - allocation->begin, bytes);
  return true;
}

bool GlobalMemory::forget(std::uint64_t first, std::size_t bytes) {
  if (bytes == 0) return true;
  Allocation* allocation = find_whole(first, bytes);
  if (allocation == nullptr) return false;
  allocation->written.remove(first - allocation->begin, bytes);
  return true;
}

Stamp GlobalMemory::next_time() {
  constexpr Stamp latest = ~Stamp{0} >> stamp_time_shift << stamp_time_shift;
  if (now_ == latest) {
    for (const auto& [end, allocation] : allocations_) allocation->forget_races();
    now_ = 0;
  }
  return now_ += Stamp{1} << stamp_time_shift;
}

bool GlobalMemory::is_device_address(std::uint64_t address) {
  return address >= first_address && address < end_of_addresses;
}

std::string GlobalMemory::describe_outside(std::uint64_t address) const {
  std::ostringstream text;
  if (const auto freed = freed_.upper_bound(address);
      freed != freed_.end() && address >= freed->second.begin) {
    text << address - freed->second.begin << " bytes into memory that was freed ("
         << freed->second.end - freed->second.begin << " bytes at 0x" << std::hex << freed->second.begin
         << ")";
    return text.str();
  }
  const auto after = allocations_.upper_bound(address);
  const Allocation* next = after == allocations_.end() ? nullptr : after->second.get();
  const Allocation* previous = after == allocations_.begin() ? nullptr : std::prev(after)->second.get();
  const bool near_previous = previous != nullptr && address - previous->end() < gap;
  const bool near_next = next != nullptr && next->begin - address < gap;
  if (near_previous && (!near_next || address - previous->end() < next->begin - address)) {
    text << address - previous->end() << " bytes past the end of the " << previous->bytes << " bytes at 0x"
         << std::hex << previous->begin << " (" << previous->what << ")";
  } else if (near_next) {
    text << next->begin - address << " bytes before the start of the " << next->bytes << " bytes at 0x"
         << std::hex << next->begin << " (" << next->what << ")";
  } else {
    text << "which belongs to no array";
  }
  return text.str();
}

}  // namespace sim
