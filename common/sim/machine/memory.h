// Device memory: allocations at addresses of the simulated device, which the host cannot read by accident,
// and which are the same in every run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/sim/machine/byte_set.h"
#include "common/sim/machine/races.h"
#include "common/sim/machine/scratch.h"

namespace sim {

/// Generic addresses: each of these spaces has a window of its own, and addresses outside of all windows are
/// global.
inline constexpr std::uint64_t window_bytes = std::uint64_t{1} << 32;
inline constexpr std::uint64_t shared_window = std::uint64_t{1} << 48;
inline constexpr std::uint64_t local_window = std::uint64_t{2} << 48;
inline constexpr std::uint64_t parameter_window = std::uint64_t{3} << 48;

inline constexpr unsigned most_devices = 16;

/// Whose memory it is. All but the device's has the same address on the host, and counts as written.
enum class MemoryKind : std::uint8_t { device, managed, host, registered };

/// A private copy of an allocation, of which only the written pages exist.
class PrivatePages {
 public:
  PrivatePages(std::byte* below, std::size_t bytes) : below_(below), bytes_(bytes), begin_(bytes) {}
  /// The memory in which the bytes from `begin` to `end` are found, at their offsets.
  std::byte* use(std::size_t begin, std::size_t end, bool writes);
  [[nodiscard]] const std::byte* own() const { return own_.get(); }
  // All used memory is between them.
  [[nodiscard]] std::size_t begin() const { return begin_; }
  [[nodiscard]] std::size_t end() const { return end_; }

 private:
  std::byte* below_;
  std::size_t bytes_;
  std::size_t begin_;
  std::size_t end_ = 0;
  Scratch::Piece::Data own_;  // null before the first write
  std::vector<bool> is_own_;  // by page
};

struct Allocation {
  struct Release {
    MemoryKind kind;
    std::size_t bytes;
    void operator()(std::byte* memory) const;
  };
  using Data = std::unique_ptr<std::byte, Release>;
  Allocation(std::uint64_t first_address, std::size_t size, std::string description, MemoryKind whose,
             Data memory, unsigned of_device);

  [[nodiscard]] std::uint64_t end() const { return begin + bytes; }
  [[nodiscard]] bool holds(std::uint64_t address, std::uint64_t count) const {
    return address >= begin && count <= bytes && address - begin <= bytes - count;
  }
  [[nodiscard]] std::byte* at(std::uint64_t address) const { return data.get() + (address - begin); }
  /// The memory in which an access to the addresses from `first` to `last` finds its bytes, at their offsets.
  [[nodiscard]] std::byte* data_of(std::uint64_t first, std::uint64_t last, bool writes) const {
    return pages ? pages->use(first - begin, last - begin, writes) : data.get();
  }
  /// Has what ran at the same time in these two views of an allocation to do with one another?
  static bool meet(Allocation& a, Allocation& b);
  /// And with what the launch did here?
  bool meets(Allocation& view, Stamp launch_begin);
  void take_over(Allocation& view, Stamp launch_begin);
  /// Made when it is first wanted; null for an allocation too large to be watched.
  RaceShadow* shadow();
  void forget_races() {
    if (shadow_) shadow_->clear();
  }

  std::uint64_t begin;
  std::size_t bytes;
  std::string what;  ///< for people: "cudaMalloc" or "variable x"
  MemoryKind kind;
  Data data;
  ByteSet written;
  unsigned device;                      ///< that was current when it was allocated
  bool for_all_devices = false;         ///< whatever access they have enabled
  std::unique_ptr<PrivatePages> pages;  ///< of a view

 private:
  std::unique_ptr<RaceShadow> shadow_;
};

class GlobalMemory {
 public:
  /// `total_bytes`: of each device.
  explicit GlobalMemory(std::size_t total_bytes) : total_bytes_(total_bytes) {}
  /// A view of a memory: writes stay in the view. Views can be used at the same time, each by one thread.
  explicit GlobalMemory(const GlobalMemory* below)
      : total_bytes_(below->total_bytes_),
        launches_(below->launches_ - 1),
        below_(below),
        next_alias_(below->next_alias_) {}
  /// Takes over the accesses of views during this launch, as if they had run one after the other; false, and
  /// nothing done, if accesses of one conflict with accesses of another, or here.
  bool join(std::span<GlobalMemory* const> views);

