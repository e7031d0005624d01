// Kernels: registering, launching, asking about them.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/sim/ptx/fatbinary.h"
#include "common/sim/runtime/runtime.h"

namespace sim {
namespace {

struct Pushed {
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared = 0;
  void* stream = nullptr;
};
std::vector<Pushed>& pushed_configurations() {
  thread_local std::vector<Pushed> pushed;
  return pushed;
}

cudaError_t error_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::illegal_address:
      return cudaErrorIllegalAddress;
    case FaultKind::misaligned_address:
      return cudaErrorMisalignedAddress;
    case FaultKind::assertion:
      return cudaErrorAssert;
    case FaultKind::unknown_instruction:
      return cudaErrorIllegalInstruction;
    case FaultKind::not_written:
    case FaultKind::race:
    case FaultKind::shuffle:
    case FaultKind::barrier:
    case FaultKind::trap:
    case FaultKind::endless:
      return cudaErrorLaunchFailure;
  }
  return cudaErrorUnknown;
}

Dim3 sized(const dim3& size) {
  return {size.x, size.y, size.z};
}

/// From 1 to `most` in each dimension.
bool fits(const dim3& size, const std::array<int, 3>& most) {
  const auto one = [](unsigned count, int limit) {
    return count >= 1 && count <= static_cast<unsigned>(limit);
  };
  return one(size.x, most[0]) && one(size.y, most[1]) && one(size.z, most[2]);
}

/// Bytes of shared memory that a block may have, static and dynamic.
std::size_t most_shared(const Program& program, const HostFunction::Attributes& function) {
  return function.most_dynamic_shared > 0
             ? static_cast<std::size_t>(function.most_dynamic_shared) + program.static_shared_bytes
             : device::shared_per_block;
}

/// From threads and shared memory. Registers are not known before ptxas, so they limit nothing here.
int blocks_per_multiprocessor(const Program& program, std::uint64_t threads, std::size_t dynamic_shared) {
  const std::uint64_t warps = (threads + warp_size - 1) / warp_size;
  const std::size_t shared = dynamic_shared + program.static_shared_bytes + device::reserved_shared_per_block;
  return std::min({device::max_blocks_per_multiprocessor,
                   static_cast<int>(device::max_threads_per_multiprocessor / (warps * warp_size)),
                   static_cast<int>(device::shared_per_multiprocessor / shared)});
}

/// Checks everything that a device refuses before anything runs; prints the reason.
cudaError_t check_configuration(const Program& program, const HostFunction::Attributes& function,
                                const LaunchRequest& request) {
  const auto refuse = [&](const std::string& why) {
    say("launch of " + program.demangled + " refused: " + why);
    return cudaErrorInvalidValue;
  };
  const auto text = [](const dim3& size) { return describe_point(sized(size)); };
  if (!fits(request.grid, device::max_grid)) {
    refuse("no grid can be " + text(request.grid));
    return cudaErrorInvalidConfiguration;
  }
  const std::uint64_t threads = sized(request.block).count();
  if (!fits(request.block, device::max_block) || threads > device::max_threads_per_block) {
    refuse("no block can be " + text(request.block) + ": at most 1024 threads");
    return cudaErrorInvalidConfiguration;
  }
  if (program.max_block_threads != 0 && threads > program.max_block_threads) {
    refuse("it is compiled for at most " + std::to_string(program.max_block_threads) +
           " threads in a block, not " + std::to_string(threads));
    return cudaErrorLaunchFailure;
  }
  const std::size_t most = most_shared(program, function);
  if (request.dynamic_shared + program.static_shared_bytes > most) {
    return refuse("a block would have " +
                  std::to_string(request.dynamic_shared + program.static_shared_bytes) +
                  " bytes of shared memory, and may have " + std::to_string(most) +
                  " (more than 48 KiB: cudaFuncSetAttribute)");
  }
  return cudaSuccess;
}

