// What the entry points of the runtime share: one device, one process, no time. Every call does its work
// before it returns, under one lock.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/sim/machine/faults.h"
#include "common/sim/machine/launch.h"
#include "common/sim/machine/memory.h"
#include "common/sim/ptx/module.h"

namespace sim {

/// A kernel as the host knows it: by the address of its stub.
struct HostFunction {
  std::size_t fat_binary = 0;
  std::string name;
  int most_dynamic_shared = 0;  ///< cudaFuncAttributeMaxDynamicSharedMemorySize; 0: not set
  int carveout = -1;
  bool large_clusters = false;  ///< cudaFuncAttributeNonPortableClusterSizeAllowed
};

struct FatBinary {
  std::unique_ptr<Module> module;
  int architecture = 0;  ///< of its PTX
  std::string why_not;   ///< without a module
};

/// cudaLibrary_t points to one of these: PTX that was loaded as text, held like a fat binary.
struct LibraryState {
  std::size_t fat_binary = 0;
  std::set<std::string> kernels;  ///< those that were asked for; cudaKernel_t points to one
};

/// cudaStream_t points to one of these. Captured work is kept until the graph is launched.
struct StreamState {
  bool capturing = false;
  unsigned flags = 0;
  int priority = 0;
  std::vector<std::function<cudaError_t()>> captured;
};
struct GraphState {
  std::vector<std::function<cudaError_t()>> work;
};
struct EventState {
  bool recorded = false;
};

class Runtime {
 public:
  Runtime();

  std::recursive_mutex mutex;
  GlobalMemory memory;
  std::vector<FatBinary> fat_binaries;
  std::unordered_map<const void*, HostFunction> functions;
  struct HostVariable {
    std::size_t fat_binary = 0;
    std::string name;
    std::size_t bytes = 0;
  };
  std::unordered_map<const void*, HostVariable> variables;
  std::unordered_map<const void*, std::unique_ptr<LibraryState>> libraries;
  std::unordered_map<const void*, std::unique_ptr<StreamState>> streams;
  StreamState default_stream;
  std::map<std::uintptr_t, std::size_t> host_allocations;  // bytes, by address

  std::set<std::pair<FaultKind, std::string>> warned;  ///< kinds and source lines

  cudaError_t last_error = cudaSuccess;
  /// Of a launch whose own return value may have been dropped, as <<<>>> does: the next call that waits gives
  /// it.
  cudaError_t unreported = cudaSuccess;

  /// Null for a handle that is none.
  StreamState* stream(cudaStream_t handle);

  /// The kernel behind a stub, parsed. An error, and said on stderr once, when there is none that can be run.
  cudaError_t find_kernel(const void* function, const Program*& program);
};

/// Made when it is first used, which is before main: executables register their kernels there.
Runtime& runtime();

/// Remembers an error for cudaGetLastError, as every call does, and gives it back.
cudaError_t returned(cudaError_t error);

/// For calls that wait for the device: the error of a launch that no call has given yet.
cudaError_t take_unreported();

/// Does work on a stream: now, or later when the stream is being captured.
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work);

/// For entry points that exist only so that programs link: says so once per name, and returns
/// cudaErrorNotSupported.
cudaError_t not_supported(const char* name);

/// One line, or several, for people: "simulator: ..." on stderr.
void say(const std::string& text);

// ---- The simulated device (runtime_device.cpp)
namespace device {
inline constexpr const char* name = "CPU simulator (attributes of an H200)";
inline constexpr int major = 9;
inline constexpr int minor = 0;
inline constexpr int multiprocessors = 132;
inline constexpr std::array max_grid{0x7fffffff, 65535, 65535};
inline constexpr std::array max_block{1024, 1024, 64};
inline constexpr int max_threads_per_block = 1024;
inline constexpr int max_threads_per_multiprocessor = 2048;
inline constexpr int max_blocks_per_multiprocessor = 32;
inline constexpr int shared_per_block = 48 * 1024;
inline constexpr int shared_per_block_optin = 227 * 1024;
inline constexpr int shared_per_multiprocessor = 228 * 1024;
inline constexpr int reserved_shared_per_block = 1024;
inline constexpr int registers = 65536;
inline constexpr int most_blocks_in_cluster = 8;  ///< 16 for a kernel that asks for it
inline constexpr int l2_bytes = 60 * 1024 * 1024;
inline constexpr int constant_bytes = 64 * 1024;
/// 10 * major + minor, or what SIM_COMPUTE_CAPABILITY says.
int compute_capability();
/// The newest architecture whose PTX is taken: any, unless SIM_COMPUTE_CAPABILITY says otherwise.
int newest_ptx();
}  // namespace device
std::size_t simulated_memory_bytes();

// ---- Launching (runtime_launch.cpp)
struct LaunchRequest {
  const void* function = nullptr;
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared = 0;
  void** arguments = nullptr;
  cudaStream_t stream = nullptr;
  bool cooperative = false;
  dim3 cluster{0, 0, 0};   ///< of blocks; 0: as the kernel says, or 1
  bool dependent = false;  ///< programmatic stream serialization
};
cudaError_t launch(const LaunchRequest& request);
/// What SIM_CHECK says. Ends the program where it is something else.
Check wanted_check();

/// What counters.h hands out (recording.cpp).
void record_launch(const Launch& done);
void record_fault(const Fault& fault);

}  // namespace sim
