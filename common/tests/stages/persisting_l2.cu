// A stage for tests, on a GPU alone: one kernel twice. Before the first, it tells the L2 to keep its
// input, with all that can be set aside for that, and leaves it so. The second must take its usual time.
#include <algorithm>

#include "common/harness/ceiling.h"
#include "common/harness/cli/run_stage.h"
#include "common/harness/cuda_handles.h"
#include "common/harness/launches.cuh"
#include "common/rowwise/kernels/forward/warp_reduce.cuh"

int attribute(cudaDeviceAttr which) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, which, 0));
  return value;
}

Plan keep_input(const Problem& problem, const Device& device, const Memory& memory) {
  const auto kept_bytes = static_cast<std::size_t>(attribute(cudaDevAttrMaxPersistingL2CacheSize));
  const auto window_bytes = static_cast<std::size_t>(attribute(cudaDevAttrMaxAccessPolicyWindowSize));
  CUDA_CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, kept_bytes));
  const Stream stream = make_stream();
  cudaStreamAttrValue value{};
  value.accessPolicyWindow.base_ptr = const_cast<void*>(memory.inputs[0]);
  value.accessPolicyWindow.num_bytes = std::min(problem.matrix_bytes(), window_bytes);
  value.accessPolicyWindow.hitRatio = 1;
  value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  CUDA_CHECK(cudaStreamSetAttribute(stream.get(), cudaStreamAttributeAccessPolicyWindow, &value));
  launch_read(memory.inputs[0], problem.matrix_bytes(), static_cast<int*>(memory.outputs[0]), stream.get());
  CUDA_CHECK(cudaStreamSynchronize(stream.get()));
  return of_launcher::prepare<rowwise::PaddedPacks>(problem, device, memory);
}

Stage stage() {
  return {.name = "persisting_l2",
          .idea = "an L2 with lines set aside for persisting data, for tests",
          .variants = {{"input_kept", "wrong on purpose", keep_input, whole_passes(1, 1)},
                       {"nothing_kept", "", of_launcher::prepare<rowwise::PaddedPacks>, whole_passes(1, 1)}}};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