/// The blocks of a cluster: those of the launch, or those that the kernel is compiled for; 1 when neither says.
Dim3 cluster_of(const Program& program, const LaunchRequest& request) {
  if (request.cluster.x != 0) return sized(request.cluster);
  const Dim3 compiled{program.cluster[0], program.cluster[1], program.cluster[2]};
  return compiled.count() == 0 ? Dim3{} : compiled;
}

unsigned most_cluster(const HostFunction::Attributes& function) {
  return static_cast<unsigned>(device::most_blocks_in_cluster) * (function.large_clusters ? 2 : 1);
}

/// Attributes that only say when or where to run are accepted.
LaunchRequest request_of(const cudaLaunchConfig_t& config, const void* function, void** arguments) {
  LaunchRequest request{function,  config.gridDim, config.blockDim, config.dynamicSmemBytes,
                        arguments, config.stream};
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative) request.cooperative = attribute.val.cooperative != 0;
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      request.dependent = attribute.val.programmaticStreamSerializationAllowed != 0;
    }
    const auto& cluster = attribute.val.clusterDim;
    if (attribute.id == cudaLaunchAttributeClusterDimension)
      request.cluster = {cluster.x, cluster.y, cluster.z};
  }
  return request;
}

cudaError_t set_cluster(LaunchConfiguration& configuration, const Program& program,
                        const HostFunction::Attributes& function, const LaunchRequest& request) {
  const Dim3 size = cluster_of(program, request);
  const auto refuse = [&](const std::string& why) {
    say("launch of " + program.demangled + " refused: clusters of " + describe_point(size) + " blocks, " +
        why);
    return cudaErrorInvalidClusterSize;
  };
  const unsigned most = most_cluster(function);
  if (size.count() > most) {
    return refuse("and at most " + std::to_string(most) +
                  (function.large_clusters
                       ? ""
                       : " are accepted (16 with cudaFuncAttributeNonPortableClusterSizeAllowed)"));
  }
  if (request.grid.x % size.x != 0 || request.grid.y % size.y != 0 || request.grid.z % size.z != 0) {
    return refuse("and the grid of " + describe_point(sized(request.grid)) + " is no multiple of that");
  }
  configuration.cluster = size;
  return cudaSuccess;
}

/// Each once for a source line, however often it is launched.
void say_warnings(const Launch& launched) {
  for (const Fault& warning : launched.warnings) {
    if (!runtime().warned.insert({warning.kind, warning.line}).second) continue;
    say(warning.text + "\n    the launch goes on (SIM_CHECK=warn)");
    record_fault(warning);
  }
}

/// Calls run(), which returns whether the launch has ended, and then prints the reports on it.
template <class Run>
std::optional<cudaError_t> watch(Launch& launched, Run run) {
  cudaError_t error = cudaSuccess;
  try {
    if (!run()) return std::nullopt;
    say_warnings(launched);
    record_trace(launched, nullptr);
  } catch (const Fault& fault) {
    say_warnings(launched);
    record_trace(launched, &fault);
    say(fault.text + "\n    the launch ends here" +
        (fault.is_suspicion ? " (SIM_CHECK=warn: it goes on)" : ""));
    record_fault(fault);
    error = error_of(fault.kind);
    runtime().unreported = error;
    runtime().broken = true;
  }
  record_launch(launched);
  record_coverage(launched);
  return error;
}

/// A launch that may have to wait for others, on other devices.
class RunningLaunch {
 public:
  explicit RunningLaunch(LaunchConfiguration of)
      : configuration_(std::move(of)), launched_(configuration_, runtime().memory, &runtime().works) {
    begin_trace(launched_);
  }

  std::optional<cudaError_t> go_on() {
    const std::optional<cudaError_t> error = watch(launched_, [&] {
      if (!std::exchange(begun_, true)) launched_.begin(next_device_work(""));
      if (launched_.is_idle() && runtime().stuck) return give_up();
      const std::uint64_t before = launched_.progress;
      const bool ended = !launched_.take_round();
      if (launched_.progress != before) ++runtime().progress;
      return ended;
    });
    if (error) launched_.teach(runtime().at_work->place->clock);
    return gave_up_ ? cudaErrorLaunchFailure : error;
  }

