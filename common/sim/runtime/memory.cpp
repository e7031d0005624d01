// Memory: allocating, copying, filling.
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <sstream>
#include <vector>

#include "common/sim/ptx/lexer.h"
#include "common/sim/runtime/runtime.h"

using sim::enqueue;
using sim::GlobalMemory;
using sim::MemoryKind;
using sim::returned;
using sim::runtime;

namespace {

std::uint64_t number_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

void* pointer_to(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): never followed on the host
}

bool is_device(const void* pointer) {
  return GlobalMemory::is_device_address(number_of(pointer));
}

/// The allocation that begins there; null when none of that kind does.
sim::Allocation* find_exactly(void* pointer, std::initializer_list<MemoryKind> kinds) {
  sim::Allocation* found = runtime().memory.find(number_of(pointer));
  const bool is_one = found != nullptr && found->begin == number_of(pointer) &&
                      std::find(kinds.begin(), kinds.end(), found->kind) != kinds.end();
  return is_one ? found : nullptr;
}

cudaError_t allocate(void** pointer, std::size_t bytes, const char* what) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(runtime().mutex);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::uint64_t address = runtime().memory.allocate(bytes, what, sim::current_device());
  if (address == 0) return cudaErrorMemoryAllocation;
  *pointer = pointer_to(address);
  return cudaSuccess;
}

cudaError_t allocate_host(void** pointer, std::size_t bytes, const char* what, MemoryKind kind) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(runtime().mutex);
  *pointer = bytes == 0 ? nullptr : runtime().memory.allocate_host(bytes, what, kind, sim::current_device());
  return *pointer == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
}

/// Waits before releasing memory that its device may still be using.
void wait_before_release(const void* pointer) {
  unsigned device = sim::current_device();
  {
    const std::lock_guard lock(runtime().mutex);
    const sim::Allocation* found = runtime().memory.find(number_of(pointer));
    if (found != nullptr) device = found->device;
  }
  sim::wait_for_device(device);
}

cudaError_t release(const char* function, void* pointer, std::initializer_list<MemoryKind> kinds) {
  const std::lock_guard lock(runtime().mutex);
  if (pointer == nullptr) return cudaSuccess;
  GlobalMemory& memory = runtime().memory;
  if (find_exactly(pointer, kinds) != nullptr && memory.free(number_of(pointer))) return cudaSuccess;
  std::ostringstream text;
  text << function << " of " << pointer << ": " << memory.why_not_free(number_of(pointer));
  sim::say(text.str());
  return cudaErrorInvalidValue;
}

/// Whether rows in device memory exist: all of them must be in one allocation.
bool is_there(const void* first, std::size_t width, std::size_t height, std::size_t pitch) {
  if (!is_device(first) || width == 0 || height == 0) return true;
  const sim::Allocation* found = runtime().memory.find(number_of(first));
  return found != nullptr && (height - 1) <= found->bytes / std::max<std::size_t>(pitch, 1) &&
         found->holds(number_of(first), (height - 1) * pitch + width);
}

cudaError_t copy_row(void* to, const void* from, std::size_t bytes) {
  GlobalMemory& memory = runtime().memory;
  bool done = true;
  if (is_device(to) && is_device(from)) {
    done = memory.copy_within(number_of(to), number_of(from), bytes);
  } else if (is_device(to)) {
    done = memory.copy_in(number_of(to), from, bytes);
  } else if (is_device(from)) {
    done = memory.copy_out(to, number_of(from), bytes);
  } else {
    std::memmove(to, from, bytes);
  }
  return done ? cudaSuccess : cudaErrorInvalidValue;
}

