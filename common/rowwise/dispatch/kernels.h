// The kernels that the dispatch has, what they can do and what they need. Of the table it knows nothing: with a table learned anew,
// the kernels are not compiled again.
#pragma once

#include "common/kernel/limits.h"

namespace rowwise {

// Every kernel that the table names, once, with its idea in one line. Enumerators and lists are made of these, as in
//   #define PRINT(kernel, idea) std::puts(#kernel);
//   ROWWISE_FORWARD(PRINT)

#define ROWWISE_FORWARD(X)                                                                          \
  X(two_or_three_packs, "1 to 32 lanes per row, up to three packs each; reads stay in the L2")      \
  X(two_rows_evict_last, "1 to 32 lanes load two rows at once, a pack each; reads stay in the L2")  \
  X(padded_packs, "32 lanes per row, which is padded to the next tile")                             \
  X(fused, "a block per row, the row in its registers; reads stay in the L2")                       \
  X(online, "any row: one read for maximum and sum, another for the result")                        \
  X(row_exchange, "few rows in one kernel: blocks send each other their pairs")                     \
  X(head_and_tail, "any width: packs, and single elements before the first and after the last")     \
  X(flat_span, "narrow rows: many as one span, packs through shared memory")                        \
  X(row_in_flight, "wide rows: all requested at once, into shared memory")                          \
  X(cluster_2, "two blocks share a row and send each other their pairs")                            \
  X(cluster_4, "four blocks share a row")                                                           \
  X(cluster_16, "sixteen blocks share a row")                                                       \
  X(registers, "eight or sixteen blocks keep a row in registers; every warp sends its pair to all") \
  X(tickets, "clusters of sixteen blocks stay and draw rows")                                       \
  X(unaligned_cluster, "two to sixteen blocks share a row; any width at any place")
#define ROWWISE_BACKWARD(X)                                                                 \
  X(warp_registers, "1 to 32 lanes per row, both rows in their registers")                  \
  X(block_registers, "a block per row, both rows in its registers")                         \
  X(shared_memory, "both rows in shared memory, in the matrix's own type")                  \
  X(cluster, "2 to 16 blocks share both rows and send each other their sums")               \
  X(head_and_tail, "any width: packs and single elements in registers")                     \
  X(flat_span, "narrow rows of any width: many as one aligned span, through shared memory") \
  X(unaligned, "any width at any place: rows go through shared memory as packs")            \
  X(unaligned_cluster, "any width at any place: 2 to 16 blocks per row keep all of it")     \
  X(two_kernels, "few rows: a sum per part of a row; then add and write")                   \
  X(row_exchange, "few rows in one kernel: blocks send each other their sums")
#define ROWWISE_LOSS(X)                                                                             \
  X(narrow_rows, "1 to 32 lanes per row, which stays in registers")                                 \
  X(flat_span, "narrow rows that packs of 16 bytes do not cover: many as one span")                 \
  X(one_read, "a block per row, which is read once and kept nowhere")                               \
  X(drawn_rows, "blocks stay and draw rows: the next is under way while this one is merged")        \
  X(split_row, "few rows: many blocks share one, and leave a pair each")                            \
  X(cluster_loss, "few rows: the blocks of a cluster share one, and send their pairs to the first") \
  X(cluster_registers, "many rows, each by a cluster: a row is on its way to the registers all at once")
#define ROWWISE_GRADIENT(X)                                                         \
  X(narrow_rows, "1 to 32 lanes per row, which stays in registers")                 \
  X(flat_span, "narrow rows that packs of 16 bytes do not cover: many as one span") \
  X(in_registers, "the row stays in the registers of a block, or of a warp")        \
  X(unaligned_cluster, "any width at any place: a cluster for each row")            \
  X(kept_row, "the row stays in shared memory, as far as it fits, until it is written")

#define ROWWISE_ENUMERATOR(kernel, idea) kernel,
enum class Forward { ROWWISE_FORWARD(ROWWISE_ENUMERATOR) };
enum class Backward { ROWWISE_BACKWARD(ROWWISE_ENUMERATOR) };
enum class Loss { ROWWISE_LOSS(ROWWISE_ENUMERATOR) };
enum class Gradient { ROWWISE_GRADIENT(ROWWISE_ENUMERATOR) };
#undef ROWWISE_ENUMERATOR

// Why a kernel refuses the matrix on this GPU, if it does, and what it needs beside.
template <class Kernel>
Refusal refusal(Kernel kernel, const Matrix& matrix, const Gpu& gpu);
template <class Kernel>
Need need(Kernel kernel, const Matrix& matrix);

template <class Kernel>
bool can_do(Kernel kernel, const Matrix& matrix, const Gpu& gpu) {
  return !refusal(kernel, matrix, gpu);
}

}  // namespace rowwise
