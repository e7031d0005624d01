// NCCL for the simulator, of which one process has all ranks: the host's functions that a program needs to
// set up ranks and to let them work together. libnccl.so.2 is in the folder of the simulator's libcudart.so.
// It does without NVIDIA's header, whose interface in C is declared here.
//
// A collective operation runs when the streams of all ranks have reached it; the ranks' k-th operations
// belong together. Sums are made in the order of the ranks.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <type_traits>
#include <utility>

#include "common/sim/machine/numbers.h"
#include "common/sim/nccl/communicator.h"

using nccl::Clique;
using nccl::Meeting;
using nccl::OnDevice;
using nccl::refuse;
using nccl::simulator;

namespace {

// ---- Types and reductions

constexpr auto type_bytes = std::to_array<std::size_t>({1, 1, 4, 4, 8, 8, 2, 4, 8, 2});

template <class T>
T combined(T a, T b, ncclRedOp_t operation) {
  switch (operation) {
    case ncclProd:
      return static_cast<T>(a * b);
    case ncclMax:
      return std::is_floating_point_v<T> ? static_cast<T>(std::fmax(a, b)) : std::max(a, b);
    case ncclMin:
      return std::is_floating_point_v<T> ? static_cast<T>(std::fmin(a, b)) : std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

/// All ranks' inputs, value by value. `load` and `store` convert between a value in memory and one to compute with.
template <class Stored, class Load, class Store>
std::vector<std::byte> reduced(const std::vector<std::vector<std::byte>>& inputs, ncclRedOp_t operation,
                               Load load, Store store) {
  std::vector<std::byte> result(inputs.front().size());
  for (std::size_t at = 0; at < result.size(); at += sizeof(Stored)) {
    const auto value_of = [&](const std::vector<std::byte>& input) {
      Stored stored{};
      std::memcpy(&stored, input.data() + at, sizeof stored);
      return load(stored);
    };
    auto value = value_of(inputs.front());
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      value = load(store(combined(value, value_of(inputs[rank]), operation)));
    }
    using Value = decltype(value);
    if (operation == ncclAvg) value = static_cast<Value>(value / static_cast<Value>(inputs.size()));
    const Stored stored = store(value);
    std::memcpy(result.data() + at, &stored, sizeof stored);
  }
  return result;
}

template <class T>
std::vector<std::byte> reduced_as(const std::vector<std::vector<std::byte>>& inputs, ncclRedOp_t operation) {
  const auto same = [](T value) { return value; };
  return reduced<T>(inputs, operation, same, same);
}

std::vector<std::byte> reduced(const std::vector<std::vector<std::byte>>& inputs, ncclDataType_t type,
                               ncclRedOp_t operation) {
  switch (type) {
    case ncclInt8:
      return reduced_as<std::int8_t>(inputs, operation);
    case ncclUint8:
      return reduced_as<std::uint8_t>(inputs, operation);
    case ncclInt32:
      return reduced_as<std::int32_t>(inputs, operation);
    case ncclUint32:
      return reduced_as<std::uint32_t>(inputs, operation);
    case ncclInt64:
      return reduced_as<std::int64_t>(inputs, operation);
    case ncclUint64:
      return reduced_as<std::uint64_t>(inputs, operation);
    case ncclFloat16:
      return reduced<sim::Half>(
          inputs, operation, [](sim::Half value) { return sim::to_float(value); },
          [](float value) { return sim::to_half(value, sim::Rounding::nearest); });
    case ncclBfloat16:
      return reduced<sim::Bfloat16>(
          inputs, operation, [](sim::Bfloat16 value) { return sim::to_float(value); },
          [](float value) { return sim::to_bfloat16(value, sim::Rounding::nearest); });
    case ncclFloat64:
      return reduced_as<double>(inputs, operation);
    default:
      return reduced_as<float>(inputs, operation);
  }
}

// ---- Collective operations

enum class Kind : std::uint8_t { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, receive };
constexpr std::array names{"ncclAllReduce",     "ncclReduce", "ncclBroadcast", "ncclAllGather",
                           "ncclReduceScatter", "ncclSend",   "ncclRecv"};

struct Operation {
  Kind kind = Kind::all_reduce;
  void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  int other = 0;  ///< the root, or the peer

  [[nodiscard]] const char* name() const { return names.at(static_cast<std::size_t>(kind)); }
  [[nodiscard]] bool is_between_two() const { return kind == Kind::send || kind == Kind::receive; }
  [[nodiscard]] std::size_t bytes() const { return count * type_bytes.at(static_cast<std::size_t>(type)); }
};

}  // namespace

/// The meeting point of an operation's ranks.
struct nccl::Meeting {
  struct Rank {
    Operation operation;
    std::uint64_t number = 0;  ///< by which the simulator identifies its reads and writes
    bool is_here = false;
  };
  std::vector<Rank> ranks;  ///< of the communicator; between two, the sender and the receiver
  sim::Clock clock;
  bool done = false;
  cudaError_t error = cudaSuccess;
};

namespace {

std::string describe(const Operation& operation) {
  return std::string(operation.name()) + " of " + std::to_string(operation.count) + " elements of type " +
         std::to_string(operation.type);
}

/// A message where the ranks do not do the same.
std::string find_difference(const Meeting& meeting) {
  const Operation& first = meeting.ranks.front().operation;
  for (std::size_t rank = 1; rank < meeting.ranks.size(); ++rank) {
    const Operation& other = meeting.ranks[rank].operation;
    const bool same = first.is_between_two()
                          ? first.bytes() == other.bytes()
                          : first.kind == other.kind && first.count == other.count &&
                                first.type == other.type && first.reduction == other.reduction &&
                                first.other == other.other;
    if (same) continue;
    const bool two = first.is_between_two();
    return (two ? "the sender calls " : "rank 0 calls ") + describe(first) + ", " +
           (two ? "the receiver " : "rank " + std::to_string(rank) + " ") + describe(other) +
           (same || first.kind != other.kind || first.count != other.count || first.type != other.type
                ? ""
                : ", with another root or reduction");
  }
  return "";
}

/// With SIM_REPORT, as for kernels: the least bytes that each rank gets from the others. In an all-reduce by a ring,
/// a rank gets each element twice, to add to it and as the final sum, except for the share that starts with it.
void count_received(const Operation& operation, std::size_t ranks) {
  if (std::getenv("SIM_REPORT") == nullptr) return;
  std::size_t bytes = operation.bytes();
  if (operation.kind == Kind::all_gather || operation.kind == Kind::reduce_scatter) bytes *= ranks - 1;
  if (operation.kind == Kind::all_reduce) bytes = 2 * bytes * (ranks - 1) / ranks;
  std::fflush(stdout);
  std::fprintf(stderr, "counted: %s of %zu ranks: each gets %zu bytes from others\n", operation.name(), ranks,
               ranks > 1 ? bytes : 0);
}

/// All ranks are here.
cudaError_t meet(const Meeting& meeting) {
  if (const std::string difference = find_difference(meeting); !difference.empty()) {
    simulator().report("NCCL: " + difference);
    return cudaErrorLaunchFailure;
  }
  const Operation& first = meeting.ranks.front().operation;
  const std::size_t count = meeting.ranks.size();
  std::vector<std::vector<std::byte>> inputs;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const Operation& own = meeting.ranks[rank].operation;
    const bool reads = first.is_between_two()          ? rank == 0
                       : first.kind == Kind::broadcast ? static_cast<int>(rank) == first.other
                                                       : true;
    if (!reads) continue;
    const std::size_t bytes = own.bytes() * (own.kind == Kind::reduce_scatter ? count : 1);
    const std::byte* const from = simulator().bytes(meeting.ranks[rank].number, own.from, bytes, false);
    if (from == nullptr) return cudaErrorLaunchFailure;
    inputs.emplace_back(from, from + bytes);
  }
  count_received(first, count);
  std::vector<std::byte> result = inputs.front();
  if (first.kind == Kind::all_gather) {
    for (std::size_t rank = 1; rank < count; ++rank) {
      result.insert(result.end(), inputs[rank].begin(), inputs[rank].end());
    }
  } else if (inputs.size() > 1) {
    result = reduced(inputs, first.type, first.reduction);
  }
  for (std::size_t rank = 0; rank < count; ++rank) {
    const Operation& own = meeting.ranks[rank].operation;
    const bool writes = first.is_between_two()       ? rank == 1
                        : first.kind == Kind::reduce ? static_cast<int>(rank) == first.other
                                                     : true;
    if (!writes) continue;
    const bool scatters = own.kind == Kind::reduce_scatter;
    const std::size_t bytes = scatters ? own.bytes() : result.size();
    std::byte* const to = simulator().bytes(meeting.ranks[rank].number, own.to, bytes, true);
    if (to == nullptr) return cudaErrorLaunchFailure;
    std::memcpy(to, result.data() + (scatters ? rank * bytes : 0), bytes);
  }
  return cudaSuccess;
}

std::string who_is_missing(const ncclComm& comm, const Operation& operation, const Meeting& meeting) {
  std::string missing;
  for (std::size_t rank = 0; rank < meeting.ranks.size(); ++rank) {
    if (meeting.ranks[rank].is_here) continue;
    const int number = operation.is_between_two() ? operation.other : static_cast<int>(rank);
    missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(number);
  }
  const char* const wanted = operation.kind == Kind::send      ? "ncclRecv"
                             : operation.kind == Kind::receive ? "ncclSend"
                                                               : operation.name();
  return "waits for ever: " + std::string(operation.name()) + " of rank " + std::to_string(comm.rank) +
         " on device " + std::to_string(comm.device) + " waits for " + wanted + " of " + missing;
}

/// The work of one rank on a stream between ncclGroupStart() and ncclGroupEnd().
class RankWork {
 public:
  RankWork(ncclComm& comm, std::vector<Operation> operations)
      : comm_(&comm), operations_(std::move(operations)) {}

