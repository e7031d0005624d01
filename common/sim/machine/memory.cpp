#include "common/sim/machine/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>

namespace sim {
namespace {

/// Between two allocations, so that a row too many lands in none. Addresses cost nothing.
constexpr std::uint64_t gap = std::uint64_t{1} << 20;
/// So near to memory of the host that kernels may use, an address is one that is out of its bounds.
constexpr std::uint64_t gap_on_host = 4096;
/// Above this an allocation is not watched for races: the watch takes four times as much memory.
constexpr std::size_t most_watched_bytes = std::size_t{1} << 28;

/// Is there memory of this process?
bool is_mapped(std::uint64_t address) {
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): asked about, not followed
  return msync(reinterpret_cast<void*>(address / page_bytes * page_bytes), 1, MS_ASYNC) == 0;
}

}  // namespace

Allocation::Allocation(std::uint64_t first_address, std::size_t size, std::string description,
                       MemoryKind whose, Data memory, unsigned of_device)
    : begin(first_address),
      bytes(size),
      what(std::move(description)),
      kind(whose),
      data(std::move(memory)),
      written(size),
      device(of_device) {
  if (kind != MemoryKind::device) written.add(0, size);
}

/// Memory that the host shares is unmapped, so that it cannot be used afterwards, nor taken for memory that is there.
void Allocation::Release::operator()(std::byte* memory) const {
  if (kind == MemoryKind::device) std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
  if (kind == MemoryKind::managed || kind == MemoryKind::host) munmap(memory, bytes);
}

RaceShadow* Allocation::shadow() {
  if (!shadow_ && (bytes <= most_watched_bytes || pages)) shadow_ = std::make_unique<RaceShadow>(bytes);
  return shadow_.get();
}

bool Allocation::meet(Allocation& a, Allocation& b) {
  return RaceShadow::meet(*a.shadow(), 1, *b.shadow(), 1, std::max(a.pages->begin(), b.pages->begin()),
                          std::min(a.pages->end(), b.pages->end()));
}

bool Allocation::meets(Allocation& view, Stamp launch_begin) {
  if (shadow() == nullptr) return view.pages->own() != nullptr;  // unknown
  return RaceShadow::meet(*shadow(), launch_begin, *view.shadow(), 1, view.pages->begin(), view.pages->end());
}

void Allocation::take_over(Allocation& view, Stamp launch_begin) {
  const std::size_t first = view.pages->begin();
  const std::size_t end = view.pages->end();
  if (shadow() != nullptr) shadow()->take_over(*view.shadow(), launch_begin, first, end);
  if (view.pages->own() == nullptr) return;
  view.shadow()->for_each_written(first, end, [&](std::size_t offset, std::size_t count) {
    count = std::min(count, bytes - offset);
    std::memcpy(data.get() + offset, view.pages->own() + offset, count);
    written.add(offset, count);
  });
}

std::byte* PrivatePages::use(std::size_t begin, std::size_t end, bool writes) {
  constexpr std::size_t page_bytes = 4096;
  begin_ = std::min(begin_, begin);
  end_ = std::max(end_, end);
  if (!writes && !own_) return below_;
  if (!own_) {
    own_.reset(static_cast<std::byte*>(std::malloc(bytes_)));  // NOLINT: filled page by page
    if (!own_) throw std::bad_alloc();
    is_own_.resize(bytes_ / page_bytes + 1);
  }
  const std::size_t first = begin / page_bytes;
  const std::size_t last = (end - 1) / page_bytes;
  bool any_own = writes;
  for (std::size_t page = first; page <= last && !any_own; ++page) any_own = is_own_[page];
  if (!any_own) return below_;
  for (std::size_t page = first; page <= last; ++page) {
    if (is_own_[page]) continue;
    const std::size_t offset = page * page_bytes;
    std::memcpy(own_.get() + offset, below_ + offset, std::min(page_bytes, bytes_ - offset));
    is_own_[page] = true;
  }
  return own_.get();
}

