// Softmax as attention has it: scaled, masked, and with dropout; and its gradient.
#include "common/harness/compare.cuh"
#include "common/harness/operation.h"
#include "common/harness/reference.cuh"

namespace {

// ---- The visible columns and the kept elements, written a second time here, independently of the kernels.

struct Seen {
  const std::int64_t* length;  ///< nullptr: causal
  std::int64_t cols;
  __host__ __device__ bool operator()(std::int64_t index) const {
    const std::int64_t row = index / cols;
    const std::int64_t col = index % cols;
    return length == nullptr ? col <= row % cols : col < length[row];
  }
};

/// 0, or the factor of a kept element.
struct DropoutFactor {
  std::uint64_t seed;
  __host__ __device__ double operator()(std::int64_t index) const {
    const auto block = static_cast<std::uint64_t>(index) / 8;
    std::uint32_t words[4] = {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0,
                              0};
    auto key = static_cast<std::uint32_t>(seed);
    auto other_key = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product = words[0] * std::uint64_t{0xD2511F53};
      const std::uint64_t other = words[2] * std::uint64_t{0xCD9E8D57};
      words[0] = static_cast<std::uint32_t>(other >> 32) ^ words[1] ^ key;
      words[2] = static_cast<std::uint32_t>(product >> 32) ^ words[3] ^ other_key;
      words[1] = static_cast<std::uint32_t>(other);
      words[3] = static_cast<std::uint32_t>(product);
      key += 0x9E3779B9;
      other_key += 0xBB67AE85;
    }
    const std::uint32_t drawn = words[index % 8 / 2] >> (index % 2 * 16) & 0xffff;
    return drawn < dropped_of_65536 ? 0 : 65536. / (65536 - dropped_of_65536);
  }
};

bool is_padded(const Problem& problem) {
  return problem.inputs().back().dtype == DType::i64;
}

Seen seen_of(const Problem& problem, const std::vector<const void*>& inputs) {
  const void* const length = is_padded(problem) ? inputs.back() : nullptr;
  return {static_cast<const std::int64_t*>(length), problem.shape.cols};
}

// ---- Tensors.

Tensor matrix(const char* name, const Problem& problem) {
  return {name, problem.dtype, problem.shape};
}
Tensor lengths_of(const Problem& problem) {
  return {"length", DType::i64, {problem.shape.rows, 1}};
}

std::vector<Tensor> x_alone(const Problem& problem) {
  return {matrix("x", problem)};
}
std::vector<Tensor> x_and_length(const Problem& problem) {
  return {matrix("x", problem), lengths_of(problem)};
}
std::vector<Tensor> softmax_and_y(const Problem& problem) {
  return {matrix("softmax", problem), matrix("y", problem)};
}
std::vector<Tensor> softmax_and_dy(const Problem& problem) {
  return {matrix("softmax", problem), matrix("dy", problem)};
}
std::vector<Tensor> softmax_dy_and_length(const Problem& problem) {
  return {matrix("softmax", problem), matrix("dy", problem), lengths_of(problem)};
}
std::vector<Tensor> dx_alone(const Problem& problem) {
  return {matrix("dx", problem)};
}

// ---- Reference: of the scores, as doubles, reference_rows makes the pairs.

template <class T>
struct Score {
  const T* x;
  Seen is_seen;
  __host__ __device__ double operator()(std::int64_t index) const {
    return is_seen(index) ? as_double(x[index]) * double{attention_scale} : -INFINITY;
  }
};

template <class T>
struct SoftmaxOf {
  Score<T> score;
  const ReferenceRow* rows;
  __host__ __device__ double operator()(std::int64_t index) const {
    return score.is_seen(index) ? rows[index / score.is_seen.cols].softmax(score(index)) : 0;
  }
};

template <class T>
struct ExpectedSoftmax {
  SoftmaxOf<T> softmax;
  __host__ __device__ Expected operator()(std::int64_t index) const {
    const double value = softmax(index);
    return {value, value};
  }
};

template <class T>
struct ExpectedDropout {
  SoftmaxOf<T> softmax;
  DropoutFactor factor;
  __host__ __device__ Expected operator()(std::int64_t index) const {
    const double kept = factor(index);
    const double value = kept == 0 ? 0 : softmax(index) * kept;
    return {value, value};
  }
};

/// Values that a framework rounds between two kernels may be rounded here as well.
Tolerance of_two_roundings(DType dtype) {
  const Tolerance once = tolerance(dtype);
  return {2 * once.absolute, 2 * once.relative};
}

std::vector<Verdict> verify_softmax_and_y(const Problem& problem, const Memory& memory, Space space,
                                          double tolerance_factor) {
  return dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    const Score<T> score{static_cast<const T*>(memory.inputs[0]), seen_of(problem, memory.inputs)};
    const auto rows = reference_rows<Where>(problem.shape, score);
    const SoftmaxOf<T> softmax{score, rows.data()};
    const auto compare = [&](std::size_t output, const auto& expected, Tolerance allowed) {
      return compare_elements<Where>(static_cast<const T*>(memory.outputs[output]), problem.shape, expected,
                                     allowed, tolerance_factor);
    };
    return std::vector{
        compare(0, ExpectedSoftmax<T>{softmax}, tolerance(problem.dtype)),
        compare(1, ExpectedDropout<T>{softmax, {problem.seed}}, of_two_roundings(problem.dtype))};
  });
}

