// The Load and Store functors keep their promise: scale, mask and dropout fused into the kernels of stages 03
// to 06 and of the library without touching them. Checked against softmax of the input that was scaled and masked beforehand.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "03_warp_reduce/warp_reduce.cuh"
#include "04_smem_bank_conflict/smem.cuh"
#include "05_uncached/uncached.cuh"
#include "06_online/online.cuh"
#include "common/harness/device_vector.h"
#include "common/harness/input.h"
#include "common/rowwise/kernels/forward/online.cuh"
#include "common/rowwise/kernels/forward/warp_reduce.cuh"
#include "common/tests/device_test.h"

namespace {

constexpr float scale = 0.125f;

/// x * scale where mask is 1, -inf where it is 0: attention scores with a padding mask.
struct ScaleMaskLoad {
  using Element = float;
  const float* x;
  const std::uint8_t* mask;
  std::int64_t cols;

  template <int N>
  struct Fetched {
    Pack<float, N> x;
    bool keep[N];
  };
  template <int N>
  __device__ Fetched<N> fetch(std::int64_t row, std::int64_t col) const {
    const std::int64_t index = row * cols + col;
    Fetched<N> fetched{*reinterpret_cast<const Pack<float, N>*>(x + index), {}};
#pragma unroll
    for (int i = 0; i < N; ++i) fetched.keep[i] = mask[index + i] != 0;
    return fetched;
  }
  template <int N>
  __device__ Fetched<N> missing() const {
    return {missing_pack<float, N>(), {}};
  }
  template <int N>
  __device__ void unpack(const Fetched<N>& fetched, float (&values)[N]) const {
    ::unpack(fetched.x, values);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = fetched.keep[i] ? values[i] * scale : -INFINITY;
  }
  template <int N>
  bool fits_packs() const {
    return rows_fit_packs<N>(x, cols);
  }
};

/// Drops every third element and doubles the others.
struct DropoutStore {
  float* y;
  std::int64_t cols;
  __host__ __device__ static float factor(std::int64_t index) { return index % 3 == 0 ? 0.0f : 2.0f; }

  template <int N>
  __device__ void store(const float (&values)[N], std::int64_t row, std::int64_t col) const {
    float dropped[N];
#pragma unroll
    for (int i = 0; i < N; ++i) dropped[i] = values[i] * factor(row * cols + col + i);
    *reinterpret_cast<Pack<float, N>*>(y + row * cols + col) = make_pack<float>(dropped);
  }
  template <int N>
  bool fits_packs() const {
    return rows_fit_packs<N>(y, cols);
  }
};

template <class Launch>
bool check(const char* name, Shape shape, Launch launch) {
  const std::int64_t n = shape.elements();
  std::vector<float> x(n);
  std::vector<float> fused_x(n);  // the input that the softmax should get
  std::vector<std::uint8_t> mask(n);
  fill_input(InputKind::normal, 7, DType::f32, shape, x.data(), Space::host);
  for (std::int64_t i = 0; i < n; ++i) {
    mask[i] = i % 5 != 0;
    fused_x[i] = mask[i] ? x[i] * scale : -INFINITY;
  }
  const DeviceVector<float> device_x(x);
  const DeviceVector<std::uint8_t> device_mask(mask);
  const DeviceVector<float> device_y(std::vector<float>(n, -1.0f));
  launch(ScaleMaskLoad{device_x.data(), device_mask.data(), shape.cols},
         DropoutStore{device_y.data(), shape.cols}, shape, cudaStream_t{nullptr});
  CUDA_CHECK(cudaDeviceSynchronize());

  const std::vector<float> y = to_host(device_y);
  int wrong = 0;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* row_x = fused_x.data() + row * shape.cols;
    double max = -INFINITY;
    double sum = 0;
    for (std::int64_t col = 0; col < shape.cols; ++col) max = std::max(max, double{row_x[col]});
    for (std::int64_t col = 0; col < shape.cols; ++col) sum += std::exp(row_x[col] - max);
    for (std::int64_t col = 0; col < shape.cols; ++col) {
      const std::int64_t index = row * shape.cols + col;
      const double want = std::exp(row_x[col] - max) / sum * DropoutStore::factor(index);
      if (!(std::abs(y[index] - want) <= 2e-5 * want)) ++wrong;
    }
  }
  std::printf("%-28s %3lld x %-6lld %s (%d wrong)\n", name, static_cast<long long>(shape.rows),
              static_cast<long long>(shape.cols), wrong == 0 ? "ok" : "WRONG", wrong);
  return wrong == 0;
}

bool check_all() {
  bool all = true;
  for (const std::int64_t cols : {33, 100, 128}) {
    const Shape shape{37, cols};
    all &= check("03 narrow groups", shape, [](auto... a) { NarrowGroups::launch<Softmax>(a...); });
    all &= check("library, narrow groups", shape,
                 [](auto... a) { rowwise::NarrowGroups::launch<Softmax>(a...); });
  }
  for (const std::int64_t cols : {33, 1000, 1024, 4099}) {
    const Shape shape{37, cols};
    if (cols <= 1024) {
      all &= check("03 scalar loads", shape, [](auto... a) { ScalarLoads::launch<Softmax>(a...); });
      all &= check("03 padded packs", shape, [](auto... a) { PaddedPacks::launch<Softmax>(a...); });
      all &= check("library, padded packs", shape,
                   [](auto... a) { rowwise::PaddedPacks::launch<Softmax>(a...); });
    }
    all &= check("04 transposed layout", shape,
                 [](auto... a) { SharedMemorySoftmax<TransposedLayout>::launch<Softmax>(a...); });
    all &= check("05 uncached", shape,
                 [](auto... a) { UncachedSoftmax<1024, Direction::backward>::launch<Softmax>(a...); });
    all &=
        check("06 online", shape, [](auto... a) { OnlineSoftmax<Rescale::per_pack>::launch<Softmax>(a...); });
    all &= check("06 fused", shape, [](auto... a) { FusedSoftmax::launch<Softmax>(a...); });
    all &= check("library, online", shape, [](auto... a) { rowwise::OnlineSoftmax::launch<Softmax>(a...); });
    all &= check("library, fused", shape,
                 [](auto... a) { rowwise::FusedRegisterSoftmax::launch<Softmax>(a...); });
  }
  return all;
}

}  // namespace

int main() {
  return run_on_device([](const Device&) { return check_all(); });
}
