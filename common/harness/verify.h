// Verification: every element of a result against a double-precision reference, and the checks that catch a
// kernel which did not run, wrote elsewhere, or changed its input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/harness/cuda_handles.h"
#include "common/harness/input.h"
#include "common/harness/problem.h"

/// An element is right when |got - reference| <= absolute + relative * |reference|; NaN is right where the
/// reference is NaN and only there, and likewise for each infinity.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};
/// Relative: a few roundings of the dtype. Absolute: for softmax at most a few of the dtype's smallest
/// values, because a mean result of 2e-5 (50 000 columns) would pass under 1e-4 whatever it is. For
/// log_softmax the error of log(sum) is absolute, and as large as the relative error of the sum.
Tolerance tolerance(DType dtype, Op op);

struct Verdict {
  bool correct = false;
  std::string explanation;  ///< what is wrong, in one line; empty when correct
  double max_error = 0;     ///< worst |got - reference| / allowed; above 1 (the tolerance factor) is wrong
  std::int64_t first_wrong = -1;  ///< index of the first wrong element; -1: none
};

/// Every byte of an output before a launch: NaN in each dtype, with a payload that arithmetic never makes.
inline constexpr unsigned char poison_byte = 0xff;

/// Compares y with the reference result for x; both are device (or both host) pointers to
/// problem.shape.elements() elements. An element that still holds the poison counts as not written. An
/// element is wrong when its error exceeds `tolerance_factor` times what is allowed: 1 for all that is ours.
Verdict compare_with_reference(const Problem& problem, const void* x, const void* y, Space space,
                               double tolerance_factor = 1);

/// Device memory that a comparison takes, computed in double because rows * cols may not fit an integer.
double verification_bytes(double rows, double cols);

/// A sum over all bytes that changes when any element changes.
std::uint64_t checksum(const Problem& problem, const void* x, Space space);

/// Device memory for one tensor between two fences. What lies outside of the tensor is poison: a read past
/// the end yields NaN, a write past the end is seen.
class FencedTensor {
 public:
  /// `offset`: elements by which the tensor's start is moved off its 256-byte alignment.
  FencedTensor(const Problem& problem, std::int64_t offset);
  [[nodiscard]] void* data() const { return static_cast<char*>(memory_.get()) + front_bytes_; }
  /// Fills the tensor and its fences with poison; returns when done.
  void poison();
  /// "" or which fence was written, and at what distance from the tensor.
  [[nodiscard]] std::string broken_fence() const;
  /// What a FencedTensor takes beyond the tensor itself.
  static constexpr std::size_t fence_bytes = 4096;
  static std::size_t bytes_needed(const Problem& problem, std::int64_t offset);

 private:
  std::size_t front_bytes_;
  std::size_t tensor_bytes_;
  DeviceMemory memory_;
};
