// What NCCL's device API, whose kernels are in its headers alone, needs of the host: memory of each rank at addresses that
// are a number of 4 GiB apart, and structures that tell kernels where. As in NCCL 2.28.7, whose layout they have; without
// multicast and without a network.
#include <algorithm>
#include <cstring>

#include "common/sim/nccl/communicator.h"

using nccl::OnDevice;
using nccl::refuse;
using nccl::simulator;

// ---- As nccl_device.h has them

struct ncclWindow_vidmem {
  void* winHost;
  std::uint64_t lsaFlatBase;
  int lsaRank;
  int worldRank;
  std::uint32_t stride4G;
  std::uint32_t mcOffset4K;
  std::uint32_t ginOffset4K;
  std::array<void*, 4> ginWins;
};

struct ncclDevResourceRequirements {
  ncclDevResourceRequirements* next;
  std::size_t bufferSize;
  std::size_t bufferAlign;
  std::uint32_t* outBufferHandle;
  int ginSignalCount;
  int ginCounterCount;
  std::uint32_t* outGinSignalStart;
  std::uint32_t* outGinCounterStart;
};

struct ncclTeamRequirements {
  ncclTeamRequirements* next;
  ncclTeam team;
  bool multimem;
  void** outMultimemHandle;
};

struct ncclDevCommRequirements {
  ncclDevResourceRequirements* resourceRequirementsList;
  ncclTeamRequirements* teamRequirementsList;
  bool lsaMultimem;
  int barrierCount;
  int lsaBarrierCount;
  int railGinBarrierCount;
  int lsaLLA2ABlockCount;
  int lsaLLA2ASlotCount;
  bool ginForceEnable;
  int ginContextCount;
  int ginSignalCount;
  int ginCounterCount;
};

struct ncclDevComm {
  int rank;
  int nRanks;
  std::uint32_t nRanks_rcp32;
  int lsaRank;
  int lsaSize;
  std::uint32_t lsaSize_rcp32;
  void* windowTable;
  ncclWindow_vidmem* resourceWindow;
  ncclWindow_vidmem resourceWindow_inlined;
  void* lsaMultimem;
  ncclLsaBarrierHandle lsaBarrier;
  std::array<std::uint32_t, 2> railGinBarrier;
  std::uint8_t ginContextCount;
  std::array<std::uint8_t, 4> ginTypes;
  std::array<void*, 4> ginHandles;
  std::uint32_t ginSignalBase;
  int ginSignalCount;
  std::uint32_t ginCounterBase;
  int ginCounterCount;
  std::uint64_t* ginSignalShadows;
};

namespace {

constexpr std::size_t page = 4096;         // NCCL_WIN_REQUIRED_ALIGNMENT
constexpr std::size_t handle_bytes = 128;  // the unit of a resource's handle
constexpr std::size_t windows_in_table = 32;

struct WindowTable {
  std::array<ncclComm::Window, windows_in_table> entries;
  void* next;
};

/// For idivFast32() of the headers.
std::uint32_t reciprocal(std::uint32_t x) {
  return ~std::uint32_t{0} / x + ((x & (x - 1)) == 0 ? 1 : 0);
}

/// A copy in memory of the current device; null when there is no more.
template <class T>
T* on_device(const T& value) {
  void* copy = nullptr;
  if (cudaMalloc(&copy, sizeof value) != cudaSuccess) return nullptr;
  (void)cudaMemcpy(copy, &value, sizeof value, cudaMemcpyHostToDevice);
  return static_cast<T*>(copy);
}

/// Makes this rank's memory known to the others: the k-th of each rank belong together. False when addresses have run out.
bool make_flat(ncclComm& comm, void* memory, std::size_t bytes, ncclWindow_vidmem& window) {
  constexpr std::uint64_t step = sim::window_bytes;
  nccl::Clique& clique = *comm.clique;
  const std::lock_guard lock(clique.mutex);
  const std::size_t number = comm.flat++;
  if (number == clique.flat.size()) {
    const std::uint64_t stride = (bytes + step - 1) / step * step;
    clique.flat.push_back(
        {simulator().reserve_aliases(stride * static_cast<std::uint64_t>(comm.size())), stride});
  }
  const nccl::FlatMemory& flat = clique.flat[number];
  if (flat.first == 0 || bytes > flat.stride) return false;
  simulator().set_alias(flat.first + static_cast<std::uint64_t>(comm.rank) * flat.stride, memory, bytes);
  window.lsaFlatBase = flat.first;
  window.lsaRank = comm.rank;
  window.worldRank = comm.rank;
  window.stride4G = static_cast<std::uint32_t>(flat.stride / step);
  return true;
}

/// Places one after the other, from the beginning of the resources.
class Resources {
 public:
  std::uint32_t add(std::size_t bytes, std::size_t alignment) {
    const std::size_t whole = std::max(alignment, handle_bytes);
    const std::size_t begin = (bytes_ + whole - 1) / whole * whole;
    bytes_ = begin + bytes;
    return static_cast<std::uint32_t>(begin / handle_bytes);
  }
  [[nodiscard]] std::size_t bytes() const { return std::max<std::size_t>(bytes_, 1); }