  std::optional<cudaError_t> go_on() {
    if (meetings_.empty()) arrive();
    bool all_done = true;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      Meeting& meeting = *meetings_[i];
      if (meeting.done) continue;
      const bool complete = std::all_of(meeting.ranks.begin(), meeting.ranks.end(),
                                        [](const Meeting::Rank& rank) { return rank.is_here; });
      if (!complete && simulator().is_stuck()) {
        simulator().report(who_is_missing(*comm_, operations_[i], meeting));
        meeting.error = cudaErrorLaunchFailure;
      } else if (complete) {
        meeting.error = meet(meeting);
      } else {
        all_done = false;
        continue;
      }
      meeting.done = true;
    }
    if (!all_done) return std::nullopt;
    cudaError_t error = cudaSuccess;
    for (const auto& meeting : meetings_) {
      simulator().add_from(meeting->clock);
      error = error != cudaSuccess ? error : meeting->error;
    }
    return error;
  }

 private:
  void arrive() {
    for (const Operation& operation : operations_) {
      const int peer = operation.other;
      const bool sends = operation.kind == Kind::send;
      const bool two = operation.is_between_two();
      const int sender = !two ? -1 : sends ? comm_->rank : peer;
      const int receiver = !two ? -1 : sends ? peer : comm_->rank;
      const std::size_t place = two ? (sends ? 0 : 1) : static_cast<std::size_t>(comm_->rank);
      // A rank that sends to itself counts its sends apart from its receives.
      std::uint64_t& number = comm_->met[{sends ? sender : sender + most_ranks, receiver}];
      auto& meetings = comm_->clique->meetings;
      const std::tuple key{sender, receiver, number++};
      std::shared_ptr<Meeting>& meeting = meetings[key];
      if (!meeting) {
        meeting = std::make_shared<Meeting>();
        meeting->ranks.resize(two ? 2 : comm_->clique->ranks.size());
      }
      meeting->ranks[place] = {operation, simulator().begin(operation.name()), true};
      simulator().add_to(meeting->clock);
      meetings_.push_back(meeting);
      const auto is_here = [](const Meeting::Rank& rank) { return rank.is_here; };
      if (std::all_of(meeting->ranks.begin(), meeting->ranks.end(), is_here)) meetings.erase(key);
    }
  }

