// Stage 12 with labels that are not columns, and with lost digits: rows whose softmax is nearly 1 at the
// label, far from 0.
// Argument: the library of the stage, as common/harness/c/c_interface.h takes it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/harness/cuda_handles.h"
#include "common/harness/variant.h"
#include "common/tests/device_test.h"
#include "common/tests/stage_library.h"

namespace {

using Floats = std::vector<float>;
using Labels = std::vector<std::int64_t>;
using Limits = std::numeric_limits<std::int64_t>;

template <class T>
DeviceMemory on_device(const std::vector<T>& values) {
  DeviceMemory memory = allocate_device(values.size() * sizeof(T));
  CUDA_CHECK(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return memory;
}

/// The result of `use` for a variant's loss, and for the gradient if the operation has one.
template <class Use>
auto with_results(const Variant& variant, const Problem& problem, const Device& device, const Floats& x,
                  const Labels& labels, Use use) {
  std::vector<DeviceMemory> inputs;
  inputs.push_back(on_device(x));
  inputs.push_back(on_device(labels));
  Prepared prepared(variant, problem, device, inputs);
  prepared.launch(nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  return use(prepared.memory());
}

Floats losses_of(const Variant& variant, const Problem& problem, const Device& device, const Floats& x,
                 const Labels& labels) {
  return with_results(variant, problem, device, x, labels, [&](const Memory& memory) {
    Floats loss(problem.shape.rows);
    CUDA_CHECK(
        cudaMemcpy(loss.data(), memory.outputs[0], loss.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return loss;
  });
}

/// As the harness judges it.
bool is_right(const Problem& problem, const Memory& memory) {
  bool all = true;
  for (const Verdict& verdict : problem.op->verify(problem, memory, Space::device, 1)) {
    if (!verdict.correct) std::printf("WRONG: %s\n", verdict.explanation.c_str());
    all &= verdict.correct;
  }
  return all;
}

/// One of a stage's operations or variants, of which `name_of` is the name.
template <class All, class Name>
const auto& named(std::string_view name, const All& all, Name name_of) {
  const auto found = std::ranges::find(all, name, name_of);
  if (found == all.end()) throw std::runtime_error("the stage has no " + std::string(name));
  return *found;
}

/// By all variants that do such rows, in f32. Adds their names.
bool are_right(const Stage& stage, const Device& device, Shape shape, const Floats& x, const Labels& labels,
               std::set<std::string>& who) {
  bool all = true;
  for (const Operation* op : stage.operations) {
    const auto is_op = [&](const Operation* loss) { return loss->name == op->name; };
    if (std::ranges::none_of(cross_entropy_operations(), is_op)) continue;
    const Problem problem{shape, DType::f32, op};
    bool is_done = false;
    for (const Variant& variant : stage.variants) {
      if (!variant.unsupported(problem, device).empty()) continue;
      is_done = true;
      who.insert(variant.name);
      all &= with_results(variant, problem, device, x, labels, [&](const Memory& memory) {
        const bool right = is_right(problem, memory);
        if (!right) std::printf("  by %s, %s\n", variant.name.c_str(), describe(problem).c_str());
        return right;
      });
    }
    if (!is_done) std::printf("WRONG: no variant does %s\n", describe(problem).c_str());
    all &= is_done;
  }
  return all;
}

bool report(const char* what, const std::set<std::string>& who, bool holds) {
  std::printf("%s:", what);
  for (const std::string& name : who) std::printf(" %s", name.c_str());
  std::printf(": %s\n", holds ? "ok" : "WRONG");
  return holds;
}

/// Neither an error nor a read outside of the tensor, which the simulator would see.
bool check_labels_that_are_no_columns(const Stage& stage, const Device& device) {
  bool all = true;
  std::set<std::string> who;
  // x at the label is read early, and last; and rows that packs do not cover.
  // The rows next to those that become NaN show what is written there.
  for (const Shape shape : {Shape{12, 200}, Shape{12, 201}, Shape{12, 1000}}) {
    const Labels labels{0,    -1, 0,         shape.cols,    0, Limits::max(), 3, Limits::min(),
                        -100, 3,  1LL << 32, shape.cols - 1};
    Floats x(shape.elements());
    fill_input(InputKind::normal, 1, DType::f32, shape, x.data(), Space::host);
    all &= are_right(stage, device, shape, x, labels, who);
  }
  return report("labels that are no columns", who, all);
}

/// A large maximum makes stage 12's RunningPair go over to other exponentials. Rows whose second half is the next larger float, around
/// numbers so large that little is left of the first half, or nothing; and rows that jump over all of them.
bool check_maxima_that_grow(const Stage& stage, const Device& device) {
  struct Halves {
    float first;
    float second;
  };
  bool all = true;
  std::set<std::string> who;
  std::vector<Halves> rows{{-3e9f, -1}, {-1, 3e9f}};
  for (const float number : {1e6f, 0x1p20f, 0x1p22f, 0x1p24f, 0x1p26f, 0x1p28f, 0x1p30f}) {
    for (const float border : {number, -number}) {
      rows.push_back({std::nextafter(border, std::numeric_limits<float>::lowest()), border});
      rows.push_back({border, std::nextafter(border, std::numeric_limits<float>::max())});
    }
  }
  for (const Halves halves : rows) {
    const Shape shape{2, 12300};
    Floats x(shape.elements());
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      x[i] = i % shape.cols < shape.cols / 2 ? halves.first : halves.second;
    }
    all &= are_right(stage, device, shape, x, {shape.cols - 1, 0}, who);
  }
  return report("maxima that grow", who, all);
}

/// Rows around `offset`, nearly one-hot at the label: the largest error of a loss.
template <class Loss>
double worst_error(float offset, Loss loss_of) {
  constexpr Shape shape{64, 2000};
  Floats x(shape.elements());
  Labels labels(shape.rows);
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
  const Floats losses = loss_of(shape, x, labels);
  double worst = 0;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    worst = std::max(worst, std::fabs(losses[row] - expected[row]) / expected[row]);
  }
  return worst;
}

/// The logarithm of the sum of exp(x), as one float, less x at the label.
Floats by_log_sum_exp(Shape shape, const Floats& x, const Labels& labels) {
  Floats loss(shape.rows);
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

bool check_digits(const Stage& stage, const Device& device) {
  bool all = true;
  for (const float offset : {0.0f, 1000.0f}) {
    const auto by_stage = [&](Shape shape, const Floats& x, const Labels& labels) {
      const Problem problem{shape, DType::f32, named("cross_entropy", stage.operations, &Operation::name)};
      const auto reads_once = [](const Variant& variant) { return variant.name.ends_with("one_read"); };
      return losses_of(*std::ranges::find_if(stage.variants, reads_once), problem, device, x, labels);
    };
    all &= check("log(sum) + (max - x)", offset, worst_error(offset, by_stage), 1e-6, 1e-3);
    const bool is_far = offset > 0;
    all &= check("(log(sum) + max) - x", offset, worst_error(offset, by_log_sum_exp), is_far ? 1e-2 : 1e-5,
                 is_far ? 1 : 1e-3);
  }
  return all;
}

/// Rows of two columns, whose losses go down to 0: logarithms of numbers near 1, which floats have to 10^-7.
bool check_small_losses(const Stage& stage, const Device& device) {
  constexpr Shape shape{512, 2};
  Floats x(shape.elements());
  for (std::int64_t row = 0; row < shape.rows; ++row) x[2 * row + 1] = -static_cast<float>(row) / 16;
  const Problem problem{shape, DType::f32, named("cross_entropy", stage.operations, &Operation::name)};
  bool all = true;
  std::set<std::string> who;
  for (const Variant& variant : stage.variants) {
    if (!variant.unsupported(problem, device).empty()) continue;
    who.insert(variant.name);
    const Floats losses = losses_of(variant, problem, device, x, Labels(shape.rows));
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const double expected = std::log1p(std::exp(double{x[2 * row + 1]}));
      if (std::fabs(losses[row] - expected) <= 1e-7 + 2e-5 * expected) continue;
      std::printf("WRONG: %s: loss %.9g, expected %.9g\n", variant.name.c_str(), losses[row], expected);
      all = false;
    }
  }
  return report("losses down to 0", who, all);
}

}  // namespace

int main(int /*argc*/, char** argv) {
  return run_on_device([&](const Device& device) {
    const Stage& stage = load_stage(argv[1]);
    const bool labels = check_labels_that_are_no_columns(stage, device);
    const bool maxima = check_maxima_that_grow(stage, device);
    const bool losses = check_small_losses(stage, device);
    return check_digits(stage, device) && labels && maxima && losses;
  });
}
