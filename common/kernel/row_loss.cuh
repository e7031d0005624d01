// Stage 12: a kernel that is not run is the fastest. Cross-entropy is log-softmax, a pick of one column and a gradient; as one
// kernel it reads x once, and no probability is ever written.
//
// Cost: the loss alone 1 pass, 1 read; with the gradient 2, 1 read and 1 write. The pair (m, d) of a row says all that both
// need: loss = log(d) + (m - x[label]), dx = exp(x - m) / d, less 1 at the label. So the loss can stream a row and keep nothing
// (loss.cuh, split_loss.cuh, cluster_loss.cuh); for the gradient the row stays on the SM, in registers (in_registers.cuh,
// narrow_rows.cuh), in shared memory (kept_row.cuh, span_loss.cuh) or in that of a cluster (in_cluster.cuh, unaligned_cluster.cuh).
// Sources: quack's and Liger's cross-entropy; Wijmans et al., "Cut your losses", for what else need not be written.
#pragma once

#include "common/kernel/block_merge.cuh"
#include "common/kernel/constants.h"
#include "common/kernel/grid.cuh"
#include "common/kernel/pack.cuh"
#include "common/kernel/row_operation.cuh"
#include "common/kernel/running_pair.cuh"
#include "common/kernel/shape.h"
#include "common/kernel/tensors.h"

// ---- What is done to a row. State{} is that of no element; Own is what a thread makes its share of the row's state of. Of the
// values that are added to it, those that do not exist must be no_element. state(pair, below): of elements of which both are known.

struct AllExist {
  __device__ bool operator()(int /*value*/) const { return true; }
};

/// Of a row's sum, of which one term is 1. __logf takes 2 instructions, logf some 20, and on narrow rows they are time. But beside a
/// loss near 0 the error of __logf, up to 4e-7, would be large: there a series takes its place, with at most 1e-5 of the loss.
__device__ inline float log_of_sum(float sum) {
  const float rest = sum - 1;
  // As a multiply-add it would hold the third in a register, the 33rd of some kernels, and fewer blocks would fit an SM.
  const float series = rest - rest * rest * (0.5f - __fmul_rn(rest, 1.0f / 3));
  return rest < 0x1p-5f ? series : __logf(sum);
}

/// How far elements are below the largest of them, added up. Their own sum would lose the digits of the mean beside a large maximum,
/// as the logarithm would, and overflow sooner.
struct BelowMax {
  float sum = 0;
  float count = 0;

  /// Each is a number, or it is not there.
  template <int N, class Exists>
  __device__ void add(float max, const float (&values)[N], Exists exists) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sum += exists(i) ? safe_shift(max) - values[i] : 0;
      count += exists(i) ? 1 : 0;
    }
  }
  /// Below a larger one.
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
    /// Where it is known which of them is the largest.
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
  /// The loss of a row of so many columns, of which x_label is that of the label.
  static __device__ float loss(State row, float x_label, float /*cols*/) {
    // Not max + log(sum) - x_label: beside a large maximum the logarithm would lose its digits.
    return log_of_sum(row.sum) + (row.max - x_label);
  }
};

struct PairAndBelow {
  MaxSum pair{};
  BelowMax below{};
};
__device__ inline PairAndBelow shuffle_xor(PairAndBelow value, int mask) {
  return {{shuffle_xor(value.pair.max, mask), shuffle_xor(value.pair.sum, mask)},
          {shuffle_xor(value.below.sum, mask), shuffle_xor(value.below.count, mask)}};
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

/// The same in an operation that asks for the gradient, too.
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

/// What launchers of the loss alone have in common: any width up to 2^30 columns, at any place.
struct MakesLoss {
  using Operations = Losses;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) { return columns_fit_32_bits(matrix); }
};
/// The same with the gradient.
struct MakesLossAndGradient {
  using Operations = LossesWithGradient;
  static Refusal refuses(const Matrix& matrix, const Gpu& /*gpu*/) { return columns_fit_32_bits(matrix); }
};
/// The same for both: with the gradient or without it.
using LossesAndGradients = OpList<CrossEntropy, SmoothedCrossEntropy, WithGradient<CrossEntropy>,
                                  WithGradient<SmoothedCrossEntropy>>;

// ---- The end of a row.

/// An element of a row that is read early, and converted late: a conversion waits for the read. NaN where there is no such
/// column; then nothing is read.
template <class T>
class Element {
 public:
  __device__ Element(const T* row, std::int64_t col, std::int64_t cols) : exists_(0 <= col && col < cols) {
    element_.word = 0;  // said of the word, so that nvcc 13.0 does not read a zero from memory
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
  // Of an ignored row, too: on narrow rows a branch would take longer.
  const float loss = Op::loss(row, x_label, static_cast<float>(cols));
  return label == ignored_label ? 0 : loss;
}

/// Elements of a row become their gradients.
template <class Op>
class RowGradient {
 public:
  __device__ RowGradient(typename Op::State row, std::int64_t label, int cols)
      : max_(Op::pair(row).max),
        power_(max_),
        factor_of_exponentials_(Softmax::sum_term(Op::pair(row).sum)),
        // Rounded as IEEE 754 asks for: with the other, nvcc 13.0 gives cluster_gradient 44 registers instead of the 50 it was timed with.
        factor_(1 / Op::pair(row).sum),
        everywhere_(Op::smoothing == 0 ? 0 : Op::smoothing / static_cast<float>(cols)),
        label_(static_cast<int>(label)),
        is_ignored_(label == ignored_label),
        is_usual_(!is_ignored_ && PowersBelow::is_near(max_)) {
    if (is_usual_) factor_ *= power_.correction(max_);
    if (0 <= label && label < cols) return;
    // Not in everywhere_: where labels are not smoothed that is a constant, and to keep it one saves the clusters 12 registers.
    factor_ = NAN;
    factor_of_exponentials_ = is_ignored_ ? 0 : NAN;
    if (Op::smoothing > 0 && is_ignored_) everywhere_ = 0;
    label_ = -1;
  }
  /// of_exponentials: of those below `shift`.
  __device__ RowGradient(typename Op::State row, std::int64_t label, int cols, float shift)
      : RowGradient(row, label, cols) {
    if (!is_ignored_) factor_of_exponentials_ *= __expf(shift - max_);
  }

  /// `values` begin at column col.
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

  /// Of their exponentials, exp(x - m), or exp(x - shift). Those of an ignored row must be 0. by_branch: false where a warp has
  /// several rows; a branch that some of its lanes take is slower there than a comparison for each element.
  template <bool by_branch = true, int N>
  __device__ void of_exponentials(float (&values)[N], int col) const {
    beside_label(values);
    subtract_at_label<by_branch>(values, col);
  }
  /// The same of columns beside the label, and at it.
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
    // Once for N elements. A compare for each would be as much work as its exponential.
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
  int label_;  ///< -1: no column
  bool is_ignored_;
  bool is_usual_;  ///< neither ignored nor far
};
