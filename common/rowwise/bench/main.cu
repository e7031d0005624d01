// The library's kernels as variants of one stage: the harness verifies, counts and times each as the dispatch
// launches it, and prints the reasons of refusals.
#include <cctype>

#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/dispatch/for_each_kernel.h"
#include "common/rowwise/dispatch/launch.cuh"

namespace {

using namespace rowwise;

template <class Kernel>
Variant variant_of(Kernel kernel, std::string name, std::string idea) {
  using Operations = OperationsOf<Kernel>;
  return {.name = std::move(name),
          .idea = std::move(idea),
          .prepare =
              [kernel](const Problem& problem, const Device& /*device*/, const Memory& memory) {
                return plan_of<Operations>(problem, memory,
                                           [kernel]<class Op>(const auto& tensors, cudaStream_t stream) {
                                             launch<Op>(kernel, tensors, stream);
                                           });
              },
          .traffic = least_traffic,
          .unsupported =
              [kernel](const Problem& problem, const Device& /*device*/) {
                if (is_one_of(Operations{}, problem.op)) {
                  return words(refusal(kernel, matrix_of(problem), current_gpu()));
                }
                return "this variant does " + names_of(Operations{});
              },
          .workspace =
              [kernel](const Problem& problem, const Device& /*device*/) {
                const Need needed = need(kernel, matrix_of(problem));
                return Workspace{.bytes = needed.workspace_bytes, .zeroed = needed.zeroed};
              }};
}

}  // namespace

Stage stage() {
  std::vector<const Operation*> operations = softmax_operations();
  for (const auto& more : {backward_operations(), cross_entropy_operations()}) {
    operations.insert(operations.end(), more.begin(), more.end());
  }
  Stage all{.name = "rowwise_bench",
            .idea = "the kernels of the library, one by one",
            .variants = {},
            .operations = operations};
  for_each_kernel([&](auto kernel, const std::string& kind, const std::string& name, const char* idea) {
    std::string variant = kind == "Forward" ? name : kind + "_" + name;
    variant[0] = static_cast<char>(std::tolower(variant[0]));
    all.variants.push_back(variant_of(kernel, variant, idea));
  });
  return all;
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
