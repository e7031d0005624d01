#include "common/sim/machine/access.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "common/sim/machine/block.h"
#include "common/sim/machine/cluster.h"
#include "common/sim/machine/faults.h"
#include "common/sim/machine/map.h"

namespace sim {
namespace {

const char* name_of(AccessKind kind) {
  return kind == AccessKind::load ? "read" : kind == AccessKind::store ? "write" : "atomic";
}

const char* name_of(MemorySpace space) {
  switch (space) {
    case MemorySpace::shared:
      return "shared";
    case MemorySpace::local:
      return "local";
    case MemorySpace::parameter:
      return "parameter";
    default:
      return "global";
  }
}

std::string hex(std::uint64_t value) {
  std::ostringstream text;
  text << "0x" << std::hex << value;
  return text.str();
}

/// The name of a place in shared memory: " (word 3 of `values`)", or "" if it is in no __shared__ variable.
std::string word_of_variable(const Warp& warp, std::uint64_t address) {
  constexpr std::uint64_t word = 4;
  for (const SharedVariable& variable : warp.program.shared_variables) {
    if (address < variable.begin || address - variable.begin >= variable.bytes) continue;
    const std::uint64_t offset = address - variable.begin;
    const std::string part =
        variable.bytes > word && offset % word == 0 ? "word " + std::to_string(offset / word) + " of " : "";
    return " (" + part + "`" + variable.name + "`)";
  }
  return "";
}

// ---- Addresses

[[gnu::flatten]] void read_addresses(Access& access, const Operand& operand) {
  const auto offset = static_cast<std::uint64_t>(access.instruction.immediate);
  Addresses& addresses = access.addresses;
  if (operand.bytes == sizeof(std::uint64_t)) {
    const auto* from = access.warp.lanes_of<std::uint64_t>(operand);
    for (std::size_t lane = 0; lane < warp_size; ++lane) addresses[lane] = from[lane] + offset;
  } else {
    const auto* from = access.warp.lanes_of<std::uint32_t>(operand);
    for (std::size_t lane = 0; lane < warp_size; ++lane) {
      addresses[lane] = from[lane] + static_cast<std::uint32_t>(offset);  // wraps at 32 bits
    }
  }
}

Steps steps_of(const Addresses& addresses, std::uint64_t bytes) {
  std::array<LaneMask, warp_size> next{};
  std::array<LaneMask, warp_size> same{};
  for (std::size_t lane = 1; lane < warp_size; ++lane) {
    const std::uint64_t step = addresses[lane] - addresses[lane - 1];
    next[lane] = (step == bytes ? 1U : 0U) << lane;
    same[lane] = (step == 0 ? 1U : 0U) << lane;
  }
  Steps steps;
  for (std::size_t lane = 0; lane < warp_size; ++lane) {
    steps.next |= next[lane];
    steps.same |= same[lane];
  }
  return steps;
}

/// How the addresses lie. Those of lanes that take no part may become the first one's.
[[gnu::flatten]] void measure(Access& access) {
  Addresses& addresses = access.addresses;
  if (is_one_lane(access.lanes)) {
    access.lowest = access.highest = access.address_of(first_lane(access.lanes));
    access.aligned = (access.lowest & (access.bytes - 1)) == 0;
    return;
  }
  if (access.lanes == all_lanes) {
    std::uint64_t different = 0;
    for (std::size_t lane = 0; lane < warp_size; ++lane) {
      different |= addresses[lane] ^ (addresses[0] + lane * access.bytes);
    }
    access.contiguous = different == 0;
  } else {
    const std::uint64_t first = access.address_of(first_lane(access.lanes));
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      addresses[lane] = (access.lanes >> lane & 1U) != 0 ? addresses[lane] : first;
    }
  }
  if (access.contiguous) {
    access.steps = {all_lanes - 1, 0};
    access.lowest = addresses[0];
    access.highest = addresses[warp_size - 1];
    access.aligned = (addresses[0] & (access.bytes - 1)) == 0;
    return;
  }
  access.steps = steps_of(addresses, access.bytes);
  if (Run run; is_one_run(access.lanes, access.steps, run)) {
    access.lowest = access.address_of(run.first);
    access.highest = access.address_of(run.first + run.count - 1);
    access.aligned = (access.lowest & (access.bytes - 1)) == 0;
    return;
  }
  access.lowest = std::numeric_limits<std::uint64_t>::max();
  access.highest = 0;
  std::uint64_t bits = 0;
  for (const std::uint64_t address : addresses) {
    access.lowest = std::min(access.lowest, address);
    access.highest = std::max(access.highest, address);
    bits |= address;
  }
  access.aligned = (bits & (access.bytes - 1)) == 0;
}

struct Window {
  MemorySpace space;
  std::uint64_t begin;
};
constexpr std::array windows{Window{MemorySpace::shared, shared_window},
                             Window{MemorySpace::local, local_window},
                             Window{MemorySpace::parameter, parameter_window}};

/// The window that a generic address points to, or null for global memory.
const Window* window_of(std::uint64_t address) {
  const auto* found = std::find_if(windows.begin(), windows.end(), [address](const Window& window) {
    return address >= window.begin && address - window.begin < window_bytes;
  });
  return found == windows.end() ? nullptr : found;
}

void check_alignment(const Access& access) {
  if (access.aligned) return;
  for_each_lane(access.lanes, [&](int lane) {
    if (access.address_of(lane) % access.bytes == 0) return;
    fault(
        access.warp, lane, FaultKind::misaligned_address,
        "misaligned " + access.describe(lane) + ", which is no multiple of " + std::to_string(access.bytes));
  });
}

void show_to_observers(const Access& access) {
  for (const auto& observer : access.warp.block.launch.observers) observer->see(access);
}

[[noreturn]] void out_of_bounds(const Access& access, int lane, const std::string& where) {
  fault(access.warp, lane, FaultKind::illegal_address,
        "out of bounds: " + access.describe(lane) + ", " + where);
}

// ---- Host memory, by space

Region region_of(Allocation& allocation, std::byte* data) {
  return {data, allocation.begin, &allocation.written, allocation.shadow(), nullptr};
}

/// All lanes lie where their addresses say, `begin` being the address of `data`.
[[gnu::flatten]] void place(Access& access, std::byte* data, std::uint64_t begin) {
  const std::uintptr_t base = reinterpret_cast<std::uintptr_t>(data) - begin;
  if (is_one_lane(access.lanes)) {
    const auto lane = static_cast<std::size_t>(first_lane(access.lanes));
    access.host[lane] = reinterpret_cast<std::byte*>(base + access.addresses[lane]);  // NOLINT
    return;
  }
  std::byte** const host = access.host.data();
  const std::uint64_t* const addresses = access.addresses.data();
  SIM_INDEPENDENT_LANES
  for (int lane = 0; lane < warp_size; ++lane) {
    host[lane] = reinterpret_cast<std::byte*>(base + addresses[lane]);  // NOLINT: of some lanes nowhere
  }
}

/// Memory of another device is there for those to which its access has been enabled.
void check_device(const Access& access, int lane, const Allocation& allocation) {
  const Launch& launch = access.warp.block.launch;
  const unsigned device = launch.configuration.device;
  if (allocation.device == device || launch.memory.reaches(device, allocation)) return;
  fault(access.warp, lane, FaultKind::illegal_address,
        "no access: " + access.describe(lane) + ", byte " +
            std::to_string(access.address_of(lane) - allocation.begin) + " of the " +
            std::to_string(allocation.bytes) + " bytes at " + hex(allocation.begin) + " (" + allocation.what +
            ") of device " + std::to_string(allocation.device) + ", to which device " +
            std::to_string(device) + " has no access (cudaDeviceEnablePeerAccess is missing)");
}

void find_global(Access& access) {
  GlobalMemory& memory = access.warp.block.launch.memory;
  const bool writes = access.kind != AccessKind::load;
  if (memory.may_be_alias(access.highest)) {
    for_each_lane(access.lanes, [&](int lane) {
      std::uint64_t& address = access.addresses[static_cast<std::size_t>(lane)];
      address = memory.without_alias(address);
    });
    measure(access);
  }
  Allocation* allocation = memory.find(access.lowest);
  if (allocation != nullptr && allocation->holds(access.highest, access.bytes)) {
    check_device(access, first_lane(access.lanes), *allocation);
    std::byte* const data = allocation->data_of(access.lowest, access.highest + access.bytes, writes);
    access.regions[0] = region_of(*allocation, data);
    if (access.contiguous) {
      access.host[0] = data + (access.lowest - allocation->begin);
      return;
    }
    place(access, data, allocation->begin);
    return;
  }
  access.contiguous = false;
  access.one_region = false;
  for_each_lane(access.lanes, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    Allocation* own = memory.find(access.addresses[l]);
    if (own == nullptr || !own->holds(access.addresses[l], access.bytes)) {
      access.lanes &= bit(lane) - 1;  // the mistake of an earlier lane is reported first
      if (access.lanes != 0) show_to_observers(access);
      out_of_bounds(access, lane, memory.describe_outside(own == nullptr ? access.addresses[l] : own->end()));
    }
    check_device(access, lane, *own);
    const std::uint64_t address = access.addresses[l];
    access.regions[l] = region_of(*own, own->data_of(address, address + access.bytes, writes));
    access.host[l] = access.regions[l].data + (address - own->begin);
  });
}

