#include "11_backward/row_gradient.cuh"
#include "12_fusion/row_loss.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/dispatch/choice.h"
#include "common/rowwise/dispatch/launch.cuh"

namespace {

using namespace rowwise;

// Each with the kernels that do it.
using Forwards = Operations<Softmax, LogSoftmax>;
using Backwards = Operations<SoftmaxBackward, LogSoftmaxBackward>;
using Losses = Operations<CrossEntropy, SmoothedCrossEntropy>;
using Gradients = Operations<WithGradient<CrossEntropy>, WithGradient<SmoothedCrossEntropy>>;

std::vector<const Operation*> all_operations() {
  std::vector<const Operation*> all = softmax_operations();
  for (const auto& more : {backward_operations(), cross_entropy_operations()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

/// Matrices are aligned but for the problem's offsets.
Matrix matrix_of(const Problem& problem) {
  const std::int64_t size = problem.element_bytes();
  const std::int64_t begins = (problem.offsets.input | problem.offsets.output) * size | 16;
  return {.rows = problem.shape.rows,
          .cols = problem.shape.cols,
          .element_bytes = size,
          .alignment = begins & -begins,
          .lie_alike = problem.lie_alike()};
}

/// Calls use(kernel) with the one that the table names.
template <class Use>
auto with_choice(const Problem& problem, Use use) {
  const Matrix matrix = matrix_of(problem);
  const auto chosen = [&]<class Kernel>() { return choose<Kernel>(matrix, current_gpu(), true); };
  if (is_one_of(Forwards{}, problem.op)) return use(chosen.template operator()<Forward>());
  if (is_one_of(Backwards{}, problem.op)) return use(chosen.template operator()<Backward>());
  if (is_one_of(Losses{}, problem.op)) return use(chosen.template operator()<Loss>());
  return use(chosen.template operator()<Gradient>());
}

template <class T>
Tensors<T> tensors(const Problem& problem, const Memory& memory) {
  return {.x = static_cast<const T*>(memory.inputs[0]),
          .labels = static_cast<const std::int64_t*>(memory.inputs[1]),
          .loss = static_cast<float*>(memory.outputs[0]),
          .dx = memory.outputs.size() > 1 ? static_cast<T*>(memory.outputs[1]) : nullptr,
          .workspace = memory.workspace,
          .shape = problem.shape};
}

Plan plan(Forward kernel, const Problem& problem, const Memory& memory) {
  const auto launch_it = [=, shape = problem.shape, workspace = memory.workspace]<class Op>(
                             auto* x, auto* y, cudaStream_t stream) {
    launch<Op>(kernel, x, y, workspace, shape, stream);
  };
  return launches_x_to_y<Forwards>(problem, memory, launch_it);
}

Plan plan(Backward kernel, const Problem& problem, const Memory& memory) {
  return dispatch(Backwards{}, problem, [&]<class Op, class T>() -> Plan {
    const T* y = static_cast<const T*>(memory.inputs[0]);
    const T* dy = static_cast<const T*>(memory.inputs[1]);
    T* dx = static_cast<T*>(memory.outputs[0]);
    return [=, shape = problem.shape, workspace = memory.workspace](cudaStream_t stream) {
      launch<Op>(kernel, y, dy, dx, workspace, shape, stream);
    };
  });
}

template <class Ops, class Kernel>
Plan plan_of_labels(Kernel kernel, const Problem& problem, const Memory& memory) {
  return dispatch(Ops{}, problem, [&]<class Op, class T>() -> Plan {
    return [=, of = tensors<T>(problem, memory)](cudaStream_t stream) { launch<Op>(kernel, of, stream); };
  });
}
Plan plan(Loss kernel, const Problem& problem, const Memory& memory) {
  return plan_of_labels<Losses>(kernel, problem, memory);
}
Plan plan(Gradient kernel, const Problem& problem, const Memory& memory) {
  return plan_of_labels<Gradients>(kernel, problem, memory);
}

Plan prepare(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return with_choice(problem, [&](auto kernel) { return plan(kernel, problem, memory); });
}

Workspace workspace(const Problem& problem, const Device& /*device*/) {
  return with_choice(problem, [&](auto kernel) {
    const Need needed = need(kernel, matrix_of(problem));
    return Workspace{.bytes = needed.bytes, .zeroed = needed.left_zero};
  });
}

std::string unsupported(const Problem& problem, const Device& device) {
  if (is_one_of(Losses{}, problem.op) || is_one_of(Gradients{}, problem.op)) {
    return at_most_columns(1 << 30, "a column must fit 32 bits")(problem, device);
  }
  return "";
}

/// Each input once and each output once; what kernels read again of rows that fit nowhere is not in it.
Traffic traffic(const Problem& problem) {
  return least_traffic(problem);
}

}  // namespace

Stage stage() {
  return {.name = "13_dispatch",
          .idea = "any shape, one call: a table that was learned from measurements",
          .variants = {{.name = "dispatch",
                        .idea = "the kernel of an earlier stage that was fastest there",
                        .prepare = prepare,
                        .traffic = traffic,
                        .unsupported = unsupported,
                        .workspace = workspace}},
          .operations = all_operations()};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