  static constexpr int most_ranks = 1 << 20;
  ncclComm* comm_;
  std::vector<Operation> operations_;
  std::vector<std::shared_ptr<Meeting>> meetings_;
};

// ---- Groups

struct Enqueued {
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Operation> operations;
};
thread_local int groups = 0;
thread_local std::vector<Enqueued> group;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

ncclResult_t launch(Enqueued& enqueued) {
  const OnDevice device(enqueued.comm->device);
  const cudaError_t error = simulator().enqueue(
      enqueued.stream,
      [work = RankWork(*enqueued.comm, std::move(enqueued.operations))]() mutable { return work.go_on(); });
  return error == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
}

ncclResult_t launch_group() {
  ncclResult_t result = ncclSuccess;
  for (Enqueued& enqueued : std::exchange(group, {})) {
    const ncclResult_t launched = launch(enqueued);
    result = result != ncclSuccess ? result : launched;
  }
  return result;
}

ncclResult_t add(ncclComm* comm, cudaStream_t stream, const Operation& operation) {
  const std::string name = operation.name();
  if (comm == nullptr) return refuse(ncclInvalidArgument, name + " without a communicator");
  const int ranks = comm->size();
  if (static_cast<std::size_t>(operation.type) >= type_bytes.size()) {
    return refuse(ncclInvalidArgument,
                  name + ": data type " + std::to_string(operation.type) + " is not simulated");
  }
  if (operation.reduction < ncclSum || operation.reduction > ncclAvg) {
    return refuse(ncclInvalidArgument, name + ": reductions of one's own are not simulated");
  }
  if (operation.other < 0 || operation.other >= ranks) {
    return refuse(ncclInvalidArgument, name + ": there is no rank " + std::to_string(operation.other));
  }
  {
    const OnDevice device(comm->device);
    if (simulator().device_of(stream) != comm->device) {
      return refuse(ncclInvalidArgument,
                    name + ": the stream does not belong to device " + std::to_string(comm->device));
    }
  }
  if (operation.count == 0 && !operation.is_between_two()) return ncclSuccess;
  if (nccl::would_wait_for_ever(ranks)) {
    return refuse(ncclInvalidUsage,
                  name +
                      " outside of a group (ncclGroupStart), by the only thread: it would wait "
                      "there for the other ranks");
  }
  const auto same = std::find_if(group.begin(), group.end(), [&](const Enqueued& other) {
    return other.comm == comm && other.stream == stream;
  });
  Enqueued& enqueued = same != group.end() ? *same : group.emplace_back(Enqueued{comm, stream, {}});
  enqueued.operations.push_back(operation);
  return groups == 0 ? launch_group() : ncclSuccess;
}

