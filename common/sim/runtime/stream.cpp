// Streams, events and graphs. Work is done when it is enqueued, so that every stream is always idle; work
// that is captured is kept, and done when the graph is launched.
#include <utility>

#include "common/sim/runtime/runtime.h"

using sim::returned;
using sim::runtime;

namespace {

cudaError_t create_stream(cudaStream_t* stream, unsigned flags, int priority) {
  const std::lock_guard lock(runtime().mutex);
  auto state = std::make_unique<sim::StreamState>();
  state->flags = flags;
  state->priority = priority;
  *stream = reinterpret_cast<cudaStream_t>(state.get());
  runtime().streams[*stream] = std::move(state);
  return cudaSuccess;
}

/// For calls that wait: waiting inside of a capture is an error, as on a device.
cudaError_t wait_for(cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  const sim::StreamState* state = runtime().stream(stream);
  if (state == nullptr) return cudaErrorInvalidResourceHandle;
  return state->capturing ? cudaErrorStreamCaptureUnsupported : sim::take_unreported();
}

sim::EventState* state_of(cudaEvent_t event) {
  return reinterpret_cast<sim::EventState*>(event);
}
sim::GraphState* state_of(cudaGraph_t graph) {
  return reinterpret_cast<sim::GraphState*>(graph);
}
sim::GraphState* state_of(cudaGraphExec_t graph) {
  return reinterpret_cast<sim::GraphState*>(graph);
}

cudaError_t create_event(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new sim::EventState);  // NOLINT(cppcoreguidelines-owning-memory)
  return cudaSuccess;
}

cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t graph) {
  if (graph == nullptr) return returned(cudaErrorInvalidValue);
  *exec = reinterpret_cast<cudaGraphExec_t>(new sim::GraphState(*state_of(graph)));  // NOLINT
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
  const std::lock_guard lock(runtime().mutex);
  return returned(runtime().streams.erase(stream) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return returned(wait_for(stream));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return returned(wait_for(stream));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t /*stream*/, cudaEvent_t /*event*/, unsigned /*flags*/) {
  return cudaSuccess;
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  const std::lock_guard lock(runtime().mutex);
  const sim::StreamState* state = runtime().stream(stream);
  if (state == nullptr) return returned(cudaErrorInvalidResourceHandle);
  *flags = state->flags;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  const std::lock_guard lock(runtime().mutex);
  const sim::StreamState* state = runtime().stream(stream);
  if (state == nullptr) return returned(cudaErrorInvalidResourceHandle);
  *priority = state->priority;
  return cudaSuccess;
}
// An attribute of a stream changes how fast its work is, and which of it goes first.
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID /*attribute*/,
                                   const cudaStreamAttrValue* /*value*/) {
  const std::lock_guard lock(runtime().mutex);
  return returned(runtime().stream(stream) == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const std::lock_guard lock(runtime().mutex);
  return returned(sim::enqueue(stream, [=] {
    function(data);
    return cudaSuccess;
  }));
}

// ---- Events

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return create_event(event);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  return create_event(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete state_of(event);  // NOLINT(cppcoreguidelines-owning-memory)
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t /*stream*/) {
  state_of(event)->recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned /*flags*/) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) {
  return returned(sim::take_unreported());
}
cudaError_t cudaEventQuery(cudaEvent_t /*event*/) {
  return cudaSuccess;
}
/// There is no time here, and a number that looks like one would be taken for one: always an error.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t /*start*/, cudaEvent_t /*end*/) {
  *milliseconds = 0;
  return sim::not_supported("time (cudaEventElapsedTime)");
}

// ---- Capture and graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  const std::lock_guard lock(runtime().mutex);
  sim::StreamState* state = runtime().stream(stream);
  if (state == nullptr) return returned(cudaErrorInvalidResourceHandle);
  if (state == &runtime().default_stream) return returned(cudaErrorStreamCaptureUnsupported);
  if (state->capturing) return returned(cudaErrorIllegalState);
  state->capturing = true;
  state->captured.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(runtime().mutex);
  sim::StreamState* state = runtime().stream(stream);
  *graph = nullptr;
  if (state == nullptr) return returned(cudaErrorInvalidResourceHandle);
  if (!state->capturing) return returned(cudaErrorIllegalState);
  state->capturing = false;
  auto* captured =
      new sim::GraphState{std::move(state->captured)};  // NOLINT(cppcoreguidelines-owning-memory)
  state->captured.clear();
  *graph = reinterpret_cast<cudaGraph_t>(captured);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(runtime().mutex);
  const sim::StreamState* state = runtime().stream(stream);
  if (state == nullptr) return returned(cudaErrorInvalidResourceHandle);
  *status = state->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* /*mode*/) {
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long /*flags*/) {
  return instantiate(exec, graph);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long /*flags*/) {
  return instantiate(exec, graph);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  const sim::GraphState* state = state_of(exec);
  return returned(sim::enqueue(stream, [work = state->work] {
    for (const auto& step : work) {
      if (const cudaError_t error = step(); error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }));
}
cudaError_t cudaGraphUpload(cudaGraphExec_t /*exec*/, cudaStream_t /*stream*/) {
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) return sim::not_supported("the nodes of a graph (cudaGraphGetNodes)");
  *count = state_of(graph)->work.size();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete state_of(graph);  // NOLINT(cppcoreguidelines-owning-memory)
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete state_of(exec);  // NOLINT(cppcoreguidelines-owning-memory)
  return cudaSuccess;
}

}  // extern "C"
