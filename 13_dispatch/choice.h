// Who does what. The table is in choices.inc, written by `python3 common/tools choices` from what was recorded; here is how it is
// read, on the host, before every launch.
//
// Source: the segments of OneFlow's softmax, which were guessed for one GPU: up to 1024 columns a warp, then shared memory where
// it suffices, then neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace rowwise {

// The kernels that the table names: variants of stages 03 to 12, under their names there.

enum class Forward {
  two_packs_two_rows,
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
enum class Loss { narrow_rows, flat_span, one_read, drawn_rows, split_row, cluster_loss };
enum class Gradient { narrow_rows, flat_span, in_registers, cluster, unaligned_cluster, kept_row };

/// A matrix, as far as it matters to who takes it.
struct Matrix {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t element_bytes;
  /// Bytes, at most 16: the largest power of two at whose multiples all matrices begin.
  std::int64_t alignment;
  bool lie_alike;  ///< all matrices begin equally far past a pack
  [[nodiscard]] constexpr std::int64_t row_bytes() const { return cols * element_bytes; }
  /// Every row of every matrix begins at a pack of 16 bytes and is made of them.
  [[nodiscard]] constexpr bool in_packs() const { return row_bytes() % 16 == 0 && alignment == 16; }
  /// The same of smaller packs, of which a row has an odd number.
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

/// A line of the table: up to so many rows and columns.
template <class Kernel>
struct Choice {
  std::int64_t most_rows;
  std::int64_t most_cols;
  Kernel kernel;
};
inline constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();

#include "13_dispatch/choices.inc"

/// Bytes that a launch needs. They are 0 before; `left_zero`: and after.
struct Need {
  std::size_t bytes = 0;
  bool left_zero = true;
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

/// The lines for such a matrix.
template <class Kernel>
std::span<const Choice<Kernel>> choices_for(const Matrix& matrix);

/// The kernel of the first line that holds the matrix, which can do it with so much workspace. The last line's can do anything
/// that the operation is defined for.
template <class Kernel>
Kernel choose(const Matrix& matrix, const Gpu& gpu, std::size_t workspace_bytes) {
  const double rows = static_cast<double>(matrix.rows) * recorded_multiprocessors / gpu.multiprocessors;
  const auto lines = choices_for<Kernel>(matrix);
  for (const Choice<Kernel>& line : lines) {
    if (rows <= static_cast<double>(line.most_rows) && matrix.cols <= line.most_cols &&
        can_do(line.kernel, matrix, gpu) && need(line.kernel, matrix).bytes <= workspace_bytes) {
      return line.kernel;
    }
  }
  return lines.back().kernel;
}

}  // namespace rowwise