void* writable(const void* pointer) {
  return const_cast<void*>(pointer);
}

// ---- Communicators

std::map<std::uint64_t, std::weak_ptr<Clique>>& cliques() {
  static std::map<std::uint64_t, std::weak_ptr<Clique>> by_id;
  return by_id;
}
std::mutex& cliques_mutex() {
  static std::mutex mutex;
  return mutex;
}

ncclComm* join(const std::shared_ptr<Clique>& clique, int rank, int device) {
  auto* comm =
      new ncclComm{clique, rank, device};  // NOLINT(cppcoreguidelines-owning-memory): ncclCommDestroy
  clique->ranks.at(static_cast<std::size_t>(rank)) = comm;
  return comm;
}

ncclResult_t check(const void* pointer, const char* function) {
  return pointer != nullptr ? ncclSuccess
                            : refuse(ncclInvalidArgument, std::string(function) + " with a null pointer");
}

}  // namespace

namespace nccl {

const sim::CollectivesApi& simulator() {
  static const auto* const api = [] {
    using Function = const sim::CollectivesApi* (*)();
    const auto function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, sim::collectives_function));
    if (function == nullptr) {
      std::fputs("simulator: its libnccl.so.2 is loaded without its libcudart.so\n", stderr);
      std::exit(2);
    }
    return function();
  }();
  return *api;
}

std::string& last_error() {
  static std::string text;
  return text;
}

ncclResult_t refuse(ncclResult_t result, const std::string& why) {
  last_error() = why;
  std::fflush(stdout);
  std::fprintf(stderr, "simulator: NCCL: %s\n", why.c_str());
  return result;
}

