// Streams, events and captures. With one device work is done when it is enqueued, so that every stream is always idle; work
// that is captured is kept, and done when the graph is launched.
#include <limits>
#include <set>
#include <utility>

#include "common/sim/runtime/runtime.h"

using sim::returned;
using sim::runtime;

namespace {

cudaError_t create_stream(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  *stream = runtime().streams.add({flags, priority, nullptr, {}, sim::current_device(), sim::new_place()});
  return cudaSuccess;
}

sim::StreamState* find_locked(cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  return runtime().stream(stream);
}
sim::EventState* find_locked(cudaEvent_t event) {
  const std::lock_guard lock(runtime().mutex);
  return runtime().events.find(event);
}

/// For calls that wait: waiting inside of a capture is an error, as on a device.
cudaError_t wait_for(cudaStream_t stream) {
  const sim::StreamState* state = find_locked(stream);
  if (state == nullptr) return cudaErrorInvalidResourceHandle;
  if (state->capture) return cudaErrorStreamCaptureUnsupported;
  sim::wait_for(*state);
  return sim::take_unreported();
}

cudaError_t create_event(cudaEvent_t* event, unsigned flags) {
  if (event == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  *event = runtime().events.add(
      {false, (flags & cudaEventDisableTiming) == 0, nullptr, {}, sim::current_device()});
  return cudaSuccess;
}

/// Checks an event that the host may wait for.
cudaError_t check_event(const sim::EventState* event) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  return event->capture ? cudaErrorCapturedEvent : cudaSuccess;
}

/// Calls function(state) for a stream that is one.
template <class Function>
cudaError_t with_stream(cudaStream_t stream, Function function) {
  const std::lock_guard lock(runtime().mutex);
  sim::StreamState* state = runtime().stream(stream);
  return returned(state == nullptr ? cudaErrorInvalidResourceHandle : function(*state));
}

/// Everything that was captured comes before the end of the stream on which the capture began.
bool is_joined(const sim::Capture& capture, const sim::StreamState& origin) {
  std::set<const sim::GraphNode*> before(origin.last.begin(), origin.last.end());
  std::vector<const sim::GraphNode*> unseen = origin.last;
  while (!unseen.empty()) {
    const sim::GraphNode* node = unseen.back();
    unseen.pop_back();
    for (const sim::GraphNode* earlier : node->after) {
      if (before.insert(earlier).second) unseen.push_back(earlier);
    }
  }
  return before.size() == capture.graph.nodes.size();
}

/// A stream of a capture waits for another one of the same, or joins the capture by it.
cudaError_t wait_in_capture(sim::StreamState& stream, const sim::EventState& event) {
  if (!event.capture) return event.recorded ? cudaErrorStreamCaptureIsolation : cudaSuccess;
  if (event.capture->ended) return cudaErrorCapturedEvent;
  if (stream.capture && stream.capture != event.capture) return cudaErrorStreamCaptureMerge;
  if (!stream.capture) {
    if (runtime().is_default(stream)) return cudaErrorStreamCaptureImplicit;
    stream.capture = event.capture;
    stream.last.clear();
  }
  for (const sim::GraphNode* node : event.last) stream.last.push_back(node);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create_stream(stream, 0, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create_stream(stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create_stream(stream, flags, priority);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (const sim::StreamState* state = find_locked(stream)) sim::wait_for(*state);
  const std::lock_guard lock(runtime().mutex);
  return returned(runtime().streams.remove(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return returned(wait_for(stream));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  sim::go_on();
  const sim::StreamState* state = runtime().stream(stream);
  if (state != nullptr && !state->capture && !state->queue.empty()) return cudaErrorNotReady;
  return returned(wait_for(stream));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return with_stream(stream, [&](sim::StreamState& state) {
    const sim::EventState* awaited = runtime().events.find(event);
    if (awaited == nullptr) return cudaErrorInvalidResourceHandle;
    const bool external = (flags & cudaEventWaitExternal) != 0;
    if (!external && (state.capture || awaited->capture)) return wait_in_capture(state, *awaited);
    if (!state.capture) sim::wait_in_stream(state, *awaited);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  if (flags == nullptr) return returned(cudaErrorInvalidValue);
  return with_stream(stream, [&](const sim::StreamState& state) {
    *flags = state.flags;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (priority == nullptr) return returned(cudaErrorInvalidValue);
  return with_stream(stream, [&](const sim::StreamState& state) {
    *priority = state.priority;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  if (device == nullptr) return returned(cudaErrorInvalidValue);
  return with_stream(stream, [&](const sim::StreamState& state) {
    *device = static_cast<int>(state.device);
    return cudaSuccess;
  });
}
// An attribute of a stream changes how fast its work is, and which of it goes first.
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID /*attribute*/,
                                   const cudaStreamAttrValue* /*value*/) {
  return with_stream(stream, [](const sim::StreamState&) { return cudaSuccess; });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (function == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  return returned(sim::enqueue(stream, cudaGraphNodeTypeHost, [=] {
    function(data);
    return cudaSuccess;
  }));
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned /*flags*/) {
  if (callback == nullptr) return returned(cudaErrorInvalidValue);
  return with_stream(stream, [&](sim::StreamState& state) {
    if (state.capture) return cudaErrorStreamCaptureUnsupported;
    return sim::schedule(state, [=] {
      callback(stream, cudaSuccess, data);
      return cudaSuccess;
    });
  });
}

// ---- Events

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return create_event(event, 0);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return create_event(event, flags);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(runtime().mutex);
  return returned(runtime().events.remove(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return with_stream(stream, [&](sim::StreamState& on) {
    sim::EventState* state = runtime().events.find(event);
    if (state == nullptr || state->device != on.device) return cudaErrorInvalidResourceHandle;
    if (on.capture && (flags & cudaEventRecordExternal) != 0) {
      return sim::enqueue(stream, cudaGraphNodeTypeEventRecord, [event] {
        sim::EventState* recorded = runtime().events.find(event);
        if (recorded == nullptr) return cudaErrorInvalidResourceHandle;
        recorded->recorded = true;
        recorded->capture = nullptr;
        return cudaSuccess;
      });
    }
    state->recorded = true;
    state->capture = on.capture;
    state->last = on.last;
    if (!on.capture) sim::record(*state, on);
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const sim::EventState* state = find_locked(event);
  const cudaError_t error = check_event(state);
  if (error == cudaSuccess) sim::wait_for(*state);
  return returned(error != cudaSuccess ? error : sim::take_unreported());
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(runtime().mutex);
  const sim::EventState* state = runtime().events.find(event);
  const cudaError_t error = check_event(state);
  if (error != cudaSuccess) return returned(error);
  sim::go_on();
  if (state->place->done < state->place->enqueued) return cudaErrorNotReady;
  sim::wait_for(*state);
  return cudaSuccess;
}
/// There is no time here, and a number that looks like one would be taken for one. Many programs take an error for the
/// end, so that it is none.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (milliseconds == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  for (cudaEvent_t event : {start, end}) {
    const sim::EventState* state = runtime().events.find(event);
    if (const cudaError_t error = check_event(state); error != cudaSuccess) return returned(error);
    if (!state->recorded || !state->times) return returned(cudaErrorInvalidResourceHandle);
    if (state->device != runtime().events.find(start)->device)
      return returned(cudaErrorInvalidResourceHandle);
    if (state->place->done < state->place->enqueued) return cudaErrorNotReady;
  }
  sim::say_once("time is not simulated: cudaEventElapsedTime gives NaN");
  *milliseconds = std::numeric_limits<float>::quiet_NaN();
  return cudaSuccess;
}

// ---- Captures

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return with_stream(stream, [&](sim::StreamState& state) {
    static unsigned long long captures = 0;
    if (runtime().is_default(state)) return cudaErrorStreamCaptureUnsupported;
    if (state.capture) return cudaErrorIllegalState;
    state.capture = std::make_shared<sim::Capture>();
    state.capture->origin = &state;
    state.capture->mode = mode;
    state.capture->by = std::this_thread::get_id();
    state.capture->id = ++captures;
    state.last.clear();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (graph == nullptr) return returned(cudaErrorInvalidValue);
  *graph = nullptr;
  return with_stream(stream, [&](sim::StreamState& state) {
    const std::shared_ptr<sim::Capture> capture = state.capture;
    if (!capture) return cudaErrorIllegalState;
    if (capture->origin != &state) return cudaErrorStreamCaptureUnmatched;
    const bool joined = is_joined(*capture, state);
    capture->ended = true;
    state.capture = nullptr;
    for (sim::StreamState* other : runtime().all_streams()) {
      if (other->capture == capture) other->capture = nullptr;
    }
    if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
    if (!joined) return cudaErrorStreamCaptureUnjoined;
    *graph = runtime().graphs.add(std::move(capture->graph));
    return cudaSuccess;
  });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (status == nullptr) return returned(cudaErrorInvalidValue);
  return with_stream(stream, [&](const sim::StreamState& state) {
    *status = !state.capture           ? cudaStreamCaptureStatusNone
              : state.capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* /*mode*/) {
  return cudaSuccess;
}

}  // extern "C"
