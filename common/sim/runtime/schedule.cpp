// Several devices (SIM_DEVICES): which work goes on when, and the order between works.
//
// Work is done when it is enqueued, as with one device, unless it has to wait: for earlier work of its stream, or, in a
// kernel, for a polled value that another device has not written yet. It then goes on when something else is enqueued, or
// waited for. With SIM_SEED, work begins as late as that now and then.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <thread>

#include "common/sim/runtime/runtime.h"

namespace sim {
namespace {

thread_local unsigned device_of_thread = 0;

/// The work that a call has enqueued that has not returned yet: its error is the result of that call.
struct Enqueuing {
  const StreamPlace* place = nullptr;
  std::uint64_t number = 0;
  cudaError_t error = cudaSuccess;
};
Enqueuing enqueuing;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): under the runtime's lock

/// Null without SIM_SEED.
std::mt19937_64* random_turns() {
  static std::string seed;
  static std::mt19937_64 generator;
  const char* const wanted = std::getenv("SIM_SEED");
  if (wanted == nullptr || *wanted == '\0') return nullptr;
  if (seed != wanted) {
    seed = wanted;
    generator.seed(std::strtoull(wanted, nullptr, 10));
  }
  return &generator;
}

bool may_begin(const EnqueuedWork& work) {
  return std::all_of(work.after.begin(), work.after.end(),
                     [](const auto& earlier) { return earlier.first->done >= earlier.second; });
}

void give_turn(StreamState& stream) {
  EnqueuedWork& next = stream.queue.front();
  StreamPlace& place = *stream.place;
  if (!may_begin(next)) return;
  place.clock.join(next.host);
  for (const auto& [earlier, count] : next.after) place.clock.join(earlier->clock);
  runtime().at_work = &stream;
  const std::optional<cudaError_t> error = next.work();
  runtime().at_work = nullptr;
  if (!error) return;
  ++place.done;
  ++runtime().progress;
  if (enqueuing.place == &place && enqueuing.number == place.done) {
    enqueuing.error = *error;
  } else if (*error != cudaSuccess) {
    runtime().unreported = *error;
  }
  stream.queue.pop_front();
}

/// Gives a turn to each stream. False when nothing goes on any more or, if the host does not wait, when
/// nothing seems to go on.
bool give_turns(bool host_waits) {
  std::vector<StreamState*> streams = runtime().all_streams();
  if (std::mt19937_64* random = random_turns()) std::shuffle(streams.begin(), streams.end(), *random);
  const std::uint64_t before = runtime().progress;
  for (StreamState* stream : streams) {
    if (!stream->queue.empty()) give_turn(*stream);
  }
  const std::vector<Launch*>& launches = runtime().works.launches;
  if (runtime().progress != before) {
    for (Launch* launch : launches) launch->wake();
    return true;
  }
  return !std::all_of(launches.begin(), launches.end(), [&](const Launch* launch) {
    return host_waits ? launch->is_idle() : launch->seems_idle();
  });
}

bool has_other_threads() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return !error && std::distance(begin(threads), end(threads)) > 1;
}

/// Lets work go on until a stream or an event has reached the place; the host then knows the work before it.
/// Other threads of the host may still enqueue the work that it waits for.
template <class Place>
void wait_until(const std::shared_ptr<Place>& place, std::uint64_t count) {
  constexpr std::chrono::milliseconds pause(1);
  constexpr std::chrono::seconds patience(10);
  auto last_enqueued = std::chrono::steady_clock::now();
  std::uint64_t enqueued = 0;
  for (;; std::this_thread::sleep_for(pause)) {
    const std::lock_guard lock(runtime().mutex);
    while (place->done < count && give_turns(true)) {
    }
    if (place->done >= count) return runtime().host.join(place->clock);
    const auto now = std::chrono::steady_clock::now();
    if (std::exchange(enqueued, runtime().enqueued_works) != runtime().enqueued_works) last_enqueued = now;
    if (has_other_threads() && now - last_enqueued < patience) continue;
    runtime().stuck = true;
    (void)give_turns(true);
    runtime().stuck = false;
  }
}

}  // namespace

unsigned current_device() {
  return device_of_thread;
}
void set_current_device(unsigned device) {
  device_of_thread = device;
}

unsigned wanted_devices() {
  return wanted_number("SIM_DEVICES", most_devices, 1);
}

bool wants_peers() {
  const char* const text = std::getenv("SIM_PEERS");
  const std::string_view wanted = text == nullptr ? "" : text;
  if (wanted.empty() || wanted == "1") return true;
  if (wanted == "0") return false;
  say("SIM_PEERS: '" + std::string(wanted) + "' is not accepted; accepted: 0 and 1");
  std::exit(2);
}

std::shared_ptr<StreamPlace> new_place() {
  static std::uint32_t number = 2 * most_devices;  // after the default streams
  return std::make_shared<StreamPlace>(StreamPlace{number++});
}

