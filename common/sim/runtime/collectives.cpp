#include "common/sim/runtime/collectives.h"

#include <sstream>

namespace sim {
namespace {

cudaError_t enqueue_collective(cudaStream_t stream, Work work) {
  const std::lock_guard lock(runtime().mutex);
  return enqueue(stream, cudaGraphNodeTypeKernel, std::move(work));
}

int device_of(cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  const StreamState* state = runtime().stream(stream);
  return state == nullptr ? -1 : static_cast<int>(state->device);
}

void report(const std::string& fault) {
  say(fault);
  record_fault({FaultKind::endless, fault});
  runtime().broken = true;
}

std::uint64_t begin(const std::string& what) {
  return runtime().devices == 1 ? 0 : runtime().works.begin(next_device_work(what), runtime().memory);
}

std::byte* bytes(std::uint64_t operation, void* first, std::size_t count, bool writes) {
  const auto address = reinterpret_cast<std::uint64_t>(first);
  Allocation* const allocation = runtime().memory.find(address);
  std::ostringstream place;
  place << count << " bytes at " << first;
  if (allocation == nullptr || !allocation->holds(address, count)) {
    report("out of bounds: a collective " + std::string(writes ? "writes " : "reads ") + place.str() + ", " +
           runtime().memory.describe_outside(allocation == nullptr ? address : allocation->end()));
    return nullptr;
  }
  if (writes) {
    allocation->written.add(address - allocation->begin, count);
  } else if (!allocation->written.contains(address - allocation->begin, count) &&
             wanted_check() != Check::off) {
    report("a collective reads " + place.str() + ", which nobody has written yet");
    if (wanted_check() == Check::stop) return nullptr;
  }
  if (see_copy(operation, first, count, writes) != cudaSuccess) return nullptr;
  return allocation->at(address);
}

void add_to(Clock& clock) {
  if (runtime().devices > 1) clock.join(runtime().at_work->place->clock);
}
void add_from(const Clock& clock) {
  if (runtime().devices > 1) runtime().at_work->place->clock.join(clock);
}

bool is_stuck() {
  return runtime().stuck;
}

void* allocate(std::size_t count) {
  constexpr std::size_t page = 4096;  // the alignment of a window
  const std::lock_guard lock(runtime().mutex);
  const std::uint64_t address = runtime().memory.allocate(count, "ncclMemAlloc", current_device(), page);
  if (address != 0) runtime().memory.find(address)->for_all_devices = true;
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): never followed on the host
}

bool is_for_all(const void* memory) {
  const std::lock_guard lock(runtime().mutex);
  const Allocation* found = runtime().memory.find(reinterpret_cast<std::uint64_t>(memory));
  return found != nullptr && found->for_all_devices;
}

std::uint64_t reserve_aliases(std::uint64_t count) {
  const std::lock_guard lock(runtime().mutex);
  return runtime().memory.reserve_aliases(count);
}
void set_alias(std::uint64_t alias, const void* memory, std::size_t count) {
  const std::lock_guard lock(runtime().mutex);
  runtime().memory.set_alias(alias, reinterpret_cast<std::uint64_t>(memory), count);
}

}  // namespace
}  // namespace sim

extern "C" const sim::CollectivesApi* simulator_collectives() {
  static constexpr sim::CollectivesApi api{
      &sim::enqueue_collective, &sim::device_of, &sim::begin,  &sim::bytes,    &sim::add_to,
      &sim::add_from,           &sim::is_stuck,  &sim::report, &sim::allocate, &sim::is_for_all,
      &sim::reserve_aliases,    &sim::set_alias};
  return &api;
}
