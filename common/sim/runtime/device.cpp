// The simulated devices: one, or as many as SIM_DEVICES says, with the attributes of an H200, and fewer multiprocessors where
// SIM_MULTIPROCESSORS says so. Together they have half of the host's memory.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "common/sim/runtime/runtime.h"

using sim::returned;
using sim::runtime;
namespace device = sim::device;

std::size_t sim::simulated_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page_bytes <= 0) return std::size_t{1} << 30U;
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes) / 2;
}

unsigned sim::wanted_number(const char* variable, unsigned most, unsigned otherwise) {
  const char* const text = std::getenv(variable);
  const std::string_view wanted = text == nullptr ? "" : text;
  if (wanted.empty()) return otherwise;
  unsigned number = 0;
  const char* const end = wanted.data() + wanted.size();
  const bool is_number = std::from_chars(wanted.data(), end, number).ptr == end;
  if (is_number && number >= 1 && number <= most) return number;
  say(std::string(variable) + ": '" + text + "' is not accepted; accepted: 1 to " + std::to_string(most));
  std::exit(2);
}

namespace {

/// SIM_COMPUTE_CAPABILITY as 10 * major + minor, 0 where it is not set. Ends the program if it is anything
/// else.
int wanted_compute_capability() {
  const char* text = std::getenv("SIM_COMPUTE_CAPABILITY");
  if (text == nullptr || *text == '\0') return 0;
  int major = 0;
  int minor = 0;
  int length = 0;
  if (std::sscanf(text, "%2d.%1d%n", &major, &minor, &length) == 2 && text[length] == '\0' && major > 0) {
    return 10 * major + minor;
  }
  sim::say(std::string("SIM_COMPUTE_CAPABILITY: '") + text + "' is not accepted; accepted: such as 9.0");
  std::exit(2);
}

struct Attribute {
  cudaDeviceAttr attribute;
  int value;
};
/// Attributes that are not here are unknown, and querying one is an error.
constexpr auto attributes = std::to_array<Attribute>({
    {cudaDevAttrMaxThreadsPerBlock, device::max_threads_per_block},
    {cudaDevAttrMaxBlockDimX, device::max_block[0]},
    {cudaDevAttrMaxBlockDimY, device::max_block[1]},
    {cudaDevAttrMaxBlockDimZ, device::max_block[2]},
    {cudaDevAttrMaxGridDimX, device::max_grid[0]},
    {cudaDevAttrMaxGridDimY, device::max_grid[1]},
    {cudaDevAttrMaxGridDimZ, device::max_grid[2]},
    {cudaDevAttrMaxSharedMemoryPerBlock, device::shared_per_block},
    {cudaDevAttrTotalConstantMemory, device::constant_bytes},
    {cudaDevAttrWarpSize, sim::warp_size},
    {cudaDevAttrMaxRegistersPerBlock, device::registers},
    {cudaDevAttrMultiProcessorCount, device::most_multiprocessors},
    {cudaDevAttrKernelExecTimeout, 0},
    {cudaDevAttrIntegrated, 0},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrComputeMode, 0},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrEccEnabled, 0},
    {cudaDevAttrL2CacheSize, device::l2_bytes},
    {cudaDevAttrMaxThreadsPerMultiProcessor, device::max_threads_per_multiprocessor},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrComputeCapabilityMajor, device::major},
    {cudaDevAttrComputeCapabilityMinor, device::minor},
    {cudaDevAttrStreamPrioritiesSupported, 1},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, device::shared_per_multiprocessor},
    {cudaDevAttrMaxRegistersPerMultiprocessor, device::registers},
    {cudaDevAttrManagedMemory, 1},
    {cudaDevAttrConcurrentManagedAccess, 1},
    {cudaDevAttrPageableMemoryAccess, 0},
    {cudaDevAttrPageableMemoryAccessUsesHostPageTables, 0},
    {cudaDevAttrDirectManagedMemAccessFromHost, 0},
    {cudaDevAttrHostRegisterSupported, 1},
    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
    {cudaDevAttrMaxPitch, static_cast<int>(device::most_pitch)},
    {cudaDevAttrTextureAlignment, 512},
    {cudaDevAttrTexturePitchAlignment, 32},
    {cudaDevAttrSurfaceAlignment, 512},
    {cudaDevAttrGpuOverlap, 1},
    {cudaDevAttrAsyncEngineCount, 3},
    {cudaDevAttrGlobalMemoryBusWidth, device::memory_bus_bits},
    {cudaDevAttrGlobalL1CacheSupported, 1},
    {cudaDevAttrLocalL1CacheSupported, 1},
    {cudaDevAttrIsMultiGpuBoard, 0},
    {cudaDevAttrMultiGpuBoardGroupID, 0},
    {cudaDevAttrHostNativeAtomicSupported, 0},
    {cudaDevAttrSingleToDoublePrecisionPerfRatio, 2},
    {cudaDevAttrComputePreemptionSupported, 1},
    {cudaDevAttrMaxPersistingL2CacheSize, 0},
    {cudaDevAttrMaxAccessPolicyWindowSize, 0},
    {cudaDevAttrTccDriver, 0},
    {cudaDevAttrPciBusId, 0},
    {cudaDevAttrPciDeviceId, 0},
    {cudaDevAttrPciDomainId, 0},
    {cudaDevAttrCooperativeLaunch, 1},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, device::shared_per_block_optin},
    {cudaDevAttrMaxBlocksPerMultiprocessor, device::max_blocks_per_multiprocessor},
    {cudaDevAttrReservedSharedMemoryPerBlock, device::reserved_shared_per_block},
    {cudaDevAttrMemoryPoolsSupported, 0},
    {cudaDevAttrClusterLaunch, 1},
    {cudaDevAttrClockRate, 0},        // there is no time
    {cudaDevAttrMemoryClockRate, 0},  // there is no time
});

