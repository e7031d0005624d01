// Stage 15: each row is split over several GPUs, by columns, because the last layer of a model was split. The
// pair (m, d) goes up its last level: each GPU reduces its part of a row to a pair, and the GPUs exchange
// pairs.
//
// This file has the data of a GPU and the message about a row. mailbox.cuh sends and receives messages, and
// device_exchange.cuh is the kernel that does so. In host_collectives.cuh and two_all_reduces.cuh, NCCL
// exchanges the data between kernels. All other files are code of the host.
//
// At a first reading, skip cross-entropy: the branches of is_loss, at_label() and write_loss(). It only adds
// one number, x[label], to each message.
//
// Cost: a few bytes per row between two GPUs, however wide the row is; in memory 4, 3 or 2 passes, see the
// variants.
// Sources: Megatron-LM's vocab-parallel cross-entropy makes two all-reduces, of maxima and of sums.
#pragma once

#include "12_cross_entropy/cross_entropy.cuh"
#include "common/kernel/load_store.cuh"

/// The columns of all rows that one GPU has, in its memory. They may be fewer than another GPU has, or none:
/// then the pair is that of no element, (-inf, 0), and changes nothing.
template <class T>
struct Part {
  const T* x = nullptr;                  ///< shape.rows x shape.cols
  T* y = nullptr;                        ///< shape.rows x shape.cols; not for the loss
  const std::int64_t* labels = nullptr;  ///< one column of the whole row per row; only for the loss
  float* loss = nullptr;                 ///< one per row; each GPU gets the losses of all rows
  Shape shape{};                         ///< all rows, and the columns of the part; cols may be 0
  std::int64_t first_col = 0;            ///< the first column of the part in the whole row
  std::int64_t row_cols = 0;             ///< the columns of the whole row

  [[nodiscard]] DirectLoad<T> load() const { return {x, shape.cols}; }
  [[nodiscard]] DirectStore<T> store() const { return {y, shape.cols}; }
  /// x[label] if the row's label is in columns `begin` to `end` of the part, otherwise 0: the sum over all
  /// parts is x[label].
  __device__ float at_label(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const std::int64_t col = labels[row] - first_col;
    return begin <= col && col < end ? static_cast<float>(x[row * shape.cols + col]) : 0;
  }
  /// pair: the pair of the whole row. x_label: the sum of at_label() over all parts. If the label is not a
  /// column of the row, the loss is NaN.
  __device__ void write_loss(std::int64_t row, MaxSum pair, float x_label) const {
    const std::int64_t label = labels[row];
    const float at_label = 0 <= label && label < row_cols ? x_label : NAN;
    loss[row] = loss_of_row(pair, at_label, label);
  }
};

template <class Op>
inline constexpr bool is_loss = false;
template <>
inline constexpr bool is_loss<CrossEntropy> = true;

/// The message of a GPU, or of one of its blocks, about its part of a row: for softmax, the pair.
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

/// The form in which kernels on different GPUs send each other a message: together with the number of the
/// launch, which counts from 1. A letter is written and read in one piece. So the number of the present
/// launch shows that the message has arrived, too: no flag is needed, and no fence between data and flag.
/// (NCCL's protocol LL sends a flag of 4 bytes with every 4 bytes of data. Here that would be words of 8
/// bytes, and was slower on two H200s.)
template <class Op>
struct alignas(16) Letter {
  Message<Op> message{};
  unsigned launch = 0;
};
static_assert(sizeof(Letter<Softmax>) == 16 && sizeof(Letter<CrossEntropy>) == 16,
              "PTX moves 16 bytes in one piece");
