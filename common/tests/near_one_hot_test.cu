// Stage 11 where digits are lost: rows whose softmax is nearly 1 in one column. There dx is the difference of
// nearly equal numbers, and the last digit of the sum becomes one of the first of dx.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "11_backward/in_registers.cuh"
#include "common/harness/device_vector.h"
#include "common/harness/operation.h"
#include "common/tests/device_test.h"

namespace {

constexpr Shape shape{64, 2000};
using Floats = std::vector<float>;

/// The largest error of an element, in units of the largest element of its row.
double worst_error(const Floats& y, const Floats& dy, const Floats& dx) {
  double worst = 0;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const std::int64_t first = row * shape.cols;
    const std::int64_t end = first + shape.cols;
    double sum = 0;
    for (std::int64_t i = first; i < end; ++i) sum += double{y[i]} * dy[i];
    double largest = 0;
    double error = 0;
    for (std::int64_t i = first; i < end; ++i) {
      const double expected = y[i] * (dy[i] - sum);
      largest = std::max(largest, std::fabs(expected));
      error = std::max(error, std::fabs(dx[i] - expected));
    }
    worst = std::max(worst, error / largest);
  }
  return worst;
}

/// As PyTorch's kernels have it: y dy is rounded, then y times the sum of these is taken off. 1024 partial sums, added by
/// pairs, as a block would.
Floats as_pytorch(const Floats& y, const Floats& dy) {
  Floats dx(shape.elements());
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const std::int64_t first = row * shape.cols;
    float partial[1024] = {};
    for (std::int64_t col = 0; col < shape.cols; ++col)
      partial[col % 1024] += y[first + col] * dy[first + col];
    for (int stride = 512; stride > 0; stride /= 2) {
      for (int i = 0; i < stride; ++i) partial[i] += partial[i + stride];
    }
    for (std::int64_t i = first; i < first + shape.cols; ++i) {
      const float product = y[i] * dy[i];
      dx[i] = product - y[i] * partial[0];
    }
  }
  return dx;
}

template <class Op>
Floats by_stage(const Floats& y, const Floats& dy) {
  const DeviceVector<float> device_y(y);
  const DeviceVector<float> device_dy(dy);
  const DeviceVector<float> device_dx(shape.elements());
  BlockRegisters::launch<Op>(Tensors<float>{.y = const_cast<float*>(device_y.data()),
                                            .dy = device_dy.data(),
                                            .dx = device_dx.data(),
                                            .shape = shape},
                             nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  return to_host(device_dx);
}

bool check(const char* who, double error, double least, double most) {
  const bool holds = least <= error && error <= most;
  std::printf("%-14s error %.1e of the row's largest element, expected %.0e to %.0e: %s\n", who, error, least,
              most, holds ? "ok" : "WRONG");
  return holds;
}

bool check_all() {
  Floats y(shape.elements());
  Floats dy(shape.elements());
  const std::vector<void*> inputs{y.data(), dy.data()};
  const Problem problem{shape, DType::f32, &softmax_backward_operation};
  problem.op->fill(problem, InputKind::near_one_hot, 7, inputs, Space::host);
  bool all = check("PyTorch's way", worst_error(y, dy, as_pytorch(y, dy)), 1e-5, 1e-3);
  all &= check("one float", worst_error(y, dy, by_stage<SoftmaxBackward>(y, dy)), 1e-5, 1e-3);
  return all;
}

}  // namespace

int main() {
  return run_on_device([](const Device&) { return check_all(); });
}