  /// Filled with 0xff, which is NaN in every floating-point type. 0 when there is not that much left.
  std::uint64_t allocate(std::size_t bytes, std::string what, unsigned device = 0,
                         std::uint64_t alignment = 256);
  /// Memory of the host, filled with zeros, that kernels use at the same address; null when there is not that much left.
  void* allocate_host(std::size_t bytes, std::string what, MemoryKind kind, unsigned device = 0);
  /// Memory of the host that is there already, and stays when it is freed here.
  void register_host(void* first, std::size_t bytes, unsigned device = 0);
  /// False when no allocation begins there.
  bool free(std::uint64_t address);
  /// "the 1024 bytes at 0x... (cudaMalloc) have been freed before", for an address that cannot be freed.
  [[nodiscard]] std::string why_not_free(std::uint64_t address);
  /// The allocation that holds this address; null when none does.
  Allocation* find(std::uint64_t address);

  // The host's side. False when the range does not lie in one allocation.
  bool copy_in(std::uint64_t to, const void* from, std::size_t bytes);
  bool copy_out(void* to, std::uint64_t from, std::size_t bytes);
  /// From device to device: unwritten bytes are unwritten at their new place as well.
  bool copy_within(std::uint64_t to, std::uint64_t from, std::size_t bytes);
  bool fill(std::uint64_t to, int value, std::size_t bytes);
  bool forget(std::uint64_t first, std::size_t bytes);
  /// Time as the race shadows know it: the next moment. It begins anew when it has run out of bits.
  Stamp next_time();
  void begin_launch() {
    launch_before_ = launch_begin_;
    launch_begin_ = next_time();
    if (launch_begin_ < launch_before_) launch_before_ = launch_begin_;
    ++launches_;
  }
  /// Moments of this launch until now.
  [[nodiscard]] std::uint32_t moments() const { return (now_ - launch_begin_) >> stamp_time_shift; }
  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  [[nodiscard]] Stamp launch_begin() const { return launch_begin_; }
  [[nodiscard]] Stamp launch_before() const { return launch_before_; }
  [[nodiscard]] Stamp now() const { return now_; }
  [[nodiscard]] static bool is_device_address(std::uint64_t address);
  Scratch scratch;  ///< for the registers of blocks

  [[nodiscard]] std::size_t total_bytes() const { return total_bytes_; }
  [[nodiscard]] std::size_t free_bytes(unsigned device = 0) const {
    return total_bytes_ - used_bytes_.at(device);
  }

  /// Whether kernels of the device may use the allocation.
  [[nodiscard]] bool reaches(unsigned device, const Allocation& allocation) const {
    return allocation.device == device || allocation.kind != MemoryKind::device ||
           allocation.for_all_devices || (peers_.at(device) >> allocation.device & 1U) != 0;
  }
  /// Addresses at which other memory can be found once more, a multiple of 4 GiB of them; 0 when there are not that many.
  std::uint64_t reserve_aliases(std::uint64_t bytes);
  void set_alias(std::uint64_t alias, std::uint64_t address, std::size_t bytes);
  [[nodiscard]] bool may_be_alias(std::uint64_t address) const {
    return address >= first_alias && address < next_alias_;
  }
  /// The address that an alias stands for, or itself.
  [[nodiscard]] std::uint64_t without_alias(std::uint64_t address) const;
  /// For cudaDeviceEnablePeerAccess and its opposite. False if that was the state before.
  bool set_peer(unsigned device, unsigned peer, bool enabled);

  /// "4 bytes past the end of the 1024 bytes at 0x...", for an address that no allocation holds.
  [[nodiscard]] std::string describe_outside(std::uint64_t address) const;

 private:
  Allocation* find_whole(std::uint64_t address, std::size_t bytes);

  std::size_t total_bytes_;
  std::array<std::size_t, most_devices> used_bytes_{};
  std::array<std::uint32_t, most_devices> peers_{};  ///< whose memory each may use: bits
  Stamp now_ = 0;
  Stamp launch_begin_ = 0;
  Stamp launch_before_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t next_address_ = first_address;
  std::map<std::uint64_t, std::unique_ptr<Allocation>> allocations_;  // by their end
  const GlobalMemory* below_ = nullptr;                               // of a view
  Allocation* latest_ = nullptr;                                      ///< the one found last
  struct Freed {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::string what;
  };
  std::map<std::uint64_t, Freed> freed_;  // by their end

  // Operating systems do not put a process's own memory at these addresses.
  static constexpr std::uint64_t first_address = std::uint64_t{0x1000} << 32;
  static constexpr std::uint64_t end_of_addresses = std::uint64_t{0x4800} << 32;
  static constexpr std::uint64_t first_alias = end_of_addresses;
  static constexpr std::uint64_t end_of_aliases = std::uint64_t{0x5000} << 32;
  std::uint64_t next_alias_ = first_alias;
  struct Alias {
    std::uint64_t begin = 0;
    std::uint64_t address = 0;
  };
  std::map<std::uint64_t, Alias> aliases_;  // by their end
};

}  // namespace sim
