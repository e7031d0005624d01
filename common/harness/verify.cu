#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>

#include <cstdio>
#include <limits>
#include <type_traits>
#include <vector>

#include "common/harness/reference.cuh"
#include "common/harness/simulator.h"
#include "common/harness/variant.h"
#include "common/harness/verify.h"

namespace {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;

template <class T>
__host__ __device__ Bits<T> bits_of(const T& value) {
  return *reinterpret_cast<const Bits<T>*>(&value);
}

constexpr std::int64_t no_index = std::numeric_limits<std::int64_t>::max();

/// What one element, or many, have wrong.
struct Findings {
  std::int64_t wrong = 0;
  std::int64_t not_written = 0;
  std::int64_t first_wrong = no_index;
  double max_error = 0;
};

struct MergeFindings {
  __host__ __device__ Findings operator()(Findings a, Findings b) const {
    return {a.wrong + b.wrong, a.not_written + b.not_written,
            a.first_wrong < b.first_wrong ? a.first_wrong : b.first_wrong,
            a.max_error > b.max_error ? a.max_error : b.max_error};
  }
};

template <class T>
struct CompareElement {
  Op op;
  Tolerance allowed;
  const T* x;
  const T* y;
  std::int64_t cols;
  const ReferenceMaxSum* rows;
  double tolerance_factor;

  __host__ __device__ double reference(std::int64_t index) const {
    return reference_element(op, static_cast<double>(static_cast<float>(x[index])), rows[index / cols]);
  }

  /// |got - reference| / allowed, infinite where one is NaN or infinite and the other is not the same.
  __host__ __device__ double error(double got, double want) const {
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isinf(want)) return got == want ? 0 : INFINITY;
    const double error = fabs(got - want) / (allowed.absolute + allowed.relative * fabs(want));
    return isnan(error) ? INFINITY : error;  // every comparison with NaN is false: make it count as wrong
  }

  __host__ __device__ Findings operator()(std::int64_t index) const {
    const bool written = bits_of(y[index]) != static_cast<Bits<T>>(~Bits<T>{0});
    const double found = error(static_cast<double>(static_cast<float>(y[index])), reference(index));
    if (written && found <= tolerance_factor) return {0, 0, no_index, found};
    return {1, written ? 0 : 1, index, written ? found : INFINITY};
  }
};

/// The value of `element` for an index of device (or host) memory, brought to the host.
template <class T>
double fetch(const T* element, Space space) {
  T value;
  if (space == Space::host) {
    value = *element;
  } else {
    CUDA_CHECK(cudaMemcpy(&value, element, sizeof(T), cudaMemcpyDeviceToHost));
  }
  return static_cast<double>(static_cast<float>(value));
}

std::string explain(const Findings& findings, std::int64_t elements, std::int64_t cols, double got,
                    double want) {
  char text[256];
  const auto row = static_cast<long long>(findings.first_wrong / cols);
  const auto col = static_cast<long long>(findings.first_wrong % cols);
  if (findings.not_written > 0) {
    std::snprintf(text, sizeof text,
                  "%lld of %lld elements never written, %lld wrong in all; first at row %lld, column %lld",
                  static_cast<long long>(findings.not_written), static_cast<long long>(elements),
                  static_cast<long long>(findings.wrong), row, col);
  } else {
    std::snprintf(text, sizeof text,
                  "%lld of %lld elements wrong; first at row %lld, column %lld: got %.9g, expected %.9g",
                  static_cast<long long>(findings.wrong), static_cast<long long>(elements), row, col, got,
                  want);
  }
  return text;
}

/// Vector: thrust::host_vector or device_vector, matching the policy.
template <template <class...> class Vector, class T, class Policy>
Verdict compare(const Problem& problem, const T* x, const T* y, Space space, double tolerance_factor,
                const Policy& policy) {
  const auto [rows, cols] = problem.shape;
  const std::int64_t chunks_per_row = (cols + ReduceChunk<T>::chunk_cols - 1) / ReduceChunk<T>::chunk_cols;
  const thrust::counting_iterator<std::int64_t> zero(0);

  Vector<ReferenceMaxSum> chunk_pairs(rows * chunks_per_row);
  thrust::transform(policy, zero, zero + rows * chunks_per_row, chunk_pairs.begin(),
                    ReduceChunk<T>{x, cols, chunks_per_row});
  Vector<ReferenceMaxSum> row_pairs(rows);
  thrust::transform(policy, zero, zero + rows, row_pairs.begin(),
                    ReduceRow{thrust::raw_pointer_cast(chunk_pairs.data()), chunks_per_row});

  const ReferenceMaxSum* row_pair_of = thrust::raw_pointer_cast(row_pairs.data());
  const CompareElement<T> compare_element{
      problem.op, tolerance(problem.dtype, problem.op), x, y, cols, row_pair_of, tolerance_factor};
  const Findings findings = thrust::transform_reduce(policy, zero, zero + problem.shape.elements(),
                                                     compare_element, Findings{}, MergeFindings{});
  if (findings.wrong == 0) return {true, "", findings.max_error};

  const ReferenceMaxSum row_pair = row_pairs[findings.first_wrong / cols];
  const double want = reference_element(problem.op, fetch(x + findings.first_wrong, space), row_pair);
  const double got = fetch(y + findings.first_wrong, space);
  return {false, explain(findings, problem.shape.elements(), cols, got, want), findings.max_error,
          findings.first_wrong};
}

