// The hint to the L2: its numbers are those of CUDA's own type, and a launcher gives it from half of the L2
// on, or from a quarter if there are more rows than multiprocessors.
#include <cuda/annotated_ptr>

#include "common/kernel/current_device.cuh"
#include "common/tests/device_test.h"

namespace {

using Property = cuda::access_property;
static_assert(static_cast<std::uint64_t>(L2Policy::evict_last) ==
              std::uint64_t{Property(Property::persisting{})});
static_assert(static_cast<std::uint64_t>(L2Policy::as_usual) == std::uint64_t{Property(Property::global{})});

template <class T>
bool check(int matrices, Shape shape, L2Policy expected) {
  const bool holds = policy_of_reads<T>(matrices, shape) == expected;
  std::printf("%d x %lld bytes: %s\n", matrices,
              static_cast<long long>(shape.elements() * std::int64_t{sizeof(T)}), holds ? "ok" : "WRONG");
  return holds;
}

bool check_all(const Device& device) {
  using enum L2Policy;
  const Shape quarter{1, static_cast<std::int64_t>(device.l2_bytes / 4 / sizeof(float))};
  const Shape more{1, quarter.cols + 1};
  bool all = check<float>(2, quarter, as_usual);
  all &= check<float>(2, more, evict_last);
  all &= check<float>(1, more, as_usual);
  all &= check<__half>(2, more, as_usual);
  all &= check<float>(3, {1 << 20, 1 << 20}, evict_last);

  const std::int64_t rows = device.multiprocessors;
  const std::int64_t eighth_of_rows = quarter.cols / 2 / rows;
  all &= check<float>(2, {rows + 1, eighth_of_rows + 1}, evict_last);
  all &= check<float>(2, {rows + 1, quarter.cols / 2 / (rows + 1)}, as_usual);
  all &= check<float>(2, {rows, eighth_of_rows + 1}, as_usual);
  return all;
}

}  // namespace

int main() {
  return run_on_device(check_all);
}
