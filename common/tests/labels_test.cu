// Stage 12 where labels are no columns, and where digits are lost: rows whose softmax is nearly 1 at the label, far from 0.
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "12_fusion/cluster_loss.cuh"
#include "12_fusion/in_cluster.cuh"
#include "12_fusion/in_registers.cuh"
#include "12_fusion/kept_row.cuh"
#include "12_fusion/loss.cuh"
#include "12_fusion/narrow_rows.cuh"
#include "12_fusion/separate.cuh"
#include "12_fusion/span_loss.cuh"
#include "12_fusion/split_loss.cuh"
#include "12_fusion/unaligned_cluster.cuh"
#include "common/tests/device_test.h"

namespace {

using Floats = thrust::device_vector<float>;
using Labels = thrust::device_vector<std::int64_t>;

template <class Vector>
auto* raw(Vector& vector) {
  return thrust::raw_pointer_cast(vector.data());
}

/// What a launcher makes of them, as the harness judges it.
template <class Op, class Launcher>
bool is_right(const char* who, const Operation& operation, Shape shape, const Floats& x, const Labels& labels,
              Launcher launcher) {
  Floats loss(shape.rows);
  Floats dx(shape.elements());
  Floats workspace(shape.elements());  // of zeros, and as much as any of them asks for
  const bool has_gradient = operation.name.find("gradient") != operation.name.npos;
  launcher.template launch<Op>(Tensors<float>{.x = raw(x),
                                              .labels = raw(labels),
                                              .loss = raw(loss),
                                              .dx = has_gradient ? raw(dx) : nullptr,
                                              .workspace = raw(workspace),
                                              .shape = shape},
                               nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  const Problem problem{shape, DType::f32, &operation};
  Memory memory{.inputs = {raw(x), raw(labels)}, .outputs = {raw(loss)}};
  if (has_gradient) memory.outputs.push_back(raw(dx));
  bool all = true;
  for (const Verdict& verdict : operation.verify(problem, memory, Space::device, 1)) {
    if (!verdict.correct) std::printf("%s: WRONG: %s\n", who, verdict.explanation.c_str());
    all &= verdict.correct;
  }
  return all;
}

/// Neither an error nor a read outside of the tensor, which the simulator would see.
bool check_labels_that_are_no_columns(bool has_clusters) {
  constexpr Shape shape{8, 1000};
  constexpr Shape narrow{8, 200};
  constexpr Shape odd{8, 201};
  constexpr auto limits = std::numeric_limits<std::int64_t>();
  const std::vector<std::int64_t> no_columns{-1, shape.cols, limits.max(), limits.min(), 1LL << 32, 3, -100};
  Labels labels(no_columns.begin(), no_columns.end());
  labels.push_back(shape.cols - 1);
  Floats x(shape.elements());
  fill_input(InputKind::normal, 1, DType::f32, shape, raw(x), Space::device);
  bool all = true;
  const auto check = [&]<class Op>(Op, const Operation& loss, const Operation& gradient) {
    all &= is_right<Op>("one_read", loss, shape, x, labels, OneRead{});
    all &= is_right<Op>("drawn_rows", loss, shape, x, labels, DrawnRows{});
    all &= is_right<Op>("flat_span", loss, odd, x, labels, SpanOfRows{});
    all &= is_right<WithGradient<Op>>("flat_span", gradient, odd, x, labels, SpanOfRows{});
    all &= is_right<Op>("split_row", loss, shape, x, labels, SplitLoss{});
    for (const Shape one : {narrow, shape}) {  // x at the label is read early, and last
      all &= is_right<Op>("narrow_rows", loss, one, x, labels, NarrowRows{});
      all &= is_right<WithGradient<Op>>("narrow_rows", gradient, one, x, labels, NarrowRows{});
    }
    all &= is_right<Op>("read_again", gradient, shape, x, labels, KeptRows<false>{});
    all &= is_right<Op>("in_registers", gradient, shape, x, labels, InRegisters{});
    all &= is_right<Op>("kept_row", gradient, shape, x, labels, KeptRows<true>{});
    if (!has_clusters) return;
    all &= is_right<Op>("cluster_loss", loss, shape, x, labels, ClusterLoss{});
    all &= is_right<Op>("cluster_registers", loss, shape, x, labels, ClusterAtOnce{});
    all &= is_right<Op>("cluster", gradient, shape, x, labels, InCluster{});
    all &= is_right<Op>("unaligned_cluster", gradient, shape, x, labels, UnalignedInCluster{});
  };
  check(CrossEntropy{}, cross_entropy_operation, cross_entropy_gradient_operation);
  check(SmoothedCrossEntropy{}, smoothed_cross_entropy_operation, smoothed_cross_entropy_gradient_operation);
  all &= is_right<CrossEntropy>("unfused_gradient", cross_entropy_gradient_operation, shape, x, labels,
                                SeparateKernels{});
  std::printf("labels that are no columns: %s\n", all ? "ok" : "WRONG");
  return all;
}

/// Rows around `offset`, nearly one-hot at the label: the largest error of a loss.
template <class Loss>
double worst_error(float offset, Loss loss_of) {
  constexpr Shape shape{64, 2000};
  thrust::host_vector<float> x(shape.elements());
  std::vector<std::int64_t> labels(shape.rows);
  fill_input(InputKind::near_one_hot, 7, DType::f32, shape, x.data(), Space::host);
  std::vector<double> expected;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto begin = x.begin() + row * shape.cols;
    for (auto element = begin; element < begin + shape.cols; ++element) *element += offset;
    const auto largest = std::max_element(begin, begin + shape.cols);
    labels[row] = largest - begin;
    double rest = 0;
    for (auto element = begin; element < begin + shape.cols; ++element) {
      if (element != largest) rest += std::exp(double{*element} - double{*largest});
    }
    expected.push_back(std::log1p(rest));
  }
  const thrust::host_vector<float> losses = loss_of(shape, x, labels);
  double worst = 0;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    worst = std::max(worst, std::fabs(losses[row] - expected[row]) / expected[row]);
  }
  return worst;
}