/// Each lane's bytes lie from `data_of(lane)` on, `size` of them. `where` says so to people.
template <class DataOfLane, class Where>
void find_within(Access& access, std::size_t size, DataOfLane data_of, Where where) {
  for_each_lane(access.lanes, [&](int lane) {
    const std::uint64_t address = access.address_of(lane);
    if (address > size || size - address < access.bytes) out_of_bounds(access, lane, where());
    access.host[static_cast<std::size_t>(lane)] = data_of(lane) + address;
  });
}

Region shared_region(Block& block) {
  return {block.shared.data(), 0, &block.shared_written, &block.shared_shadow, &block};
}

/// Some of the lanes' addresses are in the shared memory of other blocks.
void find_in_cluster(Access& access) {
  access.contiguous = false;
  access.one_region = false;
  auto& blocks = access.warp.block.cluster->blocks;
  for_each_lane(access.lanes, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    const std::uint64_t rank = access.addresses[l] >> cluster_rank_shift;
    const std::uint64_t offset = access.addresses[l] & ((1U << cluster_rank_shift) - 1);
    if (rank > blocks.size())
      out_of_bounds(access, lane, "and the cluster has " + std::to_string(blocks.size()) + " blocks");
    Block& owner = rank == 0 ? access.warp.block : blocks[rank - 1];
    if (offset > owner.shared_bytes || owner.shared_bytes - offset < access.bytes) {
      out_of_bounds(access, lane, "and a block has " + std::to_string(owner.shared_bytes) + " bytes");
    }
    check_is_there(access.warp, lane, owner);
    access.regions[l] = shared_region(owner);
    access.regions[l].begin = access.addresses[l] - offset;
    access.host[l] = owner.shared.data() + offset;
  });
}