bool would_wait_for_ever(int ranks) {
  if (groups > 0 || ranks == 1) return false;
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return !error && std::distance(begin(threads), end(threads)) == 1;
}

}  // namespace nccl

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  constexpr int simulated = 22809;
  if (version != nullptr) *version = simulated;
  return check(version, "ncclGetVersion");
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::uint64_t last = 0;
  if (id == nullptr) return check(id, "ncclGetUniqueId");
  const std::lock_guard lock(cliques_mutex());
  *id = {};
  ++last;
  std::memcpy(id->internal, &last, sizeof last);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm** comm, int ranks, ncclUniqueId id, int rank, void* /*config*/) {
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return refuse(ncclInvalidArgument,
                  "ncclCommInitRank of rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  }
  if (nccl::would_wait_for_ever(ranks)) {
    return refuse(ncclInvalidUsage,
                  "ncclCommInitRank outside of a group (ncclGroupStart), by the only thread: it "
                  "would wait there for the other ranks, which the simulator has in one process");
  }
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  int device = 0;
  (void)cudaGetDevice(&device);
  const std::lock_guard lock(cliques_mutex());
  std::shared_ptr<Clique> clique = cliques()[number].lock();
  if (!clique) {
    clique = std::make_shared<Clique>();
    clique->ranks.resize(static_cast<std::size_t>(ranks));
    cliques()[number] = clique;
  }
  for (const ncclComm* other : clique->ranks) {
    if (other != nullptr && (other->rank == rank || other->device == device)) {
      return refuse(ncclInvalidUsage, "ranks " + std::to_string(other->rank) + " and " +
                                          std::to_string(rank) + " are on devices " +
                                          std::to_string(other->device) + " and " + std::to_string(device) +
                                          ": each rank has one of its own");
    }
  }
  *comm = join(clique, rank, device);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm** comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}
ncclResult_t ncclCommInitAll(ncclComm** comms, int count, const int* devices) {
  ncclUniqueId id;
  if (comms == nullptr || count < 1) return refuse(ncclInvalidArgument, "ncclCommInitAll of no ranks");
  int there = 0;
  (void)cudaGetDeviceCount(&there);
  (void)ncclGetUniqueId(&id);
  ++groups;
  ncclResult_t result = ncclSuccess;
  for (int rank = 0; rank < count && result == ncclSuccess; ++rank) {
    const int device = devices != nullptr ? devices[rank] : rank;
    if (device < 0 || device >= there) {
      result = refuse(ncclInvalidArgument, "there is no device " + std::to_string(device));
      break;
    }
    const OnDevice on(device);
    result = ncclCommInitRank(&comms[rank], count, id, rank);
  }
  --groups;
  return result;
}
ncclResult_t ncclCommFinalize(ncclComm* comm) {
  return check(comm, "ncclCommFinalize");
}
ncclResult_t ncclCommDestroy(ncclComm* comm) {
  if (comm == nullptr) return ncclSuccess;
  const OnDevice device(comm->device);
  (void)cudaDeviceSynchronize();
  delete comm;  // NOLINT(cppcoreguidelines-owning-memory)
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm* comm) {
  return ncclCommDestroy(comm);
}
ncclResult_t ncclCommCount(const ncclComm* comm, int* count) {
  if (comm != nullptr && count != nullptr) *count = comm->size();
  return check(comm != nullptr ? count : nullptr, "ncclCommCount");
}
ncclResult_t ncclCommUserRank(const ncclComm* comm, int* rank) {
  if (comm != nullptr && rank != nullptr) *rank = comm->rank;
  return check(comm != nullptr ? rank : nullptr, "ncclCommUserRank");
}
ncclResult_t ncclCommCuDevice(const ncclComm* comm, int* device) {
  if (comm != nullptr && device != nullptr) *device = comm->device;
  return check(comm != nullptr ? device : nullptr, "ncclCommCuDevice");
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "unknown result code";
  }
}
const char* ncclGetLastError(const ncclComm* /*comm*/) {
  return nccl::last_error().c_str();
}
ncclResult_t ncclCommGetAsyncError(const ncclComm* comm, ncclResult_t* error) {
  if (error != nullptr) *error = ncclSuccess;
  return check(comm != nullptr ? error : nullptr, "ncclCommGetAsyncError");
}

ncclResult_t ncclGroupStart() {
  ++groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (groups > 0) --groups;
  return groups == 0 ? launch_group() : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm* comm, cudaStream_t stream) {
  return add(comm, stream, {Kind::all_reduce, writable(from), to, count, type, reduction, 0});
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm* comm, cudaStream_t stream) {
  return add(comm, stream, {Kind::reduce, writable(from), to, count, type, reduction, root});
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm* comm, cudaStream_t stream) {
  return add(comm, stream, {Kind::broadcast, writable(from), to, count, type, ncclSum, root});
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm* comm,
                           cudaStream_t stream) {
  return add(comm, stream, {Kind::all_gather, writable(from), to, count, type, ncclSum, 0});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm* comm, cudaStream_t stream) {
  return add(comm, stream, {Kind::reduce_scatter, writable(from), to, count, type, reduction, 0});
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm* comm,
                      cudaStream_t stream) {
  return add(comm, stream, {Kind::send, writable(from), nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm* comm,
                      cudaStream_t stream) {
  return add(comm, stream, {Kind::receive, nullptr, to, count, type, ncclSum, peer});
}

}  // extern "C"