bool is_device(int ordinal) {
  return ordinal >= 0 && ordinal < static_cast<int>(runtime().devices);
}

bool are_peers(int device, int other) {
  return device != other && runtime().have_peers;
}

/// Enables (or not) access of the current device to the memory of another.
cudaError_t set_peer(int peer, bool enabled, cudaError_t error_as_before) {
  const std::lock_guard lock(runtime().mutex);
  const unsigned device = sim::current_device();
  if (!is_device(peer)) return cudaErrorInvalidDevice;
  if (!are_peers(static_cast<int>(device), peer)) {
    return enabled ? cudaErrorPeerAccessUnsupported : cudaErrorPeerAccessNotEnabled;
  }
  const bool changed = runtime().memory.set_peer(device, static_cast<unsigned>(peer), enabled);
  return changed ? cudaSuccess : error_as_before;
}

std::string bus_id(int ordinal) {
  constexpr std::size_t length = 20;  // of any unsigned number
  std::array<char, length> id{};
  std::snprintf(id.data(), id.size(), "0000:%02x:00.0", static_cast<unsigned>(ordinal));
  return id.data();
}

cudaError_t no_driver_function(const char* symbol, void** function, cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return returned(cudaErrorInvalidValue);
  *function = nullptr;
  if (status != nullptr) *status = cudaDriverEntryPointSymbolNotFound;
  return sim::not_supported((std::string("the driver's function ") + symbol).c_str());
}

}  // namespace

int device::multiprocessors() {
  constexpr unsigned most = most_multiprocessors;
  static const unsigned wanted = sim::wanted_number("SIM_MULTIPROCESSORS", most, most);
  return static_cast<int>(wanted);
}

int device::compute_capability() {
  const int wanted = wanted_compute_capability();
  return wanted != 0 ? wanted : 10 * device::major + device::minor;
}

