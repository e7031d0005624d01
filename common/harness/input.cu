#include <array>
#include <cmath>
#include <type_traits>

#include "common/harness/input.h"
#include "common/harness/input_element.cuh"
#include "common/harness/tabulate.cuh"

namespace {

constexpr int num_inputs = static_cast<int>(InputKind::near_one_hot) + 1;

/// Uniform in (0, 1).
__host__ __device__ double unit_interval(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

template <class T>
struct InputElement {
  InputKind kind;
  std::uint64_t seed;
  std::int64_t cols;

  __host__ __device__ double normal(std::int64_t index) const {  // Box and Muller
    const std::uint64_t first = mix(seed * 0x632be59bd9b4e019 + static_cast<std::uint64_t>(index));
    return sqrt(-2 * log(unit_interval(first))) * cos(2 * 3.14159265358979323846 * unit_interval(mix(first)));
  }

  __host__ __device__ double value(std::int64_t index) const {
    // Divisions, which most inputs do without.
    const auto col = [&] { return index % cols; };
    const auto chosen_row = [&] { return index / cols % 2 == 0; };
    const auto chosen_element = [&] { return col() == chosen_col(seed, index / cols, cols); };
    switch (kind) {
      case InputKind::normal:
        break;
      case InputKind::uniform:
        return 8 * unit_interval(mix(seed + static_cast<std::uint64_t>(index))) - 4;
      case InputKind::large_magnitude:
        return 1000 * normal(index);
      case InputKind::all_equal:
        return 3;
      case InputKind::very_negative:
        return normal(index) - 200;
      case InputKind::lowest:
        return std::is_same_v<T, __half> ? -6e4 : -1e30;  // the lowest f16 is -65504
      case InputKind::ascending:
        return 20.0 * static_cast<double>(col()) / static_cast<double>(cols) - 10;
      case InputKind::one_outlier:
        return chosen_element() ? 60 : normal(index);
      case InputKind::neg_inf_prefix:
        return col() < cols / 2 ? -INFINITY : normal(index) - (chosen_row() ? 200 : 0);
      case InputKind::all_neg_inf:
        return chosen_row() ? -INFINITY : normal(index);
      case InputKind::one_pos_inf:
        return chosen_row() && chosen_element() ? INFINITY : normal(index);
      case InputKind::one_nan:
        return chosen_row() && chosen_element() ? NAN : normal(index);
      case InputKind::near_one_hot:
        return chosen_element() ? log(static_cast<double>(cols)) + 7.5 : normal(index);
    }
    return normal(index);
  }

  __host__ __device__ T operator()(std::int64_t index) const {
    return static_cast<T>(static_cast<float>(value(index)));
  }
};

}  // namespace

const char* name(InputKind kind) {
  // In the order of the enum.
  constexpr std::array names{"normal",    "uniform",     "large_magnitude", "all_equal",   "very_negative",
                             "ascending", "one_outlier", "neg_inf_prefix",  "all_neg_inf", "one_pos_inf",
                             "one_nan",   "lowest",      "near_one_hot"};
  static_assert(names.size() == num_inputs);
  return names.at(static_cast<std::size_t>(kind));
}

std::vector<InputKind> all_inputs() {
  std::vector<InputKind> all;
  for (int kind = 0; kind < num_inputs; ++kind) all.push_back(static_cast<InputKind>(kind));
  return all;
}

void fill_input(InputKind kind, std::uint64_t seed, DType dtype, Shape shape, void* x, Space space) {
  dispatch_space_and_dtype(space, dtype, [&]<class Where, class T>() {
    Where::tabulate(static_cast<T*>(x), shape.elements(), InputElement<T>{kind, seed, shape.cols});
  });
}
