// The shared state of the runtime's entry points: one process, no time, one lock. With one device, every call does its
// work before it returns. With several (SIM_DEVICES), work that waits for another device goes on during later calls.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
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
  /// The attributes that cudaFuncSetAttribute has set for one device.
  struct Attributes {
    int most_dynamic_shared = 0;  ///< cudaFuncAttributeMaxDynamicSharedMemorySize; 0: not set
    int carveout = -1;
    bool large_clusters = false;  ///< cudaFuncAttributeNonPortableClusterSizeAllowed
  };
  std::array<Attributes, most_devices> of_device{};
};

struct FatBinary {
  std::unique_ptr<Module> module;
  int architecture = 0;  ///< of its PTX
  std::string why_not;   ///< without a module
  std::array<std::unique_ptr<Module>, most_devices>
      of_others{};  ///< whose variables are those of that device

  /// For the device that is current; null without a module.
  [[nodiscard]] Module* current_module();
};

/// cudaLibrary_t points to one of these: PTX that was loaded as text, held like a fat binary.
struct LibraryState {
  std::size_t fat_binary = 0;
  std::set<std::string> kernels;  ///< the requested ones; cudaKernel_t points to one
};

/// Work that is enqueued on a stream, or done by a node of a graph. With several devices it may give nothing:
/// then it is not done yet, and is to be called again when others have gone on. A copy of a Work that has not
/// been called starts from the beginning.
using Work = std::function<std::optional<cudaError_t>()>;

/// With several devices: how far a stream has come.
struct StreamPlace {
  std::uint32_t number = 0;
  std::uint64_t enqueued = 0;
  std::uint64_t done = 0;
  Clock clock{};  ///< its next work comes after all of this
};
struct EnqueuedWork {
  Work work;
  Clock host;  ///< the work that the host had waited for
  std::vector<std::pair<std::shared_ptr<StreamPlace>, std::uint64_t>>
      after;  ///< the default stream, or those it waits for
};
/// The number of times that an event was recorded, and the work before the last time.
struct EventPlace {
  std::uint64_t enqueued = 0;
  std::uint64_t done = 0;
  Clock clock;
};

struct GraphNode {
  GraphNode(cudaGraphNodeType of_type, Work to_do, std::vector<const GraphNode*> before);
  GraphNode(const GraphNode&) = delete;
  GraphNode& operator=(const GraphNode&) = delete;
  ~GraphNode();

  cudaGraphNode_t handle;
  cudaGraphNodeType type;
  Work work;
  std::vector<const GraphNode*> after;  ///< those that it depends on
};
struct GraphState {
  std::vector<std::unique_ptr<GraphNode>> nodes;
};
struct GraphExecState {
  struct Step {
    cudaGraphNode_t node;
    Work work;
    std::vector<std::size_t> after;  ///< those before it
  };
  std::vector<Step> steps;
};

/// Streams that wait for events of one another, from the stream on which it began.
struct Capture {
  const struct StreamState* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id by{};
  unsigned long long id = 0;
  bool invalid = false;
  bool ended = false;
  GraphState graph;
};
struct StreamState {
  unsigned flags = 0;
  int priority = 0;
  std::shared_ptr<Capture> capture;    ///< null: work is done when it is enqueued
  std::vector<const GraphNode*> last;  ///< the nodes that the next captured work comes after
  unsigned device = 0;
  std::shared_ptr<StreamPlace> place{};
  std::deque<EnqueuedWork> queue{};  ///< with several devices: the work that it has not done yet
};
struct EventState {
  bool recorded = false;
  bool times = true;
  std::shared_ptr<Capture> capture;  ///< in which it was recorded last
  std::vector<const GraphNode*> last;
  unsigned device = 0;
  std::shared_ptr<EventPlace> place = std::make_shared<EventPlace>();
};

/// Numbers that are never given out twice, so that a handle which is null, stale or of another kind is known to be none.
void* next_handle();

template <class Handle, class State>
class Handles {
 public:
  Handle add(State state) {
    const auto handle = static_cast<Handle>(next_handle());
    states_[handle] = std::make_unique<State>(std::move(state));
    return handle;
  }
  /// Null if it is not a handle.
  State* find(Handle handle) {
    const auto found = states_.find(handle);
    return found == states_.end() ? nullptr : found->second.get();
  }
  bool remove(Handle handle) { return states_.erase(handle) == 1; }
  [[nodiscard]] const auto& all() const { return states_; }

