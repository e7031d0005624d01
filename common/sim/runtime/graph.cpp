// Graphs: captured or built by hand, instantiated, changed and launched.
#include <algorithm>
#include <map>
#include <utility>

#include "common/sim/runtime/runtime.h"

using sim::returned;
using sim::runtime;
using sim::Work;

namespace sim {

GraphNode::GraphNode(cudaGraphNodeType of_type, Work to_do, std::vector<const GraphNode*> before)
    : handle(static_cast<cudaGraphNode_t>(next_handle())),
      type(of_type),
      work(std::move(to_do)),
      after(std::move(before)) {
  runtime().graph_nodes[handle] = this;
}
GraphNode::~GraphNode() {
  runtime().graph_nodes.erase(handle);
}

}  // namespace sim

namespace {

sim::GraphNode* find_node(cudaGraphNode_t handle) {
  const auto found = runtime().graph_nodes.find(handle);
  return found == runtime().graph_nodes.end() ? nullptr : found->second;
}

/// The nodes in an order in which each comes after those that it depends on; fewer than all where they go round in a
/// circle.
std::vector<sim::GraphExecState::Step> in_order(const sim::GraphState& graph) {
  std::vector<sim::GraphExecState::Step> steps;
  std::map<const sim::GraphNode*, std::size_t> done;  // and which step it is
  for (std::size_t before = graph.nodes.size(); before != done.size();) {
    before = done.size();
    for (const auto& node : graph.nodes) {
      const auto is_done = [&](const sim::GraphNode* earlier) { return done.contains(earlier); };
      if (is_done(node.get()) || !std::all_of(node->after.begin(), node->after.end(), is_done)) continue;
      done[node.get()] = steps.size();
      steps.push_back({node->handle, node->work, {}});
      for (const sim::GraphNode* earlier : node->after) steps.back().after.push_back(done.at(earlier));
    }
  }
  return steps;
}

/// One after the other; with several devices those that wait for others of the graph at the same time.
Work run_steps(std::vector<sim::GraphExecState::Step> steps) {
  return [steps = std::move(steps), done = std::vector<bool>()]() mutable -> std::optional<cudaError_t> {
    done.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto is_done = [&](std::size_t step) { return done[step]; };
      if (done[i] || !std::all_of(steps[i].after.begin(), steps[i].after.end(), is_done)) continue;
      const std::optional<cudaError_t> error = steps[i].work();
      if (error.value_or(cudaSuccess) != cudaSuccess) return error;
      done[i] = error.has_value();
      if (done[i]) ++runtime().progress;
    }
    if (!std::all_of(done.begin(), done.end(), [](bool step) { return step; })) return std::nullopt;
    return cudaSuccess;
  };
}

/// For a call that a capture forbids to its own thread or, if its mode is global, to every thread: makes such captures
/// invalid, as a GPU's driver does. Whether there are any.
bool invalidate_captures() {
  bool any = false;
  for (const sim::StreamState* stream : runtime().all_streams()) {
    if (!stream->capture || stream->capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (stream->capture->mode == cudaStreamCaptureModeGlobal ||
        stream->capture->by == std::this_thread::get_id()) {
      any = stream->capture->invalid = true;
    }
  }
  return any;
}

cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t graph) {
  const std::lock_guard lock(runtime().mutex);
  if (invalidate_captures()) return returned(cudaErrorStreamCaptureUnsupported);
  const sim::GraphState* state = runtime().graphs.find(graph);
  if (exec == nullptr || state == nullptr) return returned(cudaErrorInvalidValue);
  auto steps = in_order(*state);
  if (steps.size() != state->nodes.size()) return returned(cudaErrorInvalidValue);
  *exec = runtime().graph_execs.add({std::move(steps)});
  return cudaSuccess;
}

/// A node of work that `request` prepares.
template <class Request>
cudaError_t add_node(cudaGraphNode_t* handle, cudaGraph_t graph, const cudaGraphNode_t* after,
                     std::size_t count, cudaGraphNodeType type, const Request& request) {
  const std::lock_guard lock(runtime().mutex);
  sim::GraphState* state = runtime().graphs.find(graph);
  if (handle == nullptr || state == nullptr || (after == nullptr && count > 0)) {
    return returned(cudaErrorInvalidValue);
  }
  std::vector<const sim::GraphNode*> before;
  for (std::size_t i = 0; i < count; ++i) {
    before.push_back(find_node(after[i]));
    if (before.back() == nullptr) return returned(cudaErrorInvalidValue);
  }
  Work work;
  if (const cudaError_t error = prepare(request, work); error != cudaSuccess) return returned(error);
  state->nodes.push_back(std::make_unique<sim::GraphNode>(type, std::move(work), std::move(before)));
  *handle = state->nodes.back()->handle;
  return cudaSuccess;
}