bool GlobalMemory::join(std::span<GlobalMemory* const> views) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    for (const auto& [end, allocation] : views[i]->allocations_) {
      if (allocations_.at(end)->meets(*allocation, launch_begin_)) return false;
      for (GlobalMemory* other : views.subspan(i + 1)) {
        const auto found = other->allocations_.find(end);
        if (found != other->allocations_.end() && Allocation::meet(*allocation, *found->second)) return false;
      }
    }
  }
  for (GlobalMemory* view : views) {
    for (const auto& [end, allocation] : view->allocations_) {
      allocations_.at(end)->take_over(*allocation, launch_begin_);
    }
  }
  return true;
}

std::uint64_t GlobalMemory::allocate(std::size_t bytes, std::string what, unsigned device,
                                     std::uint64_t alignment) {
  const std::uint64_t address = (next_address_ + alignment - 1) / alignment * alignment;
  if (bytes > free_bytes(device) || bytes > end_of_addresses - address - gap) return 0;
  // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): not initialised twice
  Allocation::Data data(static_cast<std::byte*>(std::malloc(bytes)), {MemoryKind::device, bytes});
  if (!data) return 0;
  std::memset(data.get(), 0xff, bytes);
  std::unique_ptr<Allocation> allocation;
  try {
    allocation = std::make_unique<Allocation>(address, bytes, std::move(what), MemoryKind::device,
                                              std::move(data), device);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  allocations_[allocation->end()] = std::move(allocation);
  used_bytes_.at(device) += bytes;
  next_address_ = address + (bytes + gap + alignment - 1) / alignment * alignment;
  return address;
}

void* GlobalMemory::allocate_host(std::size_t bytes, std::string what, MemoryKind kind, unsigned device) {
  if (bytes > total_bytes_) return nullptr;
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  Allocation::Data data(static_cast<std::byte*>(mapped), {kind, bytes});
  void* const first = data.get();
  const auto address = reinterpret_cast<std::uint64_t>(first);
  allocations_[address + bytes] =
      std::make_unique<Allocation>(address, bytes, std::move(what), kind, std::move(data), device);
  return first;
}

void GlobalMemory::register_host(void* first, std::size_t bytes, unsigned device) {
  const auto address = reinterpret_cast<std::uint64_t>(first);
  allocations_[address + bytes] = std::make_unique<Allocation>(
      address, bytes, "cudaHostRegister", MemoryKind::registered,
      Allocation::Data(static_cast<std::byte*>(first), {MemoryKind::registered, bytes}), device);
}

bool GlobalMemory::free(std::uint64_t address) {
  const auto found = allocations_.upper_bound(address);
  if (found == allocations_.end() || found->second->begin != address) return false;
  if (found->second->kind == MemoryKind::device)
    used_bytes_.at(found->second->device) -= found->second->bytes;
  freed_[found->first] = {found->second->begin, found->first, found->second->what};
  allocations_.erase(found);
  latest_ = nullptr;
  return true;
}

std::uint64_t GlobalMemory::reserve_aliases(std::uint64_t bytes) {
  const std::uint64_t reserved = (bytes + window_bytes - 1) / window_bytes * window_bytes;
  if (reserved > end_of_aliases - next_alias_) return 0;
  next_alias_ += reserved;
  return next_alias_ - reserved;
}

void GlobalMemory::set_alias(std::uint64_t alias, std::uint64_t address, std::size_t bytes) {
  aliases_[alias + bytes] = {alias, address};
}

std::uint64_t GlobalMemory::without_alias(std::uint64_t address) const {
  if (!may_be_alias(address)) return address;
  const auto& aliases = below_ == nullptr ? aliases_ : below_->aliases_;
  const auto found = aliases.upper_bound(address);
  if (found == aliases.end() || address < found->second.begin) return address;
  return found->second.address + (address - found->second.begin);
}

bool GlobalMemory::set_peer(unsigned device, unsigned peer, bool enabled) {
  const std::uint32_t before = peers_.at(device);
  peers_.at(device) = enabled ? before | 1U << peer : before & ~(1U << peer);
  return peers_.at(device) != before;
}

Allocation* GlobalMemory::find(std::uint64_t address) {
  if (latest_ != nullptr && latest_->holds(address, 1)) return latest_;
  const auto found = allocations_.upper_bound(address);
  if (found != allocations_.end() && found->second->holds(address, 1)) return latest_ = found->second.get();
  if (below_ == nullptr) return nullptr;
  const auto below = below_->allocations_.upper_bound(address);
  if (below == below_->allocations_.end() || !below->second->holds(address, 1)) return nullptr;
  const Allocation& viewed = *below->second;
  auto view =
      std::make_unique<Allocation>(viewed.begin, viewed.bytes, viewed.what, viewed.kind,
                                   Allocation::Data(nullptr, {viewed.kind, viewed.bytes}), viewed.device);
  view->written = viewed.written;
  view->pages = std::make_unique<PrivatePages>(viewed.data.get(), viewed.bytes);
  latest_ = view.get();
  allocations_[viewed.end()] = std::move(view);
  return latest_;
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

bool GlobalMemory::copy_within(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  if (bytes == 0) return true;
  Allocation* target = find_whole(to, bytes);
  const Allocation* source = find_whole(from, bytes);
  if (target == nullptr || source == nullptr) return false;
  std::memmove(target->at(to), source->at(from), bytes);
  target->written.copy(to - target->begin, source->written, from - source->begin, bytes);
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

std::string GlobalMemory::why_not_free(std::uint64_t address) {
  std::ostringstream text;
  if (const Allocation* inside = find(address)) {
    text << "it is " << address - inside->begin << " bytes into the " << inside->bytes << " bytes at 0x"
         << std::hex << inside->begin << " (" << inside->what << ")";
    return text.str();
  }
  const auto freed = freed_.upper_bound(address);
  if (freed == freed_.end() || freed->second.begin != address) return "nothing was allocated there";
  text << "the " << freed->second.end - freed->second.begin << " bytes at 0x" << std::hex << address << " ("
       << freed->second.what << ") have been freed before";
  return text.str();
}

std::string GlobalMemory::describe_outside(std::uint64_t address) const {
  std::ostringstream text;
  const bool is_device = is_device_address(address);
  if (const auto freed = freed_.upper_bound(address);
      freed != freed_.end() && address >= freed->second.begin && (is_device || !is_mapped(address))) {
    text << address - freed->second.begin << " bytes into memory that was freed ("
         << freed->second.end - freed->second.begin << " bytes at 0x" << std::hex << freed->second.begin
         << ")";
    return text.str();
  }
  const auto after = allocations_.upper_bound(address);
  const Allocation* next = after == allocations_.end() ? nullptr : after->second.get();
  const Allocation* previous = after == allocations_.begin() ? nullptr : std::prev(after)->second.get();
  const std::uint64_t near = is_device ? gap : gap_on_host;
  const bool near_previous = previous != nullptr && address - previous->end() < near;
  const bool near_next = next != nullptr && next->begin - address < near;
  if (near_previous && (!near_next || address - previous->end() < next->begin - address)) {
    text << address - previous->end() << " bytes past the end of the " << previous->bytes << " bytes at 0x"
         << std::hex << previous->begin << " (" << previous->what << ")";
  } else if (near_next) {
    text << next->begin - address << " bytes before the start of the " << next->bytes << " bytes at 0x"
         << std::hex << next->begin << " (" << next->what << ")";
  } else if (is_mapped(address)) {
    text << "which is a host pointer: kernels reach the memory of cudaMalloc, cudaMallocManaged, "
            "cudaMallocHost and "
            "cudaHostRegister, and no other";
  } else {
    text << "which belongs to no array";
  }
  return text.str();
}

}  // namespace sim