int device::newest_ptx() {
  const int wanted = wanted_compute_capability();
  return wanted != 0 ? wanted : std::numeric_limits<int>::max();
}

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return returned(cudaErrorInvalidValue);
  *count = static_cast<int>(runtime().devices);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* ordinal) {
  if (ordinal == nullptr) return returned(cudaErrorInvalidValue);
  *ordinal = static_cast<int>(sim::current_device());
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int ordinal) {
  if (!is_device(ordinal)) return returned(cudaErrorInvalidDevice);
  sim::set_current_device(static_cast<unsigned>(ordinal));
  return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned /*flags*/) {
  return cudaSuccess;
}
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) return returned(cudaErrorInvalidValue);
  *flags = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return returned(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return returned(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int ordinal) {
  if (value == nullptr) return returned(cudaErrorInvalidValue);
  if (!is_device(ordinal)) return returned(cudaErrorInvalidDevice);
  const auto* found = std::find_if(attributes.begin(), attributes.end(), [attribute](const Attribute& known) {
    return known.attribute == attribute;
  });
  if (found == attributes.end()) {
    return sim::not_supported(("device attribute " + std::to_string(static_cast<int>(attribute))).c_str());
  }
  *value = found->value;
  if (attribute == cudaDevAttrPciBusId) *value = ordinal;
  if (attribute == cudaDevAttrMultiProcessorCount) *value = device::multiprocessors();
  if (attribute == cudaDevAttrComputeCapabilityMajor) *value = device::compute_capability() / 10;
  if (attribute == cudaDevAttrComputeCapabilityMinor) *value = device::compute_capability() % 10;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
  if (properties == nullptr) return returned(cudaErrorInvalidValue);
  if (!is_device(ordinal)) return returned(cudaErrorInvalidDevice);
  *properties = {};
  properties->pciBusID = ordinal;
  properties->uuid.bytes[sizeof properties->uuid.bytes - 1] = static_cast<char>(ordinal);
  std::strncpy(properties->name, device::name, sizeof properties->name - 1);
  properties->totalGlobalMem = runtime().memory.total_bytes();
  properties->sharedMemPerBlock = device::shared_per_block;
  properties->regsPerBlock = device::registers;
  properties->warpSize = sim::warp_size;
  properties->maxThreadsPerBlock = device::max_threads_per_block;
  std::copy(device::max_block.begin(), device::max_block.end(), properties->maxThreadsDim);
  std::copy(device::max_grid.begin(), device::max_grid.end(), properties->maxGridSize);
  properties->totalConstMem = device::constant_bytes;
  properties->major = device::compute_capability() / 10;
  properties->minor = device::compute_capability() % 10;
  properties->multiProcessorCount = device::multiprocessors();
  properties->concurrentKernels = 1;
  properties->cooperativeLaunch = 1;
  properties->unifiedAddressing = 1;
  properties->canMapHostMemory = 1;
  properties->managedMemory = 1;
  properties->concurrentManagedAccess = 1;
  properties->hostRegisterSupported = 1;
  properties->canUseHostPointerForRegisteredMem = 1;
  properties->computePreemptionSupported = 1;
  properties->streamPrioritiesSupported = 1;
  properties->clusterLaunch = 1;
  properties->asyncEngineCount = 3;
  properties->memoryBusWidth = device::memory_bus_bits;
  properties->globalL1CacheSupported = 1;
  properties->localL1CacheSupported = 1;
  properties->memPitch = device::most_pitch;
  properties->textureAlignment = 512;
  properties->texturePitchAlignment = 32;
  properties->surfaceAlignment = 512;
  properties->l2CacheSize = device::l2_bytes;
  properties->maxThreadsPerMultiProcessor = device::max_threads_per_multiprocessor;
  properties->maxBlocksPerMultiProcessor = device::max_blocks_per_multiprocessor;
  properties->sharedMemPerMultiprocessor = device::shared_per_multiprocessor;
  properties->regsPerMultiprocessor = device::registers;
  properties->sharedMemPerBlockOptin = device::shared_per_block_optin;
  properties->reservedSharedMemPerBlock = device::reserved_shared_per_block;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int ordinal, int peer) {
  if (can == nullptr) return returned(cudaErrorInvalidValue);
  *can = 0;
  if (!is_device(ordinal) || !is_device(peer)) return returned(cudaErrorInvalidDevice);
  *can = are_peers(ordinal, peer) ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0) return returned(cudaErrorInvalidValue);
  return returned(set_peer(peer, true, cudaErrorPeerAccessAlreadyEnabled));
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return returned(set_peer(peer, false, cudaErrorPeerAccessNotEnabled));
}
/// As between GPUs on one NVSwitch, if they have peers.
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int ordinal, int peer) {
  if (value == nullptr) return returned(cudaErrorInvalidValue);
  if (!is_device(ordinal) || !is_device(peer) || ordinal == peer) return returned(cudaErrorInvalidDevice);
  *value = attribute != cudaDevP2PAttrPerformanceRank && are_peers(ordinal, peer) ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int ordinal) {
  if (id == nullptr || length < 1) return returned(cudaErrorInvalidValue);
  if (!is_device(ordinal)) return returned(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<std::size_t>(length), "%s", bus_id(ordinal).c_str());
  return cudaSuccess;
}
cudaError_t cudaDeviceGetByPCIBusId(int* ordinal, const char* id) {
  if (ordinal == nullptr || id == nullptr) return returned(cudaErrorInvalidValue);
  for (*ordinal = 0; is_device(*ordinal); ++*ordinal) {
    if (bus_id(*ordinal) == id) return cudaSuccess;
  }
  return returned(cudaErrorInvalidDevice);
}
cudaError_t cudaDeviceSynchronize() {
  sim::wait_for_device(sim::current_device());
  return returned(sim::take_unreported());
}
cudaError_t cudaDeviceReset() {
  return cudaSuccess;
}
cudaError_t cudaDeviceSetLimit(cudaLimit /*limit*/, std::size_t /*value*/) {
  return cudaSuccess;
}
cudaError_t cudaDeviceGetLimit(std::size_t* /*value*/, cudaLimit /*limit*/) {
  return sim::not_supported("cudaDeviceGetLimit");
}
cudaError_t cudaCtxResetPersistingL2Cache() {  // there is no cache
  return cudaSuccess;
}
cudaError_t cudaProfilerStart() {
  return cudaSuccess;
}
cudaError_t cudaProfilerStop() {
  return cudaSuccess;
}

/// Only puts five numbers together; arrays, which it describes, are not simulated.
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

// ---- Ways to the driver, of which there is none.

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long /*flags*/,
                                    cudaDriverEntryPointQueryResult* status) {
  return no_driver_function(symbol, function, status);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* status) {
  return no_driver_function(symbol, function, status);
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* /*pool*/, int /*ordinal*/) {
  return sim::not_supported("cudaDeviceGetDefaultMemPool");
}

}  // extern "C"
