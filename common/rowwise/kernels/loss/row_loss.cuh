// Cross-entropy, also with smoothed labels, and its gradient: the operations on a row. In one kernel x is read once, and no probability is ever written.
//
// Cost: 1 pass (1 read) for the loss alone, 2 (1 read and 1 write) with the gradient. The pair (m, d) of a
// row is enough for both: loss = log(d) + (m - x[label]), and dx = exp(x - m) / d, less 1 at the label. So
// the loss can stream a row and keep nothing. For the gradient the row stays on the SM: in registers, in
// shared memory, or in the shared memory of a cluster.
// Sources: quack's and Liger's cross-entropy; Wijmans et al., "Cut your losses", for other matrices that need
// not be written.
#pragma once

#include "common/kernel/block_merge.cuh"
#include "common/kernel/constants.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/pack.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"
#include "common/rowwise/kernels/loss/running_pair.cuh"

namespace rowwise {

// ---- The operations on a row. State{} is the state of no element. A thread collects its share of the row in
// an Own, from which it gets a State. Missing elements must be added as -inf. state(pair, below) makes
// a State of elements for which both are known.

struct AllExist {
  __device__ bool operator()(int /*value*/) const { return true; }
};

/// The logarithm of a row's sum, one term of which is 1. Note N22: __logf is much shorter than logf. Near 1
/// its error of up to 4e-7 would be large compared with the loss, so there a series replaces it, with an
/// error of at most 1e-5 of the loss.
__device__ inline float log_of_sum(float sum) {
  const float rest = sum - 1;
  // Note N22: a fused multiply-add would keep the third in one more register, and fewer blocks would fit on
  // an SM.
  const float series = rest - rest * rest * (0.5f - __fmul_rn(rest, 1.0f / 3));
  return rest < 0x1p-5f ? series : __logf(sum);
}

/// The sum of (maximum - element). A plain sum of the elements could overflow, and next to a large maximum
/// their mean would lose digits.
struct BelowMax {
  float sum = 0;
  float count = 0;

  /// Adds the elements for which exists(i) is true; those must be numbers.
  template <int N, class Exists>
  __device__ void add(float max, const float (&values)[N], Exists exists) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sum += exists(i) ? safe_shift(max) - values[i] : 0;
      count += exists(i) ? 1 : 0;
    }
  }
  /// Converts the sum to a larger maximum.
  __device__ void raise(float from, float to) {
    if (count > 0 && from < to) sum += count * (to - from);
  }
};

/// The target is 1 at the label, 0 elsewhere.
struct CrossEntropy : ReducesToMaxSum {
  static constexpr const char* name = "cross_entropy";
  static constexpr const char* name_with_gradient = "cross_entropy_gradient";
  static constexpr float smoothing = 0;
  class Own {
   public:
    template <int N, class Exists = AllExist>
    __device__ void add(const float (&values)[N], Exists /*exists*/ = {}) {
      pair_.add(values);
    }
    /// For values whose maximum is known already.
    template <int N, class Exists = AllExist>
    __device__ void add_below(float max, const float (&values)[N], Exists /*exists*/ = {}) {
      pair_.add_below(max, values);
    }
    __device__ State state() const { return pair_.pair(); }

   private:
    RunningPair pair_;
  };
  static __device__ State state(MaxSum pair, BelowMax /*below*/) { return pair; }
  static __device__ MaxSum pair(State row) { return row; }
  /// The loss of a row of `cols` columns; x_label is x[label].
  static __device__ float loss(State row, float x_label, float /*cols*/) {
    // Not max + log(sum) - x_label: next to a large maximum the logarithm would lose its digits.
    return log_of_sum(row.sum) + (row.max - x_label);
  }
};

struct PairAndBelow {
  MaxSum pair{};
  BelowMax below{};
};
__device__ inline PairAndBelow shuffle_xor(PairAndBelow value, int mask) {
  return {{::shuffle_xor(value.pair.max, mask), ::shuffle_xor(value.pair.sum, mask)},
          {::shuffle_xor(value.below.sum, mask), ::shuffle_xor(value.below.count, mask)}};
}

/// The target is spread: `smoothing` evenly over all columns, the rest at the label.
struct SmoothedCrossEntropy {
  static constexpr const char* name = "smoothed_cross_entropy";
  static constexpr const char* name_with_gradient = "smoothed_cross_entropy_gradient";
  using State = PairAndBelow;
  static constexpr auto smoothing = static_cast<float>(label_smoothing);
  class Own {
   public:
    template <int N, class Exists = AllExist>
    __device__ void add(const float (&values)[N], Exists exists = {}) {
      add_below(max_of(values), values, exists);
    }
    template <int N, class Exists = AllExist>
    __device__ void add_below(float max, const float (&values)[N], Exists exists = {}) {
      const float before = pair_.max();
      pair_.add_below(max, values);
      below_.raise(before, pair_.max());
      below_.add(pair_.max(), values, exists);
    }
    __device__ State state() const { return {pair_.pair(), below_}; }

   private:
    RunningPair pair_;
    BelowMax below_;
  };
  static __device__ State merge(State a, State b) {
    const MaxSum pair = ::merge(a.pair, b.pair);
    a.below.raise(a.pair.max, pair.max);
    b.below.raise(b.pair.max, pair.max);
    return {pair, {a.below.sum + b.below.sum, a.below.count + b.below.count}};
  }
  static __device__ State state(MaxSum pair, BelowMax below) { return {pair, below}; }
  static __device__ MaxSum pair(State row) { return row.pair; }
  static __device__ float loss(State row, float x_label, float cols) {
    const float wanted = (1 - smoothing) * (row.pair.max - x_label);
    return log_of_sum(row.pair.sum) + wanted + smoothing * (row.below.sum / cols);
  }
};

