// The kernels of the dispatch, their refusals and their needs. This file does not depend on the table: a
// newly learned table does not recompile the kernels.
#pragma once

#include "common/kernel/limits.h"

namespace rowwise {

// Every kernel that the table names, once, with its idea in one line. Enumerators and lists are made of these, as in
//   #define PRINT(kernel, idea) std::puts(#kernel);
//   ROWWISE_FORWARD(PRINT)

#define ROWWISE_FORWARD(X)                                                                              \
  X(two_or_three_packs, "1 to 32 lanes per row, up to three packs each; reads stay in the L2")          \
  X(two_rows_evict_last, "1 to 32 lanes load two rows at once, one pack of each; reads stay in the L2") \
  X(padded_packs, "32 lanes per row, which is padded to the next tile")                                 \
  X(fused, "one block per row, the row in its registers; reads stay in the L2")                         \
  X(online, "any width: one read for maximum and sum, another for the result")                          \
  X(row_exchange, "few rows: one kernel, whose blocks send each other their pairs")                     \
  X(head_and_tail, "any width: packs, with single elements before the first and after the last")        \
  X(flat_span, "narrow rows: many form one span, copied in packs via shared memory")                    \
  X(row_in_flight, "wide rows: the whole row is requested at once, into shared memory")                 \
  X(cluster_2, "two blocks share a row and send each other their pairs")                                \
  X(cluster_4, "four blocks share a row")                                                               \
  X(cluster_16, "sixteen blocks share a row")                                                           \
  X(registers, "8 or 16 blocks hold a row in registers; warps send their pairs to all")                 \
  X(tickets, "persistent clusters of sixteen blocks draw their rows by ticket")                         \
  X(unaligned_cluster, "2 to 16 blocks share a row of any width at any address")
#define ROWWISE_BACKWARD(X)                                                             \
  X(warp_registers, "1 to 32 lanes per row, both rows in their registers")              \
  X(block_registers, "one block per row, both rows in its registers")                   \
  X(shared_memory, "both rows in shared memory, in the matrix's own type")              \
  X(cluster, "2 to 16 blocks share both rows and send each other their sums")           \
  X(head_and_tail, "any width: packs and single elements, in registers")                \
  X(flat_span, "narrow rows of any width: one aligned span of many, via shared memory") \
  X(unaligned, "any width, any address: rows go through shared memory in packs")        \
  X(unaligned_cluster, "any width, any address: 2 to 16 blocks keep the whole row")     \
  X(two_kernels, "few rows: one kernel sums parts of rows; another adds and writes")    \
  X(row_exchange, "few rows: one kernel, whose blocks send each other their sums")
#define ROWWISE_LOSS(X)                                                               \
  X(narrow_rows, "1 to 32 lanes per row keep it in registers")                        \
  X(flat_span, "many narrow rows that packs of 16 bytes do not cover, as one span")   \
  X(one_read, "one block per row reads it once and keeps none of it")                 \
  X(drawn_rows, "persistent blocks load the next row while they merge this one")      \
  X(split_row, "few rows: many blocks share a row, and leave a pair each")            \
  X(cluster_loss, "few rows: a cluster shares a row; its first block gets the pairs") \
  X(cluster_registers, "many rows: a cluster loads its whole row into registers at once")
#define ROWWISE_GRADIENT(X)                                                         \
  X(narrow_rows, "1 to 32 lanes per row keep it in registers")                      \
  X(flat_span, "many narrow rows that packs of 16 bytes do not cover, as one span") \
  X(in_registers, "the row stays in the registers of a block or a warp")            \
  X(unaligned_cluster, "any width, any address: one cluster per row")               \
  X(kept_row, "shared memory keeps the part of a row that fits until dx is written")

#define ROWWISE_ENUMERATOR(kernel, idea) kernel,
enum class Forward { ROWWISE_FORWARD(ROWWISE_ENUMERATOR) };
enum class Backward { ROWWISE_BACKWARD(ROWWISE_ENUMERATOR) };
enum class Loss { ROWWISE_LOSS(ROWWISE_ENUMERATOR) };
enum class Gradient { ROWWISE_GRADIENT(ROWWISE_ENUMERATOR) };
#undef ROWWISE_ENUMERATOR

// The reason why a kernel refuses the matrix on this GPU, if it does, and the memory that it needs besides
// the matrices.
template <class Kernel>
Refusal refusal(Kernel kernel, const Matrix& matrix, const Gpu& gpu);
template <class Kernel>
Need need(Kernel kernel, const Matrix& matrix);

template <class Kernel>
bool can_do(Kernel kernel, const Matrix& matrix, const Gpu& gpu) {
  return !refusal(kernel, matrix, gpu);
}

}  // namespace rowwise
