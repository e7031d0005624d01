// The interface of the simulator's libcudart.so for its libnccl.so.2: work that several streams do together.
#pragma once

#include "common/sim/runtime/runtime.h"

namespace sim {

/// Found with dlsym by the name of collectives_function.
struct CollectivesApi {
  cudaError_t (*enqueue)(cudaStream_t stream, Work work);
  /// The device of a stream, or -1 if it is not a stream.
  int (*device_of)(cudaStream_t stream);

  // ---- For work that is being called
  /// Its next operation begins, of which others can say that they race with it.
  std::uint64_t (*begin)(const std::string& what);
  /// The place of the bytes that it reads or writes. Null, with a message, if they do not exist, if it reads
  /// unwritten bytes, or if it races.
  std::byte* (*bytes)(std::uint64_t operation, void* first, std::size_t count, bool writes);
  /// Adds to the clock everything that comes before the next work of the work's stream, and the other way
  /// round.
  void (*add_to)(Clock& clock);
  void (*add_from)(const Clock& clock);
  /// Nothing that it waits for comes any more.
  bool (*is_stuck)();
  void (*report)(const std::string& fault);

  // ---- Memory
  /// Of the current device, which all devices reach; null when there is not that much left.
  void* (*allocate)(std::size_t bytes);
  bool (*is_for_all)(const void* memory);
  /// Other addresses of memory; see GlobalMemory.
  std::uint64_t (*reserve_aliases)(std::uint64_t bytes);
  void (*set_alias)(std::uint64_t alias, const void* memory, std::size_t bytes);
};

inline constexpr const char* collectives_function = "simulator_collectives";

}  // namespace sim
