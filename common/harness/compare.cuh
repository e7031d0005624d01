// Comparing every element of an output with a reference, on the host or the device: the building blocks of
// the operations' verify functions.
#pragma once

#include <cmath>
#include <limits>

#include "common/harness/tabulate.cuh"
#include "common/harness/verify.h"

template <class T>
__host__ __device__ double as_double(T value) {
  return static_cast<double>(static_cast<float>(value));
}

/// The right value of an element, and the scale that its tolerance is relative to.
struct Expected {
  double value;
  double scale;
};

namespace compare_detail {

inline constexpr std::int64_t no_index = std::numeric_limits<std::int64_t>::max();

/// The errors of one element, or of many.
struct Findings {
  std::int64_t wrong = 0;
  std::int64_t not_written = 0;
  double max_error = 0;
  std::int64_t first_wrong = no_index;
  double got = 0;       ///< there
  double expected = 0;  ///< there
};

struct MergeFindings {
  __host__ __device__ Findings operator()(Findings a, Findings b) const {
    const Findings& first = a.first_wrong < b.first_wrong ? a : b;
    return {a.wrong + b.wrong,
            a.not_written + b.not_written,
            a.max_error > b.max_error ? a.max_error : b.max_error,
            first.first_wrong,
            first.got,
            first.expected};
  }
};

template <class T, class Reference>
struct CompareElement {
  const T* y;
  Reference reference;
  Tolerance allowed;
  double tolerance_factor;

  /// |got - expected| / allowed, infinite where one is NaN or infinite and the other is not the same.
  __host__ __device__ double error(double got, Expected expected) const {
    if (isnan(expected.value)) return isnan(got) ? 0 : INFINITY;
    if (isinf(expected.value)) return got == expected.value ? 0 : INFINITY;
    const double error = fabs(got - expected.value) / (allowed.absolute + allowed.relative * expected.scale);
    return isnan(error) ? INFINITY : error;  // every comparison with NaN is false: make it count as wrong
  }

  __host__ __device__ Findings operator()(std::int64_t index) const {
    const bool written = !is_poison(y[index]);
    const double got = as_double(y[index]);
    const Expected expected = reference(index);
    const double found = written ? error(got, expected) : INFINITY;
    if (written && found <= tolerance_factor) return {0, 0, found};
    return {1, written ? 0 : 1, found, index, got, expected.value};
  }
};

std::string explain(const Findings& findings, Shape shape);

}  // namespace compare_detail

/// Compares shape.elements() elements at y with reference(index) -> Expected. `Where`: OnHost or OnDevice;
/// tolerance_factor: see Operation::verify.
template <class Where, class T, class Reference>
Verdict compare_elements(const T* y, Shape shape, const Reference& reference, Tolerance allowed,
                         double tolerance_factor) {
  using namespace compare_detail;
  const CompareElement<T, Reference> compare_element{y, reference, allowed, tolerance_factor};
  const Findings findings = reduce<Where>(shape.elements(), compare_element, Findings{}, MergeFindings{});
  if (findings.wrong == 0) return {true, "", findings.max_error};
  return {false, explain(findings, shape), findings.max_error, findings.first_wrong};
}