Floats by_stage(Shape shape, const Floats& x, const Labels& labels) {
  Floats loss(shape.rows);
  OneRead::launch<CrossEntropy>(Tensors<float>{.x = raw(x),
                                               .labels = raw(labels),
                                               .loss = raw(loss),
                                               .dx = nullptr,
                                               .workspace = nullptr,
                                               .shape = shape},
                                nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  return loss;
}

/// The logarithm of the sum of exp(x), as one float, less x at the label.
thrust::host_vector<float> by_log_sum_exp(Shape shape, const thrust::host_vector<float>& x,
                                          const std::vector<std::int64_t>& labels) {
  thrust::host_vector<float> loss(shape.rows);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float x_label = x[row * shape.cols + labels[row]];  // the maximum
    double sum = 0;
    for (std::int64_t col = 0; col < shape.cols; ++col) {
      sum += std::exp(double{x[row * shape.cols + col]} - double{x_label});
    }
    const float log_sum_exp = static_cast<float>(std::log(sum)) + x_label;
    loss[row] = log_sum_exp - x_label;
  }
  return loss;
}

bool check(const char* who, float offset, double error, double least, double most) {
  const bool holds = least <= error && error <= most;
  std::printf("%-24s rows around %4.0f: error %.1e of the loss, expected %.0e to %.0e: %s\n", who, offset,
              error, least, most, holds ? "ok" : "WRONG");
  return holds;
}

bool check_digits() {
  bool all = true;
  for (const float offset : {0.0f, 1000.0f}) {
    const auto stage = [](Shape shape, const auto& x, const auto& labels) -> thrust::host_vector<float> {
      return by_stage(shape, x, Labels(labels.begin(), labels.end()));
    };
    all &= check("log(sum) + (max - x)", offset, worst_error(offset, stage), 1e-6, 1e-3);
    const bool is_far = offset > 0;
    all &= check("(log(sum) + max) - x", offset, worst_error(offset, by_log_sum_exp), is_far ? 1e-2 : 1e-5,
                 is_far ? 1 : 1e-3);
  }
  return all;
}

}  // namespace

int main() {
  return run_on_device([](const Device& device) {
    const bool labels = check_labels_that_are_no_columns(std::stoi(device.compute_capability) >= 9);
    return check_digits() && labels;
  });
}