void find_shared(Access& access) {
  Block& block = access.warp.block;
  std::vector<std::byte>& memory = block.shared;
  const std::size_t size = access.lowest < block.reserved_shared ? block.shared_bytes : memory.size();
  access.regions[0] = shared_region(block);
  if (access.highest >> cluster_rank_shift != 0) return find_in_cluster(access);
  if (access.contiguous && access.highest < size && size - access.highest >= access.bytes) {
    access.host[0] = memory.data() + access.lowest;
    return;
  }
  access.contiguous = false;
  if (access.highest < size && size - access.highest >= access.bytes) {
    return place(access, memory.data(), 0);
  }
  const auto where = [&] {
    std::string text = std::to_string(size) + " bytes";
    const std::size_t dynamic = block.launch.configuration.dynamic_shared_bytes;
    if (dynamic > 0 && dynamic < size) {
      text += ": " + std::to_string(size - dynamic) + " of its __shared__ variables, then the " +
              std::to_string(dynamic) + " of the launch";
    }
    return "and the block has " + text;
  };
  find_within(
      access, size, [&](int) { return memory.data(); }, where);
}

/// Each lane has its own; it is neither counted nor watched.
void find_local(Access& access) {
  access.contiguous = false;
  const std::uint32_t size = access.warp.program.local_bytes;
  find_within(
      access, size, [&](int lane) { return access.warp.local_of(lane); },
      [&] { return "and a thread has " + std::to_string(size) + " bytes"; });
  if (access.kind != AccessKind::load) ++access.warp.block.launch.progress;
}