/// The same operation, when the gradient is wanted as well.
template <class Op>
struct WithGradient : Op {
  static constexpr const char* name = Op::name_with_gradient;
};
template <class Op>
constexpr bool has_gradient = false;
template <class Op>
constexpr bool has_gradient<WithGradient<Op>> = true;

using Losses = OpList<CrossEntropy, SmoothedCrossEntropy>;
using LossesWithGradient = OpList<WithGradient<CrossEntropy>, WithGradient<SmoothedCrossEntropy>>;

/// The limits that all launchers of the loss alone share: they take rows of up to 2^30 columns at any
/// address.
struct MakesLoss {
  using Operations = Losses;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) { return columns_fit_32_bits(matrix); }
};
/// The same for launchers of the loss and the gradient.
struct MakesLossAndGradient {
  using Operations = LossesWithGradient;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) { return columns_fit_32_bits(matrix); }
};
/// The operations of launchers that compute the loss with or without its gradient.
using LossesAndGradients = OpList<CrossEntropy, SmoothedCrossEntropy, WithGradient<CrossEntropy>,
                                  WithGradient<SmoothedCrossEntropy>>;

// ---- The end of a row.

/// An element that is loaded early and converted late, because a conversion waits for the load. If there is
/// no such column, nothing is loaded, and the value is NaN.
template <class T>
class Element {
 public:
  __device__ Element(const T* row, std::int64_t col, std::int64_t cols) : exists_(0 <= col && col < cols) {
    // Note N26: the word is set, so that nvcc 13.0 does not load a zero from memory.
    element_.word = 0;
    if (exists_) element_ = load_pack<1>(row + col);
  }
  __device__ float value() const {
    float value[1];
    unpack(element_, value);
    return exists_ ? value[0] : NAN;
  }

 private:
  Pack<T, 1> element_;
  bool exists_;
};

template <class Op>
__device__ float loss_of_row(typename Op::State row, float x_label, std::int64_t label, std::int64_t cols) {
  // Computed for ignored rows, too. Note N24: on narrow rows a branch would be slower.
  const float loss = Op::loss(row, x_label, static_cast<float>(cols));
  return label == ignored_label ? 0 : loss;
}

/// Turns elements of a row into their gradients.
template <class Op>
class RowGradient {
 public:
  __device__ RowGradient(typename Op::State row, std::int64_t label, int cols)
      : max_(Op::pair(row).max),
        power_(max_),
        factor_of_exponentials_(Softmax::sum_term(Op::pair(row).sum)),
        // An IEEE division: see note N23.
        factor_(1 / Op::pair(row).sum),
        everywhere_(Op::smoothing == 0 ? 0 : Op::smoothing / static_cast<float>(cols)),
        label_(static_cast<int>(label)),
        is_ignored_(label == ignored_label),
        is_usual_(!is_ignored_ && PowersBelow::is_near(max_)) {
    if (is_usual_) factor_ *= power_.correction(max_);
    if (0 <= label && label < cols) return;
    // Note N23: without label smoothing, everywhere_ is a constant. Setting it to NaN here would cost 12
    // registers.
    factor_ = NAN;
    factor_of_exponentials_ = is_ignored_ ? 0 : NAN;
    if (Op::smoothing > 0 && is_ignored_) everywhere_ = 0;
    label_ = -1;
  }
  /// For exponentials relative to `shift`: of_exponentials() then takes exp(x - shift).
  __device__ RowGradient(typename Op::State row, std::int64_t label, int cols, float shift)
      : RowGradient(row, label, cols) {
    if (!is_ignored_) factor_of_exponentials_ *= __expf(shift - max_);
  }

  /// `values` begin at column `col`.
  template <int N>
  __device__ void operator()(float (&values)[N], int col) const {
    if (is_usual_) {
#pragma unroll
      for (float& value : values) value = power_(value) * factor_ - everywhere_;
    } else {
#pragma unroll
      for (float& value : values) value = is_ignored_ ? 0 : __expf(value - max_) * factor_ - everywhere_;
    }
    subtract_at_label(values, col);
  }

  /// Turns exponentials, exp(x - m) or exp(x - shift), into gradients. In an ignored row they must be 0.
  /// by_branch is false if a warp has several rows. Note N24: a branch that only some of its lanes take is
  /// slower there than one comparison per element.
  template <bool by_branch = true, int N>
  __device__ void of_exponentials(float (&values)[N], int col) const {
    beside_label(values);
    subtract_at_label<by_branch>(values, col);
  }
  /// Does the same for columns other than the label; at_label() does it for the label.
  template <int N>
  __device__ void beside_label(float (&exponentials)[N]) const {
#pragma unroll
    for (float& value : exponentials) value = value * factor_of_exponentials_ - everywhere_;
  }
  __device__ float at_label(float exponential) const {
    return exponential * factor_of_exponentials_ - everywhere_ - (1 - Op::smoothing);
  }

 private:
  template <bool by_branch = true, int N>
  __device__ void subtract_at_label(float (&values)[N], int col) const {
    // One check for N elements: a comparison per element would cost as much as its exponential.
    if (by_branch && (label_ < col || label_ >= col + N)) return;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (label_ == col + i) values[i] -= 1 - Op::smoothing;
    }
  }

  float max_;
  PowersBelow power_;
  float factor_of_exponentials_;
  float factor_;
  float everywhere_;
  int label_;  ///< -1: the label is not a column
  bool is_ignored_;
  bool is_usual_;  ///< not ignored, and max_ is near
};

}  // namespace rowwise
