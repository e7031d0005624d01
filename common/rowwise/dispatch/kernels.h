// The kernels that the dispatch has, what they can do and what they need. Of the table it knows nothing: with a table learned anew,
// the kernels are not compiled again.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// A matrix, as far as it matters to who takes it.
struct Matrix {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t element_bytes;
  /// Bytes, at most 16: the largest power of two at whose multiples all matrices begin.
  std::int64_t alignment;
  bool lie_alike;  ///< all matrices begin equally far past a pack
  [[nodiscard]] constexpr std::int64_t row_bytes() const { return cols * element_bytes; }
  /// Every row of every matrix begins at a pack of so many bytes, 16 or fewer, and is made of them.
  [[nodiscard]] constexpr bool in_packs(std::int64_t pack_bytes = 16) const {
    return row_bytes() % pack_bytes == 0 && alignment % pack_bytes == 0;
  }
  /// No pack covers the rows, not even of two elements.
  [[nodiscard]] constexpr bool in_single_elements() const { return !in_packs(2 * element_bytes); }
  /// As in_packs, of smaller packs, of which a row has an odd number.
  [[nodiscard]] constexpr bool in_odd_packs() const {
    const std::int64_t pack = row_bytes() & -row_bytes();  // the largest power of two that divides them
    return row_bytes() % 16 != 0 && alignment % pack == 0;
  }
};

/// The current device, as far as it matters. Asked once in each thread, and again when another device is current.
struct Gpu {
  int device = -1;
  int multiprocessors = 0;
  std::int64_t shared_bytes = 0;   ///< the most that a block may ask for
  int most_blocks_of_cluster = 0;  ///< of blocks that fill an SM; 0: needs compute capability 9.0
};
/// Throws CudaError.
const Gpu& current_gpu();

struct Need {
  std::size_t bytes = 0;  ///< of workspace, which are 0 before
  bool left_zero = true;  ///< and after
  bool clusters = false;
};

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