/// Position and bits of one element, mixed so that two changes do not cancel.
template <class T>
struct ChecksumElement {
  const T* x;
  __host__ __device__ std::uint64_t operator()(std::int64_t index) const {
    std::uint64_t z = (static_cast<std::uint64_t>(index) << 20) + bits_of(x[index]) + 1;
    z = (z ^ (z >> 31)) * 0x94d049bb133111eb;
    return z ^ (z >> 30);
  }
};

struct Sum {
  __host__ __device__ std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};

}  // namespace

Tolerance tolerance(DType dtype, Op op) {
  constexpr double f32_sum = 2e-5;  // a float sum of 100 000 terms, and exp of a rounded x - max
  constexpr double f32_smallest = 0x1p-126;
  switch (dtype) {
    case DType::f32:
      return {op == Op::softmax ? f32_smallest : f32_sum, f32_sum};
    case DType::f16:
      return {op == Op::softmax ? 0x1p-24 : f32_sum, 0x1p-11 + f32_sum};
    case DType::bf16:
      return {op == Op::softmax ? f32_smallest : f32_sum, 0x1p-8 + f32_sum};
  }
  return {};
}

Verdict compare_with_reference(const Problem& problem, const void* x, const void* y, Space space,
                               double tolerance_factor) {
  if (problem.shape.elements() == 0) return {true, "", 0};
  Verdict verdict;
  dispatch_dtype(problem.dtype, [&]<class T>() {
    const T* typed_x = static_cast<const T*>(x);
    const T* typed_y = static_cast<const T*>(y);
    if (space == Space::host) {
      verdict =
          compare<thrust::host_vector>(problem, typed_x, typed_y, space, tolerance_factor, thrust::host);
    } else {
      verdict =
          compare<thrust::device_vector>(problem, typed_x, typed_y, space, tolerance_factor, thrust::device);
    }
  });
  return verdict;
}

double verification_bytes(double rows, double cols) {
  const double chunks_per_row = std::ceil(cols / static_cast<double>(ReduceChunk<float>::chunk_cols));
  return rows * (chunks_per_row + 1) * static_cast<double>(sizeof(ReferenceMaxSum));
}

std::uint64_t checksum(const Problem& problem, const void* x, Space space) {
  const thrust::counting_iterator<std::int64_t> zero(0);
  const auto last = zero + problem.shape.elements();
  std::uint64_t sum = 0;
  dispatch_dtype(problem.dtype, [&]<class T>() {
    const ChecksumElement<T> element{static_cast<const T*>(x)};
    sum = space == Space::host ? thrust::transform_reduce(thrust::host, zero, last, element, sum, Sum{})
                               : thrust::transform_reduce(thrust::device, zero, last, element, sum, Sum{});
  });
  return sum;
}

FencedTensor::FencedTensor(const Problem& problem, std::int64_t offset)
    : front_bytes_(fence_bytes + static_cast<std::size_t>(offset) * size_of(problem.dtype)),
      tensor_bytes_(problem.tensor_bytes()),
      memory_(allocate_device(bytes_needed(problem, offset))) {
  poison();
}

std::size_t FencedTensor::bytes_needed(const Problem& problem, std::int64_t offset) {
  return 2 * fence_bytes + static_cast<std::size_t>(offset) * size_of(problem.dtype) + problem.tensor_bytes();
}

void FencedTensor::poison() {
  const std::size_t bytes = front_bytes_ + tensor_bytes_ + fence_bytes;
  CUDA_CHECK(cudaMemset(memory_.get(), poison_byte, bytes));
  CUDA_CHECK(cudaDeviceSynchronize());
  if (simulator() != nullptr) simulator()->forget(memory_.get(), bytes);  // reading poison is then a fault
}

std::string FencedTensor::broken_fence() const {
  const auto intact_bytes = [](const void* fence, std::size_t bytes, bool backwards) {
    std::vector<unsigned char> copy(bytes);
    CUDA_CHECK(cudaMemcpy(copy.data(), fence, bytes, cudaMemcpyDeviceToHost));
    std::size_t intact = 0;
    while (intact < bytes && copy[backwards ? bytes - 1 - intact : intact] == poison_byte) ++intact;
    return intact;
  };
  const std::size_t before = intact_bytes(memory_.get(), front_bytes_, true);
  if (before < front_bytes_)
    return "wrote " + std::to_string(before + 1) + " bytes before the output's start";
  const std::size_t after = intact_bytes(static_cast<char*>(data()) + tensor_bytes_, fence_bytes, false);
  if (after < fence_bytes) return "wrote " + std::to_string(after + 1) + " bytes past the output's end";
  return "";
}