/// The direction that a copy declares must be the one that its pointers have. Memory of the host that kernels use is both.
bool direction_matches(const void* to, const void* from, cudaMemcpyKind kind) {
  const auto is_host = [](const void* pointer) { return !is_device(pointer); };
  const auto kernels_use = [](const void* pointer) {
    return is_device(pointer) || runtime().memory.find(number_of(pointer)) != nullptr;
  };
  switch (kind) {
    case cudaMemcpyHostToHost:
      return is_host(to) && is_host(from);
    case cudaMemcpyHostToDevice:
      return kernels_use(to) && is_host(from);
    case cudaMemcpyDeviceToHost:
      return is_host(to) && kernels_use(from);
    case cudaMemcpyDeviceToDevice:
      return kernels_use(to) && kernels_use(from);
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

template <class Request>
cudaError_t enqueue_request(const Request& request, cudaGraphNodeType type, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  sim::Work work;
  const cudaError_t error = prepare(request, work);
  return returned(error != cudaSuccess ? error : enqueue(stream, type, std::move(work)));
}

/// Memory of the host that no kernel can use, and that is the program's again when the call returns.
bool is_pageable(const void* pointer) {
  return !is_device(pointer) && runtime().memory.find(number_of(pointer)) == nullptr;
}

cudaError_t copy(const sim::CopyRequest& request, cudaStream_t stream) {
  const cudaError_t error = enqueue_request(request, cudaGraphNodeTypeMemcpy, stream);
  if (error != cudaSuccess) return error;
  std::unique_lock lock(runtime().mutex);
  const sim::StreamState* state = runtime().stream(stream);
  const bool waits = !state->capture && (is_pageable(request.to) || is_pageable(request.from));
  lock.unlock();
  if (waits) sim::wait_for(*state);
  return cudaSuccess;
}
/// Waits, too: for a launch whose error no call has given yet.
cudaError_t copy_and_wait(const sim::CopyRequest& request) {
  const cudaError_t error = copy(request, nullptr);
  sim::wait_for(*runtime().stream(nullptr));
  const cudaError_t earlier = sim::take_unreported();
  return returned(earlier != cudaSuccess ? earlier : error);
}
sim::CopyRequest one_row(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return {to, from, bytes, 1, bytes, bytes, kind};
}

cudaError_t fill(const sim::FillRequest& request, cudaStream_t stream) {
  return enqueue_request(request, cudaGraphNodeTypeMemset, stream);
}
sim::FillRequest one_row(void* to, int value, std::size_t bytes) {
  return {to, static_cast<unsigned>(value), 1, bytes, 1, bytes};
}

cudaError_t check_managed(const void* pointer, std::size_t bytes) {
  const std::lock_guard lock(runtime().mutex);
  const sim::Allocation* found = runtime().memory.find(number_of(pointer));
  const bool is_managed =
      found != nullptr && found->kind == MemoryKind::managed && found->holds(number_of(pointer), bytes);
  return returned(is_managed ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t check_devices(int to, int from) {
  const auto is_one = [](int device) { return device >= 0 && device < static_cast<int>(runtime().devices); };
  return is_one(to) && is_one(from) ? cudaSuccess : cudaErrorInvalidDevice;
}

/// A __managed__ variable: its host shadow is itself.
sim::Allocation* find_managed(const void* symbol) {
  sim::Allocation* found = runtime().memory.find(number_of(symbol));
  return found != nullptr && found->kind == MemoryKind::managed ? found : nullptr;
}

/// The device address of a __device__ or __constant__ variable, from the address of its host shadow.
std::uint64_t address_of_symbol(const void* symbol) {
  if (find_managed(symbol) != nullptr) return number_of(symbol);
  const auto found = runtime().variables.find(symbol);
  return found == runtime().variables.end() ? 0 : sim::address_of(found->second);
}

}  // namespace

std::uint64_t sim::address_of(const Runtime::HostVariable& variable) {
  Module* const module = runtime().fat_binaries.at(variable.fat_binary).current_module();
  if (module == nullptr) return 0;
  try {
    return module->variable_address(variable.name, runtime().memory);
  } catch (const PtxError& error) {
    say("cannot read the PTX of variable " + variable.name + ": " + error.what());
    return 0;
  }
}

cudaError_t sim::prepare(const CopyRequest& request, Work& work) {
  const auto& [to, from, width, height, to_pitch, from_pitch, kind] = request;
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  if (height > 1 && std::max(to_pitch, from_pitch) > device::most_pitch) return cudaErrorInvalidPitchValue;
  if (width > 0 && height > 0) {
    if (to == nullptr || from == nullptr || !direction_matches(to, from, kind)) return cudaErrorInvalidValue;
  }
  work = [request] {
    const bool there = is_there(request.to, request.width, request.height, request.to_pitch) &&
                       is_there(request.from, request.width, request.height, request.from_pitch);
    if (!there) return cudaErrorInvalidValue;
    const WatchedCopy watched("a copy");
    for (std::size_t row = 0; row < request.height && request.width > 0; ++row) {
      std::byte* const to_row = static_cast<std::byte*>(request.to) + row * request.to_pitch;
      const std::byte* const from_row =
          static_cast<const std::byte*>(request.from) + row * request.from_pitch;
      cudaError_t error = watched.see(from_row, request.width, false);
      if (error == cudaSuccess) error = watched.see(to_row, request.width, true);
      if (error == cudaSuccess) error = copy_row(to_row, from_row, request.width);
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  };
  return cudaSuccess;
}

cudaError_t sim::prepare(const FillRequest& request, Work& work) {
  const auto [to, value, value_bytes, width, height, pitch] = request;
  if (value_bytes != 1 && value_bytes != 2 && value_bytes != 4) return cudaErrorInvalidValue;
  const bool is_pitch = width <= pitch / value_bytes && pitch <= device::most_pitch;
  if (height > 1 && !is_pitch) return cudaErrorInvalidPitchValue;
  if (to == nullptr && width > 0 && height > 0) return cudaErrorInvalidValue;
  work = [request] {
    GlobalMemory& memory = runtime().memory;
    if (!is_there(request.to, request.width * request.value_bytes, request.height, request.pitch)) {
      return cudaErrorInvalidValue;
    }
    std::vector<std::byte> values(request.value_bytes == 1 ? 0 : request.width * request.value_bytes);
    for (std::size_t at = 0; at < values.size(); at += request.value_bytes) {
      std::memcpy(&values[at], &request.value, request.value_bytes);  // the low bytes lie first
    }
    const WatchedCopy watched("a fill");
    for (std::size_t row = 0; row < request.height; ++row) {
      const std::uint64_t first = number_of(request.to) + row * request.pitch;
      const cudaError_t error = watched.see(pointer_to(first), request.width * request.value_bytes, true);
      if (error != cudaSuccess) return error;
      const bool done = request.value_bytes == 1
                            ? memory.fill(first, static_cast<int>(request.value), request.width)
                            : memory.copy_in(first, values.data(), values.size());
      if (!done) return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  };
  return cudaSuccess;
}

extern "C" {

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return returned(allocate(pointer, bytes, "cudaMalloc"));
}
cudaError_t cudaFree(void* pointer) {
  wait_before_release(pointer);
  return returned(release("cudaFree", pointer, {MemoryKind::device, MemoryKind::managed}));
}
cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t /*stream*/) {
  return returned(allocate(pointer, bytes, "cudaMallocAsync"));
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  {
    std::unique_lock lock(runtime().mutex);
    const sim::StreamState* state = runtime().stream(stream);
    lock.unlock();
    if (state != nullptr) sim::wait_for(*state);
  }
  return returned(release("cudaFreeAsync", pointer, {MemoryKind::device}));
}
/// The pitch is that of an H200.
cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height) {
  constexpr std::size_t alignment = 512;
  if (pitch == nullptr) return returned(cudaErrorInvalidValue);
  const std::size_t total = runtime().memory.total_bytes();
  if (width > total || height > total / std::max<std::size_t>(width, 1)) {
    return returned(cudaErrorMemoryAllocation);
  }
  *pitch = (width + alignment - 1) / alignment * alignment;
  return returned(allocate(pointer, *pitch * height, "cudaMallocPitch"));
}

// ---- Memory of the host that kernels use at the same address

cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned /*flags*/) {
  if (bytes == 0) return returned(cudaErrorInvalidValue);
  return returned(allocate_host(pointer, bytes, "cudaMallocManaged", MemoryKind::managed));
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return returned(allocate_host(pointer, bytes, "cudaMallocHost", MemoryKind::host));
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned /*flags*/) {
  return returned(allocate_host(pointer, bytes, "cudaHostAlloc", MemoryKind::host));
}
cudaError_t cudaFreeHost(void* pointer) {
  wait_before_release(pointer);
  return returned(release("cudaFreeHost", pointer, {MemoryKind::host}));
}
cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned /*flags*/) {
  const std::lock_guard lock(runtime().mutex);
  if (pointer == nullptr || bytes == 0 || is_device(pointer)) return returned(cudaErrorInvalidValue);
  GlobalMemory& memory = runtime().memory;
  if (bytes > memory.total_bytes()) return returned(cudaErrorMemoryAllocation);
  if (memory.find(number_of(pointer)) != nullptr || memory.find(number_of(pointer) + bytes - 1) != nullptr) {
    return returned(cudaErrorHostMemoryAlreadyRegistered);
  }
  memory.register_host(pointer, bytes, sim::current_device());
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* pointer) {
  const std::lock_guard lock(runtime().mutex);
  if (pointer == nullptr) return returned(cudaErrorInvalidValue);
  const bool done =
      find_exactly(pointer, {MemoryKind::registered}) != nullptr && runtime().memory.free(number_of(pointer));
  return returned(done ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned /*flags*/) {
  if (device == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  const bool kernels_use = !is_device(host) && runtime().memory.find(number_of(host)) != nullptr;
  *device = kernels_use ? host : nullptr;
  return returned(kernels_use ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  if (flags == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  *flags = cudaHostAllocMapped;
  return returned(!is_device(host) && runtime().memory.find(number_of(host)) != nullptr
                      ? cudaSuccess
                      : cudaErrorInvalidValue);
}
// The place of managed memory only matters for speed.
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* /*pointer*/, std::size_t /*bytes*/,
                                     unsigned /*flags*/) {
  const std::lock_guard lock(runtime().mutex);
  return returned(runtime().stream(stream) == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess);
}
#if CUDART_VERSION >= 13000
cudaError_t cudaMemPrefetchAsync(const void* pointer, std::size_t bytes, cudaMemLocation /*place*/,
                                 unsigned /*flags*/, cudaStream_t /*stream*/) {
  return check_managed(pointer, bytes);
}
cudaError_t cudaMemAdvise(const void* pointer, std::size_t bytes, cudaMemoryAdvise /*advice*/,
                          cudaMemLocation /*place*/) {
  return check_managed(pointer, bytes);
}
#else
cudaError_t cudaMemPrefetchAsync(const void* pointer, std::size_t bytes, int /*device*/,
                                 cudaStream_t /*stream*/) {
  return check_managed(pointer, bytes);
}
cudaError_t cudaMemAdvise(const void* pointer, std::size_t bytes, cudaMemoryAdvise /*advice*/,
                          int /*device*/) {
  return check_managed(pointer, bytes);
}
#endif

// ---- Copying and filling

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy_and_wait(one_row(to, from, bytes, kind));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy(one_row(to, from, bytes, kind), stream);
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return copy_and_wait({to, from, width, height, to_pitch, from_pitch, kind});
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return copy({to, from, width, height, to_pitch, from_pitch, kind}, stream);
}
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, std::size_t bytes) {
  const cudaError_t error = check_devices(to_device, from_device);
  return error != cudaSuccess ? returned(error) : copy_and_wait(one_row(to, from, bytes, cudaMemcpyDefault));
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  const cudaError_t error = check_devices(to_device, from_device);
  return error != cudaSuccess ? returned(error) : copy(one_row(to, from, bytes, cudaMemcpyDefault), stream);
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fill(one_row(to, value, bytes), nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return fill(one_row(to, value, bytes), stream);
}
cudaError_t cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return fill({to, static_cast<unsigned>(value), 1, width, height, pitch}, nullptr);
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  return fill({to, static_cast<unsigned>(value), 1, width, height, pitch}, stream);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (free == nullptr || total == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  *free = runtime().memory.free_bytes(sim::current_device());
  *total = runtime().memory.total_bytes();
  return cudaSuccess;
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  if (pointer == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  const std::uint64_t address = address_of_symbol(symbol);
  *pointer = pointer_to(address);
  return returned(address != 0 ? cudaSuccess : cudaErrorInvalidSymbol);
}
cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  if (bytes == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  if (const sim::Allocation* managed = find_managed(symbol)) {
    *bytes = managed->bytes;
    return cudaSuccess;
  }
  const auto found = runtime().variables.find(symbol);
  if (found == runtime().variables.end()) return returned(cudaErrorInvalidSymbol);
  *bytes = found->second.bytes;
  return cudaSuccess;
}
/// The direction of a copy to or from a variable follows from its other side.
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                                    std::size_t offset, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  const std::uint64_t address = address_of_symbol(symbol);
  if (address == 0) return returned(cudaErrorInvalidSymbol);
  return copy(one_row(pointer_to(address + offset), from, bytes, cudaMemcpyDefault), stream);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                      cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  const std::uint64_t address = address_of_symbol(symbol);
  if (address == 0) return returned(cudaErrorInvalidSymbol);
  return copy(one_row(to, pointer_to(address + offset), bytes, cudaMemcpyDefault), stream);
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                               cudaMemcpyKind kind) {
  return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, nullptr);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                 cudaMemcpyKind kind) {
  return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, nullptr);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  *attributes = {};
  auto* const address = const_cast<void*>(pointer);
  const sim::Allocation* found = runtime().memory.find(number_of(pointer));
  if (found == nullptr) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = address;
    return cudaSuccess;
  }
  attributes->type = found->kind == MemoryKind::device    ? cudaMemoryTypeDevice
                     : found->kind == MemoryKind::managed ? cudaMemoryTypeManaged
                                                          : cudaMemoryTypeHost;
  attributes->device = static_cast<int>(found->device);
  attributes->devicePointer = address;
  attributes->hostPointer = found->kind == MemoryKind::device ? nullptr : address;
  return cudaSuccess;
}

}  // extern "C"