 private:
  /// Nothing that it waits for comes any more.
  bool give_up() {
    if (!runtime().broken) launched_.report_endless();
    say(launched_.program.demangled + " on device " + std::to_string(configuration_.device) +
        " ends, too: it waits for what the launch with the fault was to do");
    gave_up_ = true;
    return true;
  }

  const LaunchConfiguration configuration_;
  Launch launched_;
  bool begun_ = false;
  bool gave_up_ = false;
};

Work work_of(const LaunchConfiguration& configuration) {
  return [configuration, running = std::shared_ptr<RunningLaunch>()]() mutable -> std::optional<cudaError_t> {
    if (runtime().devices == 1) {
      Launch launched(configuration, runtime().memory);
      begin_trace(launched);
      return watch(launched, [&] {
        launched.run();
        return true;
      });
    }
    if (!running) running = std::make_shared<RunningLaunch>(configuration);
    const std::optional<cudaError_t> error = running->go_on();
    if (error) running = nullptr;
    return error;
  };
}

/// The work of a cooperative launch, with the barrier that its blocks share: cooperative groups find its
/// address in %envreg1 and 2.
Work cooperative_work_of(const LaunchConfiguration& configuration) {
  struct GridWorkspace {
    std::uint32_t bytes = sizeof(GridWorkspace);
    std::uint32_t barrier = 0;
  };
  return [configuration = configuration, work = Work()]() mutable -> std::optional<cudaError_t> {
    GlobalMemory& memory = runtime().memory;
    std::uint64_t& address = configuration.grid_workspace;
    if (!work) {
      const GridWorkspace workspace;
      address =
          memory.allocate(sizeof workspace, "the workspace of a cooperative launch", configuration.device);
      if (!memory.copy_in(address, &workspace, sizeof workspace)) return cudaErrorMemoryAllocation;
      work = work_of(configuration);
    }
    const std::optional<cudaError_t> error = work();
    if (!error) return std::nullopt;
    memory.free(address);
    work = nullptr;
    return error;
  };
}

}  // namespace

Check wanted_check() {
  const char* text = std::getenv("SIM_CHECK");
  const std::string_view wanted = text == nullptr ? "" : text;
  if (wanted.empty() || wanted == "stop") return Check::stop;
  if (wanted == "warn") return Check::warn;
  if (wanted == "off") return Check::off;
  say("SIM_CHECK: '" + std::string(wanted) + "' is not accepted; accepted: stop, warn, off");
  std::exit(2);
}

cudaError_t prepare(const LaunchRequest& request, Work& work) {
  Runtime& state = runtime();
  const Program* program = nullptr;
  if (const cudaError_t error = state.find_kernel(request.function, program); error != cudaSuccess)
    return error;
  const StreamState* stream = state.stream(request.stream);
  const unsigned device = stream == nullptr ? current_device() : stream->device;
  const HostFunction::Attributes& function = state.functions.at(request.function).of_device.at(device);
  if (const cudaError_t error = check_configuration(*program, function, request); error != cudaSuccess) {
    return error;
  }
  LaunchConfiguration configuration;
  configuration.resident_blocks =
      static_cast<std::uint64_t>(device::multiprocessors()) *
      blocks_per_multiprocessor(*program, sized(request.block).count(), request.dynamic_shared);
  if (request.cooperative && sized(request.grid).count() > configuration.resident_blocks) {
    say("launch of " + program->demangled + " refused: a cooperative launch of " +
        std::to_string(sized(request.grid).count()) + " blocks, and the GPU holds " +
        std::to_string(configuration.resident_blocks) + " of them at a time");
    return cudaErrorCooperativeLaunchTooLarge;
  }
  configuration.dependent = request.dependent;
  if (const cudaError_t error = set_cluster(configuration, *program, function, request);
      error != cudaSuccess) {
    return error;
  }
  configuration.check = wanted_check();
  configuration.device = device;
  configuration.program = &program_to_launch(*program);
  configuration.grid = sized(request.grid);
  configuration.block = sized(request.block);
  configuration.dynamic_shared_bytes = static_cast<std::uint32_t>(request.dynamic_shared);
  configuration.parameters.resize(program->parameter_bytes);
  if (request.arguments == nullptr && !program->parameters.empty()) return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < program->parameters.size(); ++i) {
    const Parameter& parameter = program->parameters[i];
    std::memcpy(configuration.parameters.data() + parameter.offset, request.arguments[i], parameter.bytes);
  }
  work = request.cooperative ? cooperative_work_of(configuration) : work_of(configuration);
  return cudaSuccess;
}