cudaError_t schedule(StreamState& stream, Work work) {
  if (runtime().devices == 1) return work().value_or(cudaErrorUnknown);
  if (runtime().works.launches.empty()) runtime().broken = false;
  EnqueuedWork enqueued{std::move(work), runtime().host, {}};
  const auto comes_after = [&](const StreamState& other) {
    enqueued.after.emplace_back(other.place, other.place->enqueued);
  };
  const auto is_blocking = [&](const StreamState& other) {
    return other.device == stream.device && (other.flags & cudaStreamNonBlocking) == 0;
  };
  StreamState& default_stream = runtime().default_streams.at(stream.device);
  if (&stream == &default_stream) {
    for (const StreamState* other : runtime().all_streams()) {
      if (other != &stream && is_blocking(*other)) comes_after(*other);
    }
  } else if (is_blocking(stream)) {
    comes_after(default_stream);
  }
  ++runtime().enqueued_works;
  stream.queue.push_back(std::move(enqueued));
  const Enqueuing outer = enqueuing;
  enqueuing = {stream.place.get(), ++stream.place->enqueued};
  go_on();
  const cudaError_t error = std::exchange(enqueuing, outer).error;
  return error;
}

void go_on() {
  if (runtime().devices == 1 || runtime().at_work != nullptr) return;
  std::mt19937_64* random = random_turns();
  constexpr std::uint64_t most_turns = 4;
  std::uint64_t turns = random != nullptr ? (*random)() % most_turns : ~std::uint64_t{0};
  const auto is_pending = [](const StreamState* stream) { return !stream->queue.empty(); };
  for (; turns > 0; --turns) {
    const std::vector<StreamState*> streams = runtime().all_streams();
    if (std::none_of(streams.begin(), streams.end(), is_pending) || !give_turns(false)) return;
  }
}

void wait_for(const StreamState& stream) {
  if (runtime().devices > 1) wait_until(stream.place, stream.place->enqueued);
}

void wait_for(const EventState& event) {
  if (runtime().devices > 1) wait_until(event.place, event.place->enqueued);
}

void wait_for_device(unsigned device) {
  if (runtime().devices == 1) return;
  std::vector<std::shared_ptr<StreamPlace>> places;
  {
    const std::lock_guard lock(runtime().mutex);
    for (const StreamState* stream : runtime().all_streams()) {
      if (stream->device == device) places.push_back(stream->place);
    }
  }
  for (const auto& place : places) wait_until(place, place->enqueued);
}

void record(EventState& event, StreamState& stream) {
  if (runtime().devices == 1) return;
  (void)schedule(stream, [place = event.place, number = ++event.place->enqueued] {
    place->clock = runtime().at_work->place->clock;
    place->done = number;
    return cudaSuccess;
  });
}

void wait_in_stream(StreamState& stream, const EventState& event) {
  if (runtime().devices == 1) return;
  (void)schedule(stream,
                 [place = event.place, number = event.place->enqueued]() -> std::optional<cudaError_t> {
                   if (place->done < number) return std::nullopt;
                   runtime().at_work->place->clock.join(place->clock);
                   return cudaSuccess;
                 });
}

DeviceWork next_device_work(std::string what) {
  const StreamState& stream = *runtime().at_work;
  DeviceWork work{std::move(what), stream.device, stream.place->number, 0, stream.place->clock};
  work.number = stream.place->clock.advance(work.stream);
  return work;
}

WatchedCopy::WatchedCopy(const std::string& what) {
  if (runtime().devices > 1) block_ = runtime().works.begin(next_device_work(what), runtime().memory);
}

cudaError_t see_copy(std::uint64_t block, const void* first, std::size_t bytes, bool writes) {
  Runtime& state = runtime();
  const auto address = reinterpret_cast<std::uint64_t>(first);
  Allocation* const allocation = state.devices > 1 ? state.memory.find(address) : nullptr;
  if (allocation == nullptr) return cudaSuccess;
  const std::uint64_t other =
      state.works.see(block, *allocation, address - allocation->begin, bytes, writes, state.memory);
  const Check check = wanted_check();
  if (other == LaunchOrder::no_block || check == Check::off) return cudaSuccess;
  const LaunchOrder& order = state.works.order;
  const std::string text = "race: " + order.describe(block) + (writes ? " writes " : " reads ") +
                           std::to_string(bytes) + " bytes of the " + std::to_string(allocation->bytes) +
                           " bytes of " + allocation->what + " of device " +
                           std::to_string(allocation->device) + " that " + order.describe(other) +
                           (writes ? " uses" : " wrote") + LaunchOrder::not_ordered;
  say(text);
  record_fault({FaultKind::race, text});
  return check == Check::warn ? cudaSuccess : cudaErrorLaunchFailure;
}

}  // namespace sim
