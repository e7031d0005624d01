// Stage 13's dropout: its random numbers are cuRAND's, the same seed drops the same elements, forward and
// backward and however wide a pack is; and lengths outside of the width are clamped.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "13_masked_softmax/separate_masked.cuh"
#include "common/harness/device_vector.h"
#include "common/harness/input.h"
#include "common/tests/device_test.h"

#if __has_include(<curand_philox4x32_x.h>)
#include <curand_philox4x32_x.h>
constexpr bool has_curand = true;
#else
constexpr bool has_curand = false;
__device__ uint4 curand_Philox4x32_10(uint4 /*counter*/, uint2 /*key*/) {
  return {};
}
#endif

namespace {

bool report(const char* what, bool holds) {
  std::printf("%-64s %s\n", what, holds ? "ok" : "WRONG");
  return holds;
}

// ---- The numbers.

struct Draw {
  std::uint64_t counter;
  std::uint64_t key;
};

__global__ void draw(const Draw* draws, uint4* ours, uint4* curands) {
  const auto [counter, key] = draws[threadIdx.x];
  const auto low = [](std::uint64_t value) { return static_cast<unsigned>(value); };
  ours[threadIdx.x] = philox4x32(counter, key);
  curands[threadIdx.x] =
      curand_Philox4x32_10({low(counter), low(counter >> 32), 0, 0}, {low(key), low(key >> 32)});
}

bool numbers_are_philox() {
  std::vector<Draw> draws{{0, 0}, {1, 0}, {0, 1}, {1ULL << 32, 1ULL << 32}};
  while (draws.size() < 256) {
    const Draw& last = draws.back();
    draws.push_back({last.key * 0x9e3779b97f4a7c15 + draws.size(), last.counter * 0xbf58476d1ce4e5b9 + 1});
  }
  const DeviceVector<Draw> device_draws(draws);
  const DeviceVector<uint4> ours(static_cast<std::int64_t>(draws.size()));
  const DeviceVector<uint4> curands(static_cast<std::int64_t>(draws.size()));
  draw<<<1, 256>>>(device_draws.data(), ours.data(), curands.data());
  CUDA_CHECK(cudaDeviceSynchronize());
  const std::vector<uint4> found = to_host(ours);
  const std::vector<uint4> expected = to_host(curands);
  // The first vector of the tests that come with Random123.
  const uint4 first{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  bool all = report("random numbers: a published one", std::memcmp(found.data(), &first, sizeof first) == 0);
  if (has_curand) {
    all &= report("random numbers: cuRAND's",
                  std::memcmp(found.data(), expected.data(), sizeof(uint4) * found.size()) == 0);
  }
  return all;
}

// ---- The kept elements.

struct Result {
  std::vector<float> softmax;
  std::vector<float> y;
};

/// The results for x = 0: only dropout makes visible elements 0.
template <class Launcher, class T = float>
Result forward(Shape shape, std::uint64_t seed, const std::int64_t* lengths = nullptr) {
  const DeviceVector<T> x(std::vector<T>(shape.elements(), T(0.0f)));
  DeviceVector<T> softmax(shape.elements());
  DeviceVector<T> y(shape.elements());
  DeviceVector<T> workspace(shape.elements());
  Launcher::template launch<PaddedSoftmax>(Tensors<T>{.x = x.data(),
                                                      .y = y.data(),
                                                      .softmax = softmax.data(),
                                                      .lengths = lengths,
                                                      .seed = seed,
                                                      .workspace = workspace.data(),
                                                      .shape = shape},
                                           nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  Result result;
  for (const T value : to_host(softmax)) result.softmax.push_back(static_cast<float>(value));
  for (const T value : to_host(y)) result.y.push_back(static_cast<float>(value));
  return result;
}

/// Which elements are kept, of those that are seen.
std::vector<bool> kept(const Result& result) {
  std::vector<bool> kept;
  for (const float value : result.y) kept.push_back(value != 0);
  return kept;
}

using Warp = MaskedSoftmax<PaddedPacks>;
using Block = MaskedSoftmax<FusedSoftmax>;

bool drops_a_tenth(Shape shape) {
  const Result result = forward<Warp>(shape, 1);
  std::int64_t seen = 0;
  std::int64_t dropped = 0;
  double sum = 0;
  for (std::size_t i = 0; i < result.y.size(); ++i) {
    if (result.softmax[i] == 0) continue;
    ++seen;
    if (result.y[i] == 0) ++dropped;
    sum += result.y[i];
  }
  const double rate = static_cast<double>(dropped) / static_cast<double>(seen);
  // Four deviations of a mean of `seen` draws.
  const double most_off = 4 * std::sqrt(0.1 * 0.9 / static_cast<double>(seen));
  std::printf("%.4f of %lld elements dropped; a row's y adds up to %.4f\n", rate,
              static_cast<long long>(seen), sum / static_cast<double>(shape.rows));
  return report(
      "a tenth is dropped, and the sum of a row stays 1",
      std::fabs(rate - 0.1) < most_off && std::fabs(sum / static_cast<double>(shape.rows) - 1) < 0.02);
}

/// dx of a softmax of ones and dy of ones: attention_scale (g - sum of g), and g is not 0 where an element is kept.
std::vector<bool> kept_by_backward(Shape shape, std::uint64_t seed) {
  const DeviceVector<float> ones(std::vector<float>(shape.elements(), 1.0f));
  DeviceVector<float> dx(shape.elements());
  MaskedBackward::launch<CausalSoftmaxBackward>(Tensors<float>{.dy = ones.data(),
                                                               .dx = dx.data(),
                                                               .softmax = const_cast<float*>(ones.data()),
                                                               .seed = seed,
                                                               .shape = shape},
                                                nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  const std::vector<float> found = to_host(dx);
  std::vector<bool> kept;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* row_dx = found.data() + row * shape.cols;
    float least = 0;  // -sum of g: the value of dropped elements
    for (std::int64_t col = 0; col <= row % shape.cols; ++col) least = std::fmin(least, row_dx[col]);
    for (std::int64_t col = 0; col < shape.cols; ++col) {
      kept.push_back(col <= row % shape.cols && row_dx[col] > least + 0.5f * attention_scale);
    }
  }
  return kept;
}

bool seeds_say_what_is_dropped(Shape shape) {
  const std::vector<bool> of_seed_1 = kept(forward<Warp>(shape, 1));
  bool all = report("the same seed drops the same", kept(forward<Warp>(shape, 1)) == of_seed_1);
  all &= report("another seed drops others", kept(forward<Warp>(shape, 2)) != of_seed_1);
  all &= report("a seed's upper half counts", kept(forward<Warp>(shape, 1 | 1ULL << 40)) != of_seed_1);
  all &= report("another kernel drops the same", kept(forward<Block>(shape, 1)) == of_seed_1);
  all &= report("kernels of their own drop the same",
                kept(forward<SeparateMaskedSoftmax>(shape, 1)) == of_seed_1);
  all &= report("packs of another type drop the same", kept(forward<Warp, __half>(shape, 1)) == of_seed_1);
  // Rows in which all or nothing is dropped do not say which: the first ones of the causal mask.
  std::vector<bool> forward_rows(of_seed_1.begin() + 64 * shape.cols, of_seed_1.end());
  const std::vector<bool> backward = kept_by_backward(shape, 1);
  all &= report("backward drops what forward dropped",
                forward_rows == std::vector<bool>(backward.begin() + 64 * shape.cols, backward.end()));
  return all;
}

// ---- Lengths.

bool lengths_are_clamped() {
  constexpr Shape shape{5, 96};
  constexpr std::int64_t beyond_an_int = std::int64_t{1} << 32;
  const DeviceVector<std::int64_t> lengths(
      std::vector<std::int64_t>{-1, 97, beyond_an_int + 5, 50 - beyond_an_int, 3});
  const Result result = forward<Warp>(shape, 1, lengths.data());
  const std::vector<std::int64_t> seen{0, 96, 96, 0, 3};
  bool all = true;
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const std::int64_t length = seen[i / shape.cols];
    const bool is_seen = i % shape.cols < length;
    all &= std::fabs(result.softmax[i] - (is_seen ? 1.0f / static_cast<float>(length) : 0)) < 1e-6f;
  }
  return report("lengths that are no widths: nothing, or all, is seen", all);
}

/// Masked elements do not count, whatever their values are: as in memory that was never written.
bool masked_gradients_do_not_count(Shape shape) {
  const auto dx_with = [&](float masked) {
    std::vector<float> softmax;
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const std::int64_t query = i / shape.cols % shape.cols;
      softmax.push_back(i % shape.cols <= query ? 1 / static_cast<float>(query + 1) : masked);
    }
    const DeviceVector<float> in(softmax);  // and dy
    DeviceVector<float> dx(shape.elements());
    MaskedBackward::launch<CausalSoftmaxBackward>(Tensors<float>{.dy = in.data(),
                                                                 .dx = dx.data(),
                                                                 .softmax = const_cast<float*>(in.data()),
                                                                 .seed = 1,
                                                                 .shape = shape},
                                                  nullptr);
    CUDA_CHECK(cudaDeviceSynchronize());
    return to_host(dx);
  };
  return report("what is masked does not count, not even a NaN", dx_with(0) == dx_with(NAN));
}

}  // namespace

int main() {
  return run_on_device([](const Device&) {
    bool all = numbers_are_philox();
    all &= drops_a_tenth({1024, 128});
    all &= seeds_say_what_is_dropped({128, 128});
    all &= seeds_say_what_is_dropped({101, 101});
    all &= lengths_are_clamped();
    all &= masked_gradients_do_not_count({64, 64});
    return all;
  });
}