 private:
  std::unordered_map<Handle, std::unique_ptr<State>> states_;
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
  std::unordered_map<void**, HostVariable> managed;  ///< by where the host's code reads their addresses
  std::unordered_map<const void*, std::unique_ptr<LibraryState>> libraries;
  Handles<cudaStream_t, StreamState> streams;
  Handles<cudaEvent_t, EventState> events;
  Handles<cudaGraph_t, GraphState> graphs;
  Handles<cudaGraphExec_t, GraphExecState> graph_execs;
  std::unordered_map<cudaGraphNode_t, GraphNode*> graph_nodes;
  std::array<StreamState, most_devices> default_streams;
  std::array<StreamState, most_devices> per_thread_streams;
  bool default_is_per_thread = false;
  const unsigned devices;  ///< SIM_DEVICES
  const bool have_peers;   ///< SIM_PEERS

  // ---- With several devices (schedule.cpp)
  DeviceWorks works;
  Clock host;                      ///< the work that the host has waited for
  StreamState* at_work = nullptr;  ///< whose work is being called
  bool stuck = false;              ///< nothing goes on any more: waiting work has to end
  bool broken = false;             ///< of the launches that are under way together one has ended with a fault
  std::uint64_t progress = 0;      ///< goes on when something was done that others may be waiting for
  std::uint64_t enqueued_works = 0;

  std::set<std::pair<FaultKind, std::string>> warned;  ///< kinds and source lines

  cudaError_t last_error = cudaSuccess;
  /// The error of a launch whose own return value may have been dropped, as <<<>>> does: the next call that
  /// waits returns it.
  cudaError_t unreported = cudaSuccess;

  /// Null if it is not a handle.
  StreamState* stream(cudaStream_t handle);
  [[nodiscard]] bool is_default(const StreamState& stream) const {
    return &stream == &default_streams.at(stream.device);
  }
  /// All streams, including the default ones of each device.
  std::vector<StreamState*> all_streams();

  /// The parsed kernel of a stub. An error, which is printed to stderr once, if there is none that can be run.
  cudaError_t find_kernel(const void* function, const Program*& program);
};

/// The address of a __device__, __constant__ or __managed__ variable; 0 if it cannot be found.
std::uint64_t address_of(const Runtime::HostVariable& variable);

/// Made when it is first used, which is before main: executables register their kernels there.
Runtime& runtime();

/// Remembers an error for cudaGetLastError, as every call does, and gives it back.
cudaError_t returned(cudaError_t error);

/// For calls that wait for the device: the error of a launch that no call has given yet.
cudaError_t take_unreported();

/// Does work on a stream: now, or, while the stream is being captured, when the graph is launched.
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, Work work);

// ---- Several devices (schedule.cpp)
/// Of this host thread.
unsigned current_device();
void set_current_device(unsigned device);
/// What SIM_DEVICES says.
unsigned wanted_devices();
/// What SIM_PEERS says, whether any device can reach the memory of another. Ends the program where it is something else.
bool wants_peers();
/// The place of a new stream.
std::shared_ptr<StreamPlace> new_place();
/// Does work now where it need not wait for another device, and otherwise as soon as it can go on; its error if it is done.
cudaError_t schedule(StreamState& stream, Work work);
/// Lets work go on as far as it can without the host.
void go_on();
/// Lets work go on until the stream has done the work enqueued on it, or the event's last record; the host
/// then knows the work before it. Work that waits and cannot end is a fault.
void wait_for(const StreamState& stream);
void wait_for(const EventState& event);
void wait_for_device(unsigned device);
void record(EventState& event, StreamState& stream);
void wait_in_stream(StreamState& stream, const EventState& event);
/// The place of the next work, a kernel or a copy, of the stream at work.
DeviceWork next_device_work(std::string what);
/// Records an access of the block of a copy. An error if it races with an access of another stream or device,
/// and SIM_CHECK makes races errors. Host memory that no kernel can use is ignored.
cudaError_t see_copy(std::uint64_t block, const void* first, std::size_t bytes, bool writes);
/// A copy that is running now.
class WatchedCopy {
 public:
  explicit WatchedCopy(const std::string& what);
  [[nodiscard]] cudaError_t see(const void* first, std::size_t bytes, bool writes) const {
    return see_copy(block_, first, bytes, writes);
  }