template <class Request>
cudaError_t change_node(cudaGraphNode_t handle, const Request& request) {
  const std::lock_guard lock(runtime().mutex);
  sim::GraphNode* node = find_node(handle);
  if (node == nullptr) return returned(cudaErrorInvalidValue);
  return returned(prepare(request, node->work));
}

template <class Request>
cudaError_t change_step(cudaGraphExec_t exec, cudaGraphNode_t node, const Request& request) {
  const std::lock_guard lock(runtime().mutex);
  sim::GraphExecState* state = runtime().graph_execs.find(exec);
  if (state == nullptr) return returned(cudaErrorInvalidValue);
  const auto step = std::find_if(state->steps.begin(), state->steps.end(),
                                 [node](const auto& known) { return known.node == node; });
  return returned(step == state->steps.end() ? cudaErrorInvalidValue : prepare(request, step->work));
}

// ---- The making of nodes

struct HostRequest {
  cudaHostNodeParams parameters;
};
cudaError_t prepare(const HostRequest& request, Work& work) {
  if (request.parameters.fn == nullptr) return cudaErrorInvalidValue;
  work = [parameters = request.parameters] {
    parameters.fn(parameters.userData);
    return cudaSuccess;
  };
  return cudaSuccess;
}

struct ChildRequest {
  cudaGraph_t graph;
};
cudaError_t prepare(const ChildRequest& request, Work& work) {
  const sim::GraphState* child = runtime().graphs.find(request.graph);
  if (child == nullptr) return cudaErrorInvalidValue;
  work = run_steps(in_order(*child));
  return cudaSuccess;
}

struct EmptyRequest {};
cudaError_t prepare(const EmptyRequest& /*request*/, Work& work) {
  work = [] { return cudaSuccess; };
  return cudaSuccess;
}

sim::LaunchRequest request_of(const cudaKernelNodeParams& kernel) {
  return {kernel.func,
          kernel.gridDim,
          kernel.blockDim,
          kernel.sharedMemBytes,
          kernel.kernelParams,
          nullptr,
          false,
          {0, 0, 0},
          false};
}
sim::FillRequest request_of(const cudaMemsetParams& fill) {
  return {fill.dst, fill.value, fill.elementSize, fill.width, fill.height, fill.pitch};
}
sim::CopyRequest request_of(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return {to, from, bytes, 1, bytes, bytes, kind};
}
/// Only copies of rows are simulated, not of arrays or volumes.
bool is_simulated(const cudaMemcpy3DParms& copy) {
  if (copy.srcArray == nullptr && copy.dstArray == nullptr && copy.extent.depth == 1) return true;
  sim::say_once("copies of volumes and arrays in a graph (cudaGraphAddMemcpyNode) are not simulated");
  return false;
}
sim::CopyRequest request_of(const cudaMemcpy3DParms& copy) {
  const auto first = [](const cudaPitchedPtr& of, const cudaPos& at) {
    return static_cast<std::byte*>(of.ptr) + (at.z * of.ysize + at.y) * of.pitch + at.x;
  };
  return {first(copy.dstPtr, copy.dstPos),
          first(copy.srcPtr, copy.srcPos),
          copy.extent.width,
          copy.extent.height,
          copy.dstPtr.pitch,
          copy.srcPtr.pitch,
          copy.kind};
}

}  // namespace

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned /*flags*/) {
  if (graph == nullptr) return returned(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  *graph = runtime().graphs.add({});
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(runtime().mutex);
  return returned(runtime().graphs.remove(graph) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  const std::lock_guard lock(runtime().mutex);
  const sim::GraphState* state = runtime().graphs.find(graph);
  if (clone == nullptr || state == nullptr) return returned(cudaErrorInvalidValue);
  sim::GraphState copy;
  std::map<const sim::GraphNode*, const sim::GraphNode*> copy_of;
  for (const auto& node : state->nodes) {
    copy.nodes.push_back(std::make_unique<sim::GraphNode>(node->type, node->work, node->after));
    copy_of[node.get()] = copy.nodes.back().get();
  }
  for (const auto& node : copy.nodes) {
    for (const sim::GraphNode*& before : node->after) before = copy_of.at(before);
  }
  *clone = runtime().graphs.add(std::move(copy));
  return cudaSuccess;
}

// ---- Nodes

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                   std::size_t count, const cudaKernelNodeParams* kernel) {
  if (kernel == nullptr) return returned(cudaErrorInvalidValue);
  return add_node(node, graph, after, count, cudaGraphNodeTypeKernel, request_of(*kernel));
}
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                   std::size_t count, const cudaMemcpy3DParms* copy) {
  if (copy == nullptr) return returned(cudaErrorInvalidValue);
  if (!is_simulated(*copy)) return returned(cudaErrorNotSupported);
  return add_node(node, graph, after, count, cudaGraphNodeTypeMemcpy, request_of(*copy));
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                     std::size_t count, void* to, const void* from, std::size_t bytes,
                                     cudaMemcpyKind kind) {
  return add_node(node, graph, after, count, cudaGraphNodeTypeMemcpy, request_of(to, from, bytes, kind));
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                   std::size_t count, const cudaMemsetParams* fill) {
  if (fill == nullptr) return returned(cudaErrorInvalidValue);
  return add_node(node, graph, after, count, cudaGraphNodeTypeMemset, request_of(*fill));
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                 std::size_t count, const cudaHostNodeParams* host) {
  if (host == nullptr) return returned(cudaErrorInvalidValue);
  return add_node(node, graph, after, count, cudaGraphNodeTypeHost, HostRequest{*host});
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                       std::size_t count, cudaGraph_t child) {
  return add_node(node, graph, after, count, cudaGraphNodeTypeGraph, ChildRequest{child});
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                  std::size_t count) {
  return add_node(node, graph, after, count, cudaGraphNodeTypeEmpty, EmptyRequest{});
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* /*edges*/,
                                     std::size_t count) {
#else
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, std::size_t count) {
#endif
  const std::lock_guard lock(runtime().mutex);
  if (runtime().graphs.find(graph) == nullptr || ((from == nullptr || to == nullptr) && count > 0)) {
    return returned(cudaErrorInvalidValue);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const sim::GraphNode* before = find_node(from[i]);
    sim::GraphNode* after = find_node(to[i]);
    if (before == nullptr || after == nullptr || before == after) return returned(cudaErrorInvalidValue);
    after->after.push_back(before);
  }
  return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* kernel) {
  if (kernel == nullptr) return returned(cudaErrorInvalidValue);
  return change_node(node, request_of(*kernel));
}
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* fill) {
  if (fill == nullptr) return returned(cudaErrorInvalidValue);
  return change_node(node, request_of(*fill));
}
cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from,
                                           std::size_t bytes, cudaMemcpyKind kind) {
  return change_node(node, request_of(to, from, bytes, kind));
}

