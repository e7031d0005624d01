// Memory: allocating, copying, filling.
#include <cstdlib>
#include <cstring>

#include "common/sim/ptx/lexer.h"
#include "common/sim/runtime/runtime.h"

using sim::enqueue;
using sim::GlobalMemory;
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

cudaError_t allocate(void** pointer, std::size_t bytes, const char* what) {
  const std::lock_guard lock(runtime().mutex);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::uint64_t address = runtime().memory.allocate(bytes, what);
  if (address == 0) return cudaErrorMemoryAllocation;
  *pointer = pointer_to(address);
  return cudaSuccess;
}

cudaError_t release(void* pointer) {
  const std::lock_guard lock(runtime().mutex);
  if (pointer == nullptr) return cudaSuccess;
  return runtime().memory.free(number_of(pointer)) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t copy_now(void* to, const void* from, std::size_t bytes) {
  GlobalMemory& memory = runtime().memory;
  if (bytes == 0) return cudaSuccess;
  bool done = true;
  if (is_device(to) && is_device(from)) {
    sim::Allocation* source = memory.find(number_of(from));
    done = source != nullptr && source->holds(number_of(from), bytes) &&
           memory.copy_in(number_of(to), source->at(number_of(from)), bytes);
  } else if (is_device(to)) {
    done = memory.copy_in(number_of(to), from, bytes);
  } else if (is_device(from)) {
    done = memory.copy_out(to, number_of(from), bytes);
  } else {
    std::memmove(to, from, bytes);
  }
  return done ? cudaSuccess : cudaErrorInvalidValue;
}

/// The direction that a copy declares must be the one that its pointers have.
bool direction_matches(const void* to, const void* from, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !is_device(to) && !is_device(from);
    case cudaMemcpyHostToDevice:
      return is_device(to) && !is_device(from);
    case cudaMemcpyDeviceToHost:
      return !is_device(to) && is_device(from);
    case cudaMemcpyDeviceToDevice:
      return is_device(to) && is_device(from);
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  if (bytes > 0 && !direction_matches(to, from, kind)) return cudaErrorInvalidValue;
  return enqueue(stream, [=] { return copy_now(to, from, bytes); });
}

cudaError_t fill(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  return enqueue(stream, [=] {
    return runtime().memory.fill(number_of(to), value, bytes) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t allocate_host(void** pointer, std::size_t bytes) {
  const std::lock_guard lock(runtime().mutex);
  constexpr std::size_t alignment = 4096;
  *pointer =
      bytes == 0 ? nullptr : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (*pointer == nullptr) return bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
  runtime().host_allocations[reinterpret_cast<std::uintptr_t>(*pointer)] = bytes;
  return cudaSuccess;
}

/// The device address of a __device__ or __constant__ variable, from the address of its host shadow.
std::uint64_t address_of_symbol(const void* symbol) {
  const auto found = runtime().variables.find(symbol);
  if (found == runtime().variables.end()) return 0;
  const auto& binary = runtime().fat_binaries.at(found->second.fat_binary);
  if (!binary.module) return 0;
  try {
    return binary.module->variable_address(found->second.name, runtime().memory);
  } catch (const sim::PtxError& error) {
    sim::say("cannot read the PTX of variable " + found->second.name + ": " + error.what());
    return 0;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return returned(allocate(pointer, bytes, "cudaMalloc"));
}
cudaError_t cudaFree(void* pointer) {
  return returned(release(pointer));
}
cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t /*stream*/) {
  return returned(allocate(pointer, bytes, "cudaMallocAsync"));
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t /*stream*/) {
  return returned(release(pointer));
}
cudaError_t cudaMallocManaged(void** /*pointer*/, std::size_t /*bytes*/, unsigned /*flags*/) {
  return sim::not_supported("cudaMallocManaged");
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return returned(allocate_host(pointer, bytes));
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned /*flags*/) {
  return returned(allocate_host(pointer, bytes));
}
cudaError_t cudaFreeHost(void* pointer) {
  const std::lock_guard lock(runtime().mutex);
  if (pointer == nullptr) return cudaSuccess;
  if (runtime().host_allocations.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0) {
    return returned(cudaErrorInvalidValue);
  }
  std::free(pointer);  // NOLINT: the counterpart of aligned_alloc
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* /*pointer*/, std::size_t /*bytes*/, unsigned /*flags*/) {
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* /*pointer*/) {
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = copy(to, from, bytes, kind, nullptr);
  const cudaError_t earlier = sim::take_unreported();
  return returned(earlier != cudaSuccess ? earlier : error);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return returned(copy(to, from, bytes, kind, stream));
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return returned(fill(to, value, bytes, nullptr));
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return returned(fill(to, value, bytes, stream));
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(runtime().mutex);
  *free = runtime().memory.free_bytes();
  *total = runtime().memory.total_bytes();
  return cudaSuccess;
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  const std::lock_guard lock(runtime().mutex);
  const std::uint64_t address = address_of_symbol(symbol);
  *pointer = pointer_to(address);
  return returned(address != 0 ? cudaSuccess : cudaErrorInvalidSymbol);
}
cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  const std::lock_guard lock(runtime().mutex);
  const auto found = runtime().variables.find(symbol);
  if (found == runtime().variables.end()) return returned(cudaErrorInvalidSymbol);
  *bytes = found->second.bytes;
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                               cudaMemcpyKind /*kind*/) {
  const std::lock_guard lock(runtime().mutex);
  const std::uint64_t address = address_of_symbol(symbol);
  if (address == 0) return returned(cudaErrorInvalidSymbol);
  return returned(copy_now(pointer_to(address + offset), from, bytes));
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                 cudaMemcpyKind /*kind*/) {
  const std::lock_guard lock(runtime().mutex);
  const std::uint64_t address = address_of_symbol(symbol);
  if (address == 0) return returned(cudaErrorInvalidSymbol);
  return returned(copy_now(to, pointer_to(address + offset), bytes));
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const std::lock_guard lock(runtime().mutex);
  *attributes = {};
  attributes->device = 0;
  attributes->type = cudaMemoryTypeUnregistered;
  if (is_device(pointer)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(pointer);
  }
  return cudaSuccess;
}

}  // extern "C"