void find_parameter(Access& access) {
  access.contiguous = false;
  const std::vector<std::byte>& parameters = access.warp.block.launch.configuration.parameters;
  const auto where = [&] { return "and the kernel has " + std::to_string(parameters.size()) + " bytes"; };
  if (access.kind != AccessKind::load) out_of_bounds(access, first_lane(access.lanes), where());
  find_within(
      access, parameters.size(), [&](int) { return const_cast<std::byte*>(parameters.data()); }, where);
}

/// Finds the memory of an access all of whose lanes are in access.space.
void find(Access& access) {
  measure(access);
  check_alignment(access);
  switch (access.space) {
    case MemorySpace::shared:
      find_shared(access);
      break;
    case MemorySpace::local:
      find_local(access);
      break;
    case MemorySpace::parameter:
      find_parameter(access);
      break;
    default:
      find_global(access);
  }
}

void access_space(Access& access) {
  find(access);
  if (access.space == MemorySpace::local || access.space == MemorySpace::parameter) return;
  show_to_observers(access);
  if (access.kind == AccessKind::store) ++access.warp.block.launch.progress;
}

}  // namespace

std::string Access::describe(int lane) const {
  return std::string(name_of(kind)) + " of " + std::to_string(bytes) + " bytes of " + name_of(space) +
         " memory at " +
         (is_shared() ? "byte " + std::to_string(address_of(lane)) + word_of_variable(warp, address_of(lane))
                      : hex(address_of(lane)));
}

Region locate(Warp& warp, const Instruction& instruction, LaneMask lane, const Operand& address,
              AccessKind kind, std::byte*& data) {
  HostAccess result;
  Access access(warp, instruction, kind, lane, nullptr, result);
  read_addresses(access, address);
  access.space = instruction.space;
  find(access);
  const auto l = static_cast<std::size_t>(first_lane(lane));
  data = result.host[l];
  Region region = access.regions[access.one_region ? 0 : l];
  region.begin = region.owner != nullptr ? 0 : region.begin;
  return region;
}

void check_is_there(const Warp& warp, int lane, const Block& other) {
  Block& block = warp.block;
  if (&other == &block) return;
  if (other.done) {
    fault(warp, lane, FaultKind::race,
          "access to the shared memory of block " + describe_point(other.index) +
              " of the cluster, which has returned (a cluster barrier before its end is missing)");
  }
  const LaunchOrder& order = block.launch.order;
  if (block.acquired.of(other.id, order) == nullptr &&
      warp.acquired.of(other.id, order, &block.acquired) == nullptr) {
    fault(warp, lane, FaultKind::race,
          "access to the shared memory of block " + describe_point(other.index) +
              " of the cluster, which need not have started (a cluster barrier before is missing)");
  }
  const_cast<Block&>(other).read_by_others = true;
}

HostAccess access_memory(Warp& warp, const Instruction& instruction, LaneMask lanes, const Operand& address,
                         AccessKind kind, ValueOfLane value_of) {
  HostAccess result;
  Access access(warp, instruction, kind, lanes, value_of, result);
  read_addresses(access, address);
  if (instruction.space != MemorySpace::generic) {
    access.space = instruction.space;
    access_space(access);
    result.contiguous = access.contiguous;
    if (access.is_shared()) result.shared_lanes = lanes;
    return result;
  }
  // Generic addresses: the lanes of each space by themselves.
  while (lanes != 0) {
    const Window* window = window_of(access.addresses[static_cast<std::size_t>(first_lane(lanes))]);
    HostAccess own;
    Access part(warp, instruction, kind, 0, value_of, own);
    for_each_lane(lanes, [&](int lane) {
      if (window_of(access.address_of(lane)) == window) part.lanes |= bit(lane);
    });
    for (std::size_t lane = 0; lane < warp_size; ++lane) {
      part.addresses[lane] = access.addresses[lane] - (window == nullptr ? 0 : window->begin);
    }
    part.space = window == nullptr ? MemorySpace::global : window->space;
    access_space(part);
    if (part.contiguous) {
      own.contiguous = true;
      if (part.is_shared()) own.shared_lanes = part.lanes;
      return own;
    }
    if (part.is_shared()) result.shared_lanes |= part.lanes;
    for_each_lane(part.lanes, [&](int lane) {
      result.host[static_cast<std::size_t>(lane)] = own.host[static_cast<std::size_t>(lane)];
    });
    lanes &= ~part.lanes;
  }
  return result;
}

}  // namespace sim