/// `nodes` null: only how many there are.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  const std::lock_guard lock(runtime().mutex);
  const sim::GraphState* state = runtime().graphs.find(graph);
  if (state == nullptr || count == nullptr) return returned(cudaErrorInvalidValue);
  for (std::size_t i = 0; nodes != nullptr && i < *count; ++i) {
    nodes[i] = i < state->nodes.size() ? state->nodes[i]->handle : nullptr;
  }
  *count = nodes == nullptr ? state->nodes.size() : std::min(*count, state->nodes.size());
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle, cudaGraphNodeType* type) {
  const std::lock_guard lock(runtime().mutex);
  const sim::GraphNode* node = find_node(handle);
  if (node == nullptr || type == nullptr) return returned(cudaErrorInvalidValue);
  *type = node->type;
  return cudaSuccess;
}

// ---- Executable graphs

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long /*flags*/) {
  return instantiate(exec, graph);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long /*flags*/) {
  return instantiate(exec, graph);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const std::lock_guard lock(runtime().mutex);
  return returned(runtime().graph_execs.remove(exec) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* kernel) {
  if (kernel == nullptr) return returned(cudaErrorInvalidValue);
  return change_step(exec, node, request_of(*kernel));
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* fill) {
  if (fill == nullptr) return returned(cudaErrorInvalidValue);
  return change_step(exec, node, request_of(*fill));
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                               const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return change_step(exec, node, request_of(to, from, bytes, kind));
}
/// Gives an instantiated graph the present steps of the graph, which must have the same number of nodes.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  const std::lock_guard lock(runtime().mutex);
  sim::GraphExecState* state = runtime().graph_execs.find(exec);
  const sim::GraphState* changed = runtime().graphs.find(graph);
  if (state == nullptr || changed == nullptr || result == nullptr) return returned(cudaErrorInvalidValue);
  *result = {};
  const auto steps = in_order(*changed);
  if (steps.size() != state->steps.size()) {
    result->result = cudaGraphExecUpdateErrorTopologyChanged;
    return returned(cudaErrorGraphExecUpdateFailure);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) state->steps[i].work = steps[i].work;
  result->result = cudaGraphExecUpdateSuccess;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  const sim::GraphExecState* state = runtime().graph_execs.find(exec);
  if (state == nullptr) return returned(cudaErrorInvalidValue);
  return returned(sim::enqueue(stream, cudaGraphNodeTypeGraph, run_steps(state->steps)));
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t /*stream*/) {
  const std::lock_guard lock(runtime().mutex);
  return returned(runtime().graph_execs.find(exec) == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}

}  // extern "C"
