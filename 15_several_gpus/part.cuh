// Stage 15: the columns of a row lie on several GPUs, as tensor-parallel models leave their logits. The pair (m, d) goes up its
// last level: each GPU reduces its part of a row to a pair, and the GPUs exchange pairs.
//
// Cost: between the GPUs 8 bytes per row and GPU, however wide the row is; in memory 4, 3 or 2 passes, see
// the variants: two_all_reduces.cuh, gathered_pairs.cuh (host_collectives, chunked), device_exchange.cuh.
// Sources: Megatron-LM's vocab-parallel cross-entropy makes two all-reduces, of maxima and of sums.
#pragma once

#include "common/kernel/load_store.cuh"
#include "common/kernel/row_loss.cuh"

/// A GPU's part of the problem, in its device memory.
template <class T>
struct Part {
  const T* x = nullptr;                  ///< shape.rows x shape.cols
  T* y = nullptr;                        ///< likewise; not for the loss
  const std::int64_t* labels = nullptr;  ///< shape.rows, columns of whole rows; for the loss alone
  float* loss = nullptr;                 ///< shape.rows; each GPU gets all
  Shape shape{};                         ///< of the part; cols may be 0
  std::int64_t first_col = 0;            ///< in the whole row
  std::int64_t row_cols = 0;             ///< of the whole row

  [[nodiscard]] DirectLoad<T> load() const { return {x, shape.cols}; }
  [[nodiscard]] DirectStore<T> store() const { return {y, shape.cols}; }
  /// x[label] if the row's label is in columns `begin` to `end` of the part, otherwise 0: the sum over all
  /// parts is x[label].
  __device__ float at_label(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const std::int64_t col = labels[row] - first_col;
    return begin <= col && col < end ? static_cast<float>(x[row * shape.cols + col]) : 0;
  }
  /// x_label: the sum of at_label() over all parts.
  __device__ void write_loss(std::int64_t row, MaxSum pair, float x_label) const {
    const std::int64_t label = labels[row];
    const float at_label = 0 <= label && label < row_cols ? x_label : NAN;
    loss[row] = loss_of_row<CrossEntropy>(pair, at_label, label, row_cols);
  }
};

template <class Op>
inline constexpr bool is_loss = false;
template <>
inline constexpr bool is_loss<CrossEntropy> = true;

/// The message of a GPU, or of a block, about its part of a row: for softmax the pair.
template <class Op>
struct Message {
  MaxSum pair{};
};
/// For the loss, the message also has x[label], or 0 if the label is in another part.
template <>
struct Message<CrossEntropy> {
  MaxSum pair{};
  float x_label = 0;
};

/// A rank's message about a row, with the number of its launch. It is written and read in one piece, so the number of
/// this launch shows that the data has arrived: no flag is needed, and no fence between data and flag. (NCCL's protocol
/// LL sends a flag of 4 bytes with every 4 bytes of data. Doing that here, in words of 8 bytes, was slower on two H200s.)
template <class Op>
struct alignas(16) Letter {
  Message<Op> message{};
  unsigned launch = 0;
};
static_assert(sizeof(Letter<Softmax>) == 16 && sizeof(Letter<CrossEntropy>) == 16,
              "PTX moves 16 bytes in one piece");
