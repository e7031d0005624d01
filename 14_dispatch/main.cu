#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/dispatch/choice.h"
#include "common/rowwise/dispatch/launch.cuh"

namespace {

using namespace rowwise;

/// Calls use(kernel) with the one that the table names.
template <class Use>
auto with_choice(const Problem& problem, Use use) {
  const auto use_choice = [&]<class Kernel>(Kernel) {
    return use(choose<Kernel>(matrix_of(problem), current_gpu(), true));
  };
  if (is_one_of(OperationsOf<Forward>{}, problem.op)) return use_choice(Forward{});
  if (is_one_of(OperationsOf<Backward>{}, problem.op)) return use_choice(Backward{});
  if (is_one_of(OperationsOf<Loss>{}, problem.op)) return use_choice(Loss{});
  return use_choice(Gradient{});
}

Plan prepare(const Problem& problem, const Device& /*device*/, const Memory& memory) {
  return with_choice(problem, [&](auto kernel) {
    const auto launch_it = [kernel]<class Op>(const auto& tensors, cudaStream_t stream) {
      launch<Op>(kernel, tensors, stream);
    };
    return plan_of<OperationsOf<decltype(kernel)>>(problem, memory, launch_it);
  });
}

Workspace workspace(const Problem& problem, const Device& /*device*/) {
  return with_choice(problem, [&](auto kernel) {
    const Need needed = need(kernel, matrix_of(problem));
    return Workspace{.bytes = needed.workspace_bytes, .zeroed = needed.zeroed};
  });
}

std::string unsupported(const Problem& problem, const Device& /*device*/) {
  const bool has_labels =
      is_one_of(rowwise::Losses{}, problem.op) || is_one_of(rowwise::LossesWithGradient{}, problem.op);
  return has_labels ? words(columns_fit_32_bits(matrix_of(problem))) : "";
}

}  // namespace

Stage stage() {
  std::vector<const Operation*> operations = softmax_operations();
  for (const auto& more : {backward_operations(), cross_entropy_operations()}) {
    operations.insert(operations.end(), more.begin(), more.end());
  }
  // The traffic leaves out second reads of rows that fit nowhere.
  return {.name = "14_dispatch",
          .idea = "one call for any shape: a table learned from measurements",
          .variants = {{.name = "dispatch",
                        .idea = "the library's kernel that was measured to be fastest near the shape",
                        .prepare = prepare,
                        .traffic = least_traffic,
                        .unsupported = unsupported,
                        .workspace = workspace}},
          .operations = operations};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