 private:
  std::size_t bytes_ = 0;
};

std::size_t barrier_bytes(int ranks, int barriers) {
  return sizeof(std::uint32_t) * static_cast<std::size_t>(barriers) * static_cast<std::size_t>(3 + ranks);
}

/// "" where it is simulated.
std::string why_not(const ncclDevCommRequirements& wanted) {
  constexpr std::uint32_t magic = 0xcafebeef;
  std::uint32_t second = 0;
  std::memcpy(&second, &wanted.teamRequirementsList, sizeof second);
  if (second == magic) return "the program is compiled with a newer nccl_device.h than that of NCCL 2.28";
  if (wanted.lsaMultimem) return "multicast (lsaMultimem) is not simulated";
  for (const auto* team = wanted.teamRequirementsList; team != nullptr; team = team->next) {
    if (team->multimem) return "multicast (of a team) is not simulated";
  }
  if (wanted.ginForceEnable || wanted.railGinBarrierCount > 0) {
    return "the network (GIN) is not simulated (or the program is compiled with nccl_device.h of before NCCL "
           "2.28.7)";
  }
  if (wanted.lsaLLA2ABlockCount > 0) return "exchange by LLA2A is not simulated";
  return "";
}

}  // namespace

extern "C" {

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  if (memory == nullptr || bytes == 0) return refuse(ncclInvalidArgument, "ncclMemAlloc of nothing");
  *memory = simulator().allocate(bytes);
  return *memory != nullptr ? ncclSuccess : refuse(ncclUnhandledCudaError, "ncclMemAlloc: out of memory");
}
ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommWindowRegister(ncclComm* comm, void* memory, std::size_t bytes,
                                    ncclWindow_vidmem** window, int /*flags*/) {
  if (comm == nullptr || window == nullptr || bytes == 0) {
    return refuse(ncclInvalidArgument, "ncclCommWindowRegister without a communicator, a window or bytes");
  }
  if (nccl::would_wait_for_ever(comm->size())) {
    return refuse(ncclInvalidUsage,
                  "ncclCommWindowRegister outside of a group (ncclGroupStart), by the only thread: "
                  "it would wait there for the other ranks");
  }
  cudaPointerAttributes attributes{};
  (void)cudaPointerGetAttributes(&attributes, memory);
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  if (!simulator().is_for_all(memory) || attributes.device != comm->device || address % page != 0) {
    return refuse(ncclInvalidArgument,
                  "ncclCommWindowRegister: a window is memory of ncclMemAlloc, of the rank's own device, "
                  "and begins at a multiple of 4096 bytes");
  }
  const OnDevice device(comm->device);
  ncclWindow_vidmem made{};
  if (!make_flat(*comm, memory, bytes, made)) {
    return refuse(ncclInvalidArgument, "ncclCommWindowRegister: the windows of all ranks have the same size");
  }
  *window = on_device(made);
  comm->windows.push_back({address, bytes, *window});
  return *window != nullptr ? ncclSuccess : refuse(ncclUnhandledCudaError, "a window: out of memory");
}
ncclResult_t ncclCommWindowDeregister(ncclComm* comm, ncclWindow_vidmem* window) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "ncclCommWindowDeregister without a communicator");
  std::erase_if(comm->windows, [window](const auto& known) { return known.window == window; });
  return cudaFree(window) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclDevCommCreate(ncclComm* comm, const ncclDevCommRequirements* wanted, ncclDevComm* made) {
  if (comm == nullptr || wanted == nullptr || made == nullptr) {
    return refuse(ncclInvalidArgument, "ncclDevCommCreate with a null pointer");
  }
  if (nccl::would_wait_for_ever(comm->size())) {
    return refuse(ncclInvalidUsage,
                  "ncclDevCommCreate outside of a group (ncclGroupStart), by the only thread: "
                  "it would wait there for the other ranks");
  }
  if (const std::string why = why_not(*wanted); !why.empty()) return refuse(ncclInvalidArgument, why);
  const OnDevice device(comm->device);
  *made = {};
  made->rank = made->lsaRank = comm->rank;
  made->nRanks = made->lsaSize = comm->size();
  made->nRanks_rcp32 = made->lsaSize_rcp32 = reciprocal(static_cast<std::uint32_t>(comm->size()));
  Resources resources;
  const int barriers = std::max(wanted->barrierCount, wanted->lsaBarrierCount);
  made->lsaBarrier = {resources.add(barrier_bytes(comm->size(), barriers), handle_bytes), barriers};
  for (const auto* own = wanted->resourceRequirementsList; own != nullptr; own = own->next) {
    const std::uint32_t handle = resources.add(own->bufferSize, own->bufferAlign);
    if (own->outBufferHandle != nullptr) *own->outBufferHandle = handle;
  }
  void* memory = simulator().allocate(resources.bytes());
  if (memory == nullptr || !make_flat(*comm, memory, resources.bytes(), made->resourceWindow_inlined)) {
    return refuse(ncclUnhandledCudaError, "ncclDevCommCreate: out of memory, or not the same for all ranks");
  }
  (void)cudaMemset(memory, 0, resources.bytes());
  made->resourceWindow = on_device(made->resourceWindow_inlined);
  comm->windows.push_back({reinterpret_cast<std::uint64_t>(memory), resources.bytes(), made->resourceWindow});
  WindowTable table{};
  std::copy_n(comm->windows.begin(), std::min(comm->windows.size(), windows_in_table), table.entries.begin());
  made->windowTable = on_device(table);
  (void)cudaDeviceSynchronize();
  return ncclSuccess;
}
ncclResult_t ncclDevCommDestroy(ncclComm* comm, const ncclDevComm* made) {
  if (comm == nullptr || made == nullptr) {
    return refuse(ncclInvalidArgument, "ncclDevCommDestroy with a null pointer");
  }
  const auto resources = std::find_if(comm->windows.begin(), comm->windows.end(), [made](const auto& known) {
    return known.window == made->resourceWindow;
  });
  if (resources == comm->windows.end()) return refuse(ncclInvalidArgument, "ncclDevCommDestroy of none");
  (void)cudaFree(reinterpret_cast<void*>(resources->begin));  // NOLINT(performance-no-int-to-ptr)
  (void)cudaFree(made->windowTable);
  return ncclCommWindowDeregister(comm, made->resourceWindow);
}

// ---- Teams: all ranks are within reach of each other's loads and stores

ncclTeam ncclTeamWorld(ncclComm* comm) {
  return {comm->size(), comm->rank, 1};
}
ncclTeam ncclTeamLsa(ncclComm* comm) {
  return ncclTeamWorld(comm);
}
ncclTeam ncclTeamRail(ncclComm* comm) {
  return {1, 0, comm->size()};
}
int ncclTeamRankToWorld(ncclComm* comm, ncclTeam team, int rank) {
  return comm->rank + (rank - team.rank) * team.stride;
}
int ncclTeamRankToLsa(ncclComm* comm, ncclTeam team, int rank) {
  return ncclTeamRankToWorld(comm, team, rank);
}
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam team, int barriers, ncclLsaBarrierHandle* handle,
                                             ncclDevResourceRequirements* wanted) {
  if (handle == nullptr || wanted == nullptr)
    return refuse(ncclInvalidArgument, "a barrier without a handle");
  handle->nBarriers = barriers;
  *wanted = {};
  wanted->bufferSize = barrier_bytes(team.nRanks, barriers);
  wanted->bufferAlign = handle_bytes;
  wanted->outBufferHandle = &handle->bufHandle;
  return ncclSuccess;
}

}  // extern "C"
