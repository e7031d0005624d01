// The kernels that the dispatch has, what they can do and what they need. Of the table it knows nothing: with a table learned anew,
// the kernels are not compiled again.
#pragma once

#include "common/kernel/limits.h"

namespace rowwise {

// The kernels that the table names: variants of stages 03 to 12, under their names there.

enum class Forward {
  two_or_three_packs,
  two_rows_evict_last,
  padded_packs,
  fused,
  online,
  row_exchange,
  head_and_tail,
  flat_span,
  row_in_flight,
  cluster_2,
  cluster_4,
  cluster_16,
  registers,
  tickets,
  unaligned_cluster
};
enum class Backward {
  warp_registers,
  block_registers,
  shared_memory,
  cluster,
  head_and_tail,
  flat_span,
  unaligned,
  unaligned_cluster,
  two_kernels,
  row_exchange
};
enum class Loss { narrow_rows, flat_span, one_read, drawn_rows, split_row, cluster_loss, cluster_registers };
enum class Gradient { narrow_rows, flat_span, in_registers, unaligned_cluster, kept_row };

// Of each kernel: whether it can do the matrix on this GPU, and what it needs beside.
bool can_do(Forward kernel, const Matrix& matrix, const Gpu& gpu);
bool can_do(Backward kernel, const Matrix& matrix, const Gpu& gpu);
bool can_do(Loss kernel, const Matrix& matrix, const Gpu& gpu);
bool can_do(Gradient kernel, const Matrix& matrix, const Gpu& gpu);
Need need(Forward kernel, const Matrix& matrix);
Need need(Backward kernel, const Matrix& matrix);
Need need(Loss kernel, const Matrix& matrix);
Need need(Gradient kernel, const Matrix& matrix);

}  // namespace rowwise