/// The gradient of y, once through dropout.
template <class T>
struct GradientOfSoftmax {
  const T* dy;
  DropoutFactor factor;
  __host__ __device__ double operator()(std::int64_t index) const {
    const double kept = factor(index);
    return kept == 0 ? 0 : kept * as_double(dy[index]);
  }
};

template <class T>
struct Summand {
  const T* softmax;
  GradientOfSoftmax<T> gradient;
  Seen is_seen;
  __host__ __device__ double operator()(std::int64_t index) const {
    return is_seen(index) ? as_double(softmax[index]) * gradient(index) : 0;
  }
};

template <class T>
struct ExpectedGradient {
  Summand<T> of;
  const ReferenceSum* rows;
  __host__ __device__ Expected operator()(std::int64_t index) const {
    if (!of.is_seen(index)) return {0, 0};
    const ReferenceSum row = rows[index / of.is_seen.cols];
    const double softmax = double{attention_scale} * as_double(of.softmax[index]);
    const double gradient = of.gradient(index);
    return {softmax * (gradient - row.sum), fabs(softmax) * (fabs(gradient) + row.magnitudes)};
  }
};

std::vector<Verdict> verify_dx(const Problem& problem, const Memory& memory, Space space,
                               double tolerance_factor) {
  return dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    const Summand<T> summand{static_cast<const T*>(memory.inputs[0]),
                             {static_cast<const T*>(memory.inputs[1]), {problem.seed}},
                             seen_of(problem, memory.inputs)};
    const auto sums = reference_sums<Where>(problem.shape, summand);
    return std::vector{compare_elements<Where>(static_cast<const T*>(memory.outputs[0]), problem.shape,
                                               ExpectedGradient<T>{summand, sums.data()},
                                               of_two_roundings(problem.dtype), tolerance_factor)};
  });
}

// ---- Inputs.

struct Length {
  std::int64_t cols;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const { return length_of_row(row, cols); }
};

void fill_lengths(const Problem& problem, std::span<void* const> inputs, Space space) {
  if (!is_padded(problem)) return;
  dispatch_space(space, [&]<class Where>() {
    Where::tabulate(static_cast<std::int64_t*>(inputs.back()), problem.shape.rows,
                    Length{problem.shape.cols});
  });
}

void fill_x(const Problem& problem, InputKind kind, std::uint64_t seed, std::span<void* const> inputs,
            Space space) {
  fill_input(kind, seed, problem.dtype, problem.shape, inputs[0], space);
  fill_lengths(problem, inputs, space);
}

template <class T>
struct RoundedSoftmax {
  SoftmaxOf<T> softmax;
  __host__ __device__ T operator()(std::int64_t index) const {
    constexpr double smallest_normal = 0x1p-126;  // smaller numbers are 0 on the device, but not on the host
    const double value = softmax(index);
    return static_cast<T>(static_cast<float>(value < smallest_normal ? 0 : value));
  }
};

/// softmax is that of an input x of the wanted kind, rounded to the dtype; dy is normal.
void fill_softmax_and_dy(const Problem& problem, InputKind kind, std::uint64_t seed,
                         std::span<void* const> inputs, Space space) {
  fill_x(problem, kind, seed, inputs, space);
  fill_input(InputKind::normal, seed + 1, problem.dtype, problem.shape, inputs[1], space);
  dispatch_space_and_dtype(space, problem.dtype, [&]<class Where, class T>() {
    T* x = static_cast<T*>(inputs[0]);  // and softmax in the end
    const Score<T> score{x, seen_of(problem, {inputs.begin(), inputs.end()})};
    const auto rows = reference_rows<Where>(problem.shape, score);
    Where::tabulate(x, problem.shape.elements(), RoundedSoftmax<T>{{score, rows.data()}});
  });
}

}  // namespace

const Operation causal_softmax_operation{"causal_softmax", x_alone, softmax_and_y, fill_x,
                                         verify_softmax_and_y};
const Operation padded_softmax_operation{"padded_softmax", x_and_length, softmax_and_y, fill_x,
                                         verify_softmax_and_y};
const Operation causal_softmax_backward_operation{"causal_softmax_backward", softmax_and_dy, dx_alone,
                                                  fill_softmax_and_dy, verify_dx};
const Operation padded_softmax_backward_operation{"padded_softmax_backward", softmax_dy_and_length, dx_alone,
                                                  fill_softmax_and_dy, verify_dx};

const std::vector<const Operation*>& masked_softmax_operations() {
  static const std::vector<const Operation*> all{
      &causal_softmax_operation, &causal_softmax_backward_operation, &padded_softmax_operation,
      &padded_softmax_backward_operation};
  return all;
}