 private:
  std::uint64_t block_ = 0;
};

/// For entry points that exist only so that programs link: says so once per name, and returns
/// cudaErrorNotSupported.
cudaError_t not_supported(const char* name);

/// One line, or several, for people: "simulator: ..." on stderr.
void say(const std::string& text);
void say_once(const std::string& text);

// ---- The simulated device (runtime_device.cpp)
namespace device {
inline constexpr const char* name = "CPU simulator (attributes of an H200)";
inline constexpr int major = 9;
inline constexpr int minor = 0;
inline constexpr int most_multiprocessors = 132;
/// These, or fewer where SIM_MULTIPROCESSORS says so.
int multiprocessors();
inline constexpr std::array max_grid{0x7fffffff, 65535, 65535};
inline constexpr std::array max_block{1024, 1024, 64};
inline constexpr int max_threads_per_block = 1024;
inline constexpr int max_threads_per_multiprocessor = 2048;
inline constexpr int max_blocks_per_multiprocessor = 32;
inline constexpr int shared_per_block = 48 * 1024;
inline constexpr int shared_per_block_optin = 227 * 1024;
inline constexpr int shared_per_multiprocessor = 228 * 1024;
inline constexpr int reserved_shared_per_block = sim::reserved_shared_bytes;
inline constexpr int registers = 65536;
inline constexpr int most_blocks_in_cluster = 8;  ///< 16 for a kernel that requests it
/// The multiprocessors of each GPC, which hold a cluster together: an H200 holds 66, 30, 15 and 7 clusters of 2, 4, 8 and
/// 16 blocks at one block per multiprocessor. Fewer multiprocessors are the first of these.
inline constexpr std::array gpcs{18, 18, 18, 18, 18, 16, 16, 10};
inline constexpr int l2_bytes = 60 * 1024 * 1024;
inline constexpr int memory_bus_bits = 6144;
inline constexpr std::size_t most_pitch = 0x7fffffff;
inline constexpr int constant_bytes = 64 * 1024;
/// 10 * major + minor, or what SIM_COMPUTE_CAPABILITY says.
int compute_capability();
/// The newest architecture whose PTX is taken: any, unless SIM_COMPUTE_CAPABILITY says otherwise.
int newest_ptx();
}  // namespace device
std::size_t simulated_memory_bytes();
/// A number from 1 to `most` that the variable says, or `otherwise` where it is not set. Ends the program where it is
/// something else.
unsigned wanted_number(const char* variable, unsigned most, unsigned otherwise);

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
/// Makes the work that launches it, after checking everything that a device would refuse; copies the
/// arguments.
cudaError_t prepare(const LaunchRequest& request, Work& work);
cudaError_t launch(const LaunchRequest& request);
/// What SIM_CHECK says. Ends the program where it is something else.
Check wanted_check();

// ---- Copying and filling (memory.cpp)
struct CopyRequest {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t width = 0;     ///< bytes of a row
  std::size_t height = 1;    ///< rows
  std::size_t to_pitch = 0;  ///< bytes from one row to the next
  std::size_t from_pitch = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;
};
cudaError_t prepare(const CopyRequest& request, Work& work);

struct FillRequest {
  void* to = nullptr;
  unsigned value = 0;
  unsigned value_bytes = 1;
  std::size_t width = 0;  ///< values in a row
  std::size_t height = 1;
  std::size_t pitch = 0;
};
cudaError_t prepare(const FillRequest& request, Work& work);

/// Records the counts that counters.h exposes (recording.cpp).
void record_launch(const Launch& done);
/// Records the parts of its kernel that ran, for SIM_COVERAGE.
void record_coverage(const Launch& done);
/// For SIM_TRACE: the program to launch in place of a kernel, and hooks for the beginning and the end of a
/// launch.
const Program& program_to_launch(const Program& program);
void begin_trace(Launch& launch);
void record_trace(const Launch& done, const Fault* fault);
/// Forgets the traces of the launches so far.
void forget_traces();
void record_fault(const Fault& fault);

}  // namespace sim