cudaError_t launch(const LaunchRequest& request) {
  const std::lock_guard lock(runtime().mutex);
  Work work;
  const cudaError_t error = prepare(request, work);
  return error != cudaSuccess ? error : enqueue(request.stream, cudaGraphNodeTypeKernel, std::move(work));
}

}  // namespace sim

using sim::launch;
using sim::returned;
using sim::runtime;

extern "C" {

// ---- The functions that nvcc's host code calls. NOLINTBEGIN(bugprone-reserved-identifier)

void** __cudaRegisterFatBinary(void* wrapper) {
  (void)sim::wanted_check();  // a mistake in it is reported before the program begins
  (void)sim::wanted_devices();
  (void)sim::device::multiprocessors();
  (void)sim::wants_peers();
  const std::lock_guard lock(runtime().mutex);
  sim::FatBinaryPtx found = sim::find_ptx(wrapper, static_cast<std::uint32_t>(sim::device::newest_ptx()));
  sim::FatBinary binary;
  binary.why_not = found.why_not;
  binary.architecture = static_cast<int>(found.architecture);
  if (!found.ptx.empty()) binary.module = std::make_unique<sim::Module>(std::move(found.ptx));
  runtime().fat_binaries.push_back(std::move(binary));
  return reinterpret_cast<void**>(runtime().fat_binaries.size());  // NOLINT: a number, never followed
}

void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
/// Called before the host's code first uses a __managed__ variable.
char __cudaInitModule(void** handle) {
  const std::lock_guard lock(runtime().mutex);
  const std::size_t fat_binary = reinterpret_cast<std::size_t>(handle) - 1;
  const sim::FatBinary& binary = runtime().fat_binaries.at(fat_binary);
  for (const auto& [pointer, variable] : runtime().managed) {
    if (variable.fat_binary != fat_binary || *pointer != nullptr || !binary.module) continue;
    *pointer = reinterpret_cast<void*>(sim::address_of(variable));  // NOLINT(performance-no-int-to-ptr)
  }
  return 1;
}

void __cudaRegisterFunction(void** handle, const char* host_function, char* /*device_function*/,
                            const char* device_name, int /*thread_limit*/, void* /*tid*/, void* /*bid*/,
                            void* /*block*/, void* /*grid*/, int* /*warp_size*/) {
  const std::lock_guard lock(runtime().mutex);
  runtime().functions[host_function] = {reinterpret_cast<std::size_t>(handle) - 1, device_name};
}

void __cudaRegisterVar(void** handle, char* host_variable, char* /*device_address*/, const char* device_name,
                       int /*is_extern*/, std::size_t size, int /*is_constant*/, int /*is_global*/) {
  const std::lock_guard lock(runtime().mutex);
  runtime().variables[host_variable] = {reinterpret_cast<std::size_t>(handle) - 1, device_name, size};
}

/// `host_variable`: the host's code reads its address there.
void __cudaRegisterManagedVar(void** handle, void** host_variable, char* /*device_address*/,
                              const char* device_name, int /*is_extern*/, std::size_t size,
                              int /*is_constant*/, int /*is_global*/) {
  const std::lock_guard lock(runtime().mutex);
  runtime().managed[host_variable] = {reinterpret_cast<std::size_t>(handle) - 1, device_name, size};
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t dynamic_shared, void* stream) {
  sim::pushed_configurations().push_back({grid, block, dynamic_shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* dynamic_shared, void* stream) {
  auto& pushed = sim::pushed_configurations();
  if (pushed.empty()) return returned(cudaErrorMissingConfiguration);
  *grid = pushed.back().grid;
  *block = pushed.back().block;
  *dynamic_shared = pushed.back().dynamic_shared;
  *static_cast<void**>(stream) = pushed.back().stream;
  pushed.pop_back();
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(void** kernel, const void* function) {
  *kernel = const_cast<void*>(function);
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(void* kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t dynamic_shared, cudaStream_t stream) {
  return returned(launch({kernel, grid, block, dynamic_shared, arguments, stream}));
}

/// For code whose default stream is one per thread; this call tells the other functions so.
cudaError_t __cudaLaunchKernel_ptsz(void* kernel, dim3 grid, dim3 block, void** arguments,
                                    std::size_t dynamic_shared, cudaStream_t stream) {
  runtime().default_is_per_thread = true;
  return returned(launch({kernel, grid, block, dynamic_shared, arguments, stream}));
}

// NOLINTEND(bugprone-reserved-identifier)

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t dynamic_shared, cudaStream_t stream) {
  return returned(launch({function, grid, block, dynamic_shared, arguments, stream}));
}

cudaError_t cudaLaunchKernel_ptsz(const void* function, dim3 grid, dim3 block, void** arguments,
                                  std::size_t dynamic_shared, cudaStream_t stream) {
  runtime().default_is_per_thread = true;
  return returned(launch({function, grid, block, dynamic_shared, arguments, stream}));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  if (config == nullptr || (config->attrs == nullptr && config->numAttrs > 0)) {
    return returned(cudaErrorInvalidValue);
  }
  return returned(launch(sim::request_of(*config, function, arguments)));
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                        std::size_t dynamic_shared, cudaStream_t stream) {
  return returned(launch({function, grid, block, dynamic_shared, arguments, stream, true, {0, 0, 0}, false}));
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (attributes == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  const sim::Program* program = nullptr;
  if (const cudaError_t error = runtime().find_kernel(function, program); error != cudaSuccess) {
    return returned(error);
  }
  const auto& known = runtime().functions.at(function).of_device.at(sim::current_device());
  *attributes = {};
  attributes->sharedSizeBytes = program->static_shared_bytes;
  attributes->localSizeBytes = program->local_bytes;
  attributes->maxThreadsPerBlock = program->max_block_threads != 0
                                       ? static_cast<int>(program->max_block_threads)
                                       : sim::device::max_threads_per_block;
  attributes->numRegs = 32;  // ptxas decides that after PTX; not known here
  // By these, CUB chooses the launch that fits the architecture of the kernel.
  attributes->ptxVersion =
      runtime().fat_binaries.at(runtime().functions.at(function).fat_binary).architecture;
  attributes->binaryVersion = attributes->ptxVersion;
  attributes->maxDynamicSharedSizeBytes =
      known.most_dynamic_shared > 0
          ? known.most_dynamic_shared
          : sim::device::shared_per_block - static_cast<int>(program->static_shared_bytes);
  attributes->preferredShmemCarveout = known.carveout;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(runtime().mutex);
  const sim::Program* program = nullptr;
  if (const cudaError_t error = runtime().find_kernel(function, program); error != cudaSuccess) {
    return returned(error);
  }
  auto& known = runtime().functions.at(function).of_device.at(sim::current_device());
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0 ||
          value + static_cast<int>(program->static_shared_bytes) > sim::device::shared_per_block_optin) {
        return returned(cudaErrorInvalidValue);
      }
      known.most_dynamic_shared = value;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      known.carveout = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      known.large_clusters = value != 0;
      return cudaSuccess;
    default:
      return sim::not_supported("this attribute of cudaFuncSetAttribute");
  }
}

cudaError_t cudaFuncSetCacheConfig(const void* /*function*/, cudaFuncCache /*config*/) {
  return cudaSuccess;
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  if (name == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  const auto found = runtime().functions.find(function);
  if (found == runtime().functions.end()) return returned(cudaErrorInvalidDeviceFunction);
  *name = found->second.name.c_str();
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                   int block_size, std::size_t dynamic_shared,
                                                                   unsigned /*flags*/) {
  const std::lock_guard lock(runtime().mutex);
  const sim::Program* program = nullptr;
  if (const cudaError_t error = runtime().find_kernel(function, program); error != cudaSuccess) {
    return returned(error);
  }
  if (block_size < 1 || blocks == nullptr) return returned(cudaErrorInvalidValue);
  const std::size_t shared = dynamic_shared + program->static_shared_bytes;
  const auto& known = runtime().functions.at(function).of_device.at(sim::current_device());
  const std::size_t most = sim::most_shared(*program, known);
  *blocks =
      block_size > sim::device::max_threads_per_block || shared > most
          ? 0
          : sim::blocks_per_multiprocessor(*program, static_cast<std::uint64_t>(block_size), dynamic_shared);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int block_size,
                                                          std::size_t dynamic_shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, dynamic_shared,
                                                                0);
}

/// How many clusters of such a launch the GPU holds at a time.
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                           const cudaLaunchConfig_t* config) {
  if (clusters == nullptr || config == nullptr) return returned(cudaErrorInvalidValue);
  *clusters = 0;
  const std::lock_guard lock(runtime().mutex);
  const sim::Program* program = nullptr;
  if (const cudaError_t error = runtime().find_kernel(function, program); error != cudaSuccess) {
    return returned(error);
  }
  const auto& known = runtime().functions.at(function).of_device.at(sim::current_device());
  const std::uint64_t size = sim::cluster_of(*program, sim::request_of(*config, function, nullptr)).count();
  if (size > sim::most_cluster(known)) return returned(cudaErrorInvalidClusterSize);
  int blocks = 0;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, function, static_cast<int>(sim::sized(config->blockDim).count()), config->dynamicSmemBytes);
  if (error != cudaSuccess) return error;
  // A cluster is in one GPC.
  int left = sim::device::multiprocessors();
  for (const int most : sim::device::gpcs) {
    const int multiprocessors = std::min(most, left);
    *clusters += multiprocessors * blocks / static_cast<int>(size);
    left -= multiprocessors;
  }
  return cudaSuccess;
}

/// The largest cluster of which such a launch fits the GPU.
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                 const cudaLaunchConfig_t* config) {
  if (size == nullptr || config == nullptr) return returned(cudaErrorInvalidValue);
  *size = 0;
  const std::lock_guard lock(runtime().mutex);
  const sim::Program* program = nullptr;
  if (const cudaError_t error = runtime().find_kernel(function, program); error != cudaSuccess) {
    return returned(error);
  }
  int blocks = 0;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, function, static_cast<int>(sim::sized(config->blockDim).count()), config->dynamicSmemBytes);
  if (error != cudaSuccess) return error;
  const auto& known = runtime().functions.at(function).of_device.at(sim::current_device());
  if (blocks > 0) *size = static_cast<int>(sim::most_cluster(known));
  return cudaSuccess;
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* dynamic_shared, const void* function,
                                                      int blocks, int /*block_size*/) {
  const std::lock_guard lock(runtime().mutex);
  const sim::Program* program = nullptr;
  if (const cudaError_t error = runtime().find_kernel(function, program); error != cudaSuccess) {
    return returned(error);
  }
  if (blocks < 1 || dynamic_shared == nullptr) return returned(cudaErrorInvalidValue);
  const int each =
      std::min(sim::device::shared_per_block_optin,
               sim::device::shared_per_multiprocessor / blocks - sim::device::reserved_shared_per_block);
  *dynamic_shared =
      static_cast<std::size_t>(std::max(0, each - static_cast<int>(program->static_shared_bytes)));
  return cudaSuccess;
}

}  // extern "C"
