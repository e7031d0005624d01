// Stage 07 beyond right results: whose bits depend on the number of rows.
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "07_split_row/split_row.cuh"
#include "common/harness/cuda_handles.h"
#include "common/harness/device_vector.h"
#include "common/harness/input.h"
#include "common/tests/device_test.h"

namespace {

/// One launch of softmax in f32; the workspace is zeroed and large enough.
using Launch = std::function<void(const float* x, float* y, void* workspace, Shape, cudaStream_t)>;

struct Variant {
  const char* name;
  Launch launch;
  std::function<std::size_t(Shape)> workspace_bytes;
};

template <class Launcher>
Variant variant(const char* name) {
  return {name,
          [](const float* x, float* y, void* workspace, Shape shape, cudaStream_t stream) {
            const Tensors<float> tensors{.x = x, .y = y, .workspace = workspace, .shape = shape};
            Launcher::template launch<Softmax>(tensors, stream);
          },
          [](Shape shape) {
            return Launcher::needs({shape.rows, shape.cols, sizeof(float), 16, true}).workspace_bytes;
          }};
}

/// A matrix, its softmax, and the other needs of a launch.
struct Run {
  Shape shape;
  DeviceVector<float> y;
  DeviceVector<char> workspace;
  Stream stream = make_stream();

  Run(const Variant& variant, Shape shape)
      : shape(shape),
        y(std::vector<float>(shape.elements(), -1.0f)),
        workspace(std::vector<char>(variant.workspace_bytes(shape))) {}

  void launch(const Variant& variant, const float* x) {
    variant.launch(x, y.data(), workspace.data(), shape, stream.get());
  }
  std::vector<float> result() {
    CUDA_CHECK(cudaStreamSynchronize(stream.get()));
    return to_host(y);
  }
};

std::int64_t different_bits(const std::vector<float>& a, const float* b) {
  std::int64_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different += std::memcmp(&a[i], b + i, sizeof(float)) != 0;
  return different;
}

bool check(bool holds, const Variant& variant, const char* what, std::int64_t different) {
  std::printf("%-18s %-46s %s (%lld elements differ)\n", variant.name, what, holds ? "ok" : "WRONG",
              static_cast<long long>(different));
  return holds;
}

bool check_batch(Shape batch, const std::vector<Variant>& variants) {
  std::vector<float> host_x(batch.elements());
  fill_input(InputKind::normal, 7, DType::f32, batch, host_x.data(), Space::host);
  const DeviceVector<float> x_vector(host_x);
  const float* const x = x_vector.data();

  bool all = true;
  for (const Variant& variant : variants) {
    Run together(variant, batch);
    together.launch(variant, x);
    const std::vector<float> in_batch = together.result();
    std::int64_t different = 0;
    for (std::int64_t row = 0; row < batch.rows; row += 7) {
      Run alone(variant, {1, batch.cols});
      alone.launch(variant, x + row * batch.cols);
      different += different_bits(alone.result(), in_batch.data() + row * batch.cols);
    }
    const bool keeps_bits = std::strcmp(variant.name, "row_exchange") == 0;
    all &= check((different == 0) == keeps_bits, variant,
                 keeps_bits ? "a row has the same bits alone and in a batch"
                            : "a row has other bits alone than in a batch",
                 different);
  }
  return all;
}

bool check_all() {
  const std::vector<Variant> keeps_bits = {variant<RowExchange>("row_exchange")};
  bool all = check_batch({70, 18000}, {variant<TwoKernels<Dependence::complete>>("two_kernels"),
                                       variant<TwoKernels<Dependence::programmatic>>("dependent_launch")});
  // One part; narrow parts; parts of single elements; and wide parts, of more rows than the GPU holds at once.
  for (const Shape batch : {Shape{70, 1000}, Shape{70, 18000}, Shape{15, 33001}, Shape{22, 200000}}) {
    all &= check_batch(batch, keeps_bits);
  }
  return all;
}

}  // namespace

int main() {
  return run_on_device([](const Device&) { return check_all(); });
}
