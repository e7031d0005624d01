// A launcher's declarations before a launch: the matrices that it refuses, and the memory that it needs
// besides them. The harness, the tests and the dispatch read it here, so each limit is written once, in the
// launcher:
//   static Refusal refuses(const Matrix&, const Gpu&)    if it is missing, every matrix is accepted
//   static Need needs(const Matrix&)                     if it is missing, nothing is needed
// refuses() may be a template of the operation. common/harness/refusal.cpp puts a refusal into words, so that
// kernels need no strings.
#pragma once

#include <cuda/std/cstddef>
#include <cuda/std/cstdint>

#include "common/kernel/shape.h"

/// The matrices of an operation, as far as launchers need to know them. All have the same shape and type.
struct Matrix {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t element_bytes;
  /// Bytes, at most 16: the largest power of two at whose multiples all matrices begin.
  std::int64_t alignment;
  bool lie_alike;  ///< all matrices have the same offset from a multiple of 16 bytes

  [[nodiscard]] constexpr Shape shape() const { return {rows, cols}; }
  [[nodiscard]] constexpr std::int64_t row_bytes() const { return cols * element_bytes; }
  /// Every row of every matrix begins at a multiple of pack_bytes, 16 or fewer, and is made of such packs.
  [[nodiscard]] constexpr bool in_packs(std::int64_t pack_bytes = 16) const {
    return row_bytes() % pack_bytes == 0 && alignment % pack_bytes == 0;
  }
  /// No pack covers the rows, not even a pack of two elements.
  [[nodiscard]] constexpr bool in_single_elements() const { return !in_packs(2 * element_bytes); }
  /// The largest power of two that divides the bytes of a row.
  [[nodiscard]] constexpr std::int64_t odd_pack_bytes() const { return row_bytes() & -row_bytes(); }
  /// As in_packs, with packs of at most 8 bytes, and an odd number of them per row.
  [[nodiscard]] constexpr bool in_odd_packs() const {
    return row_bytes() % 16 != 0 && alignment % odd_pack_bytes() == 0;
  }
};

/// The most shared memory that a kernel may declare statically if it also requests some at its launch.
/// Alignment uses up a part of it.
inline constexpr std::int64_t most_static_bytes = 1024;
/// The largest cluster on any GPU. More than 8 blocks are not portable.
inline constexpr int most_blocks_of_cluster = 16;

/// The current device, as far as launchers need to know it.
struct Gpu {
  int device = -1;
  int compute_capability = 0;  ///< its major number
  int multiprocessors = 0;
  std::int64_t shared_bytes = 0;  ///< the most that a block may have
  int largest_cluster = 0;        ///< blocks of a cluster, if each fills a multiprocessor; 0: no clusters
  /// The most that a block may request at its launch.
  [[nodiscard]] constexpr std::int64_t dynamic_bytes() const { return shared_bytes - most_static_bytes; }
};
/// Queried once per thread, and again if another device is current. Throws CudaError.
const Gpu& current_gpu();

/// Why a launcher refuses a matrix. `number` below is Refusal::number.
enum class Why {
  none,
  whole_packs,      ///< rows are not packs of `number` bytes
  odd_packs,        ///< rows are not an odd number of packs of at most 8 bytes
  other_places,     ///< the matrices have different offsets from a multiple of 16 bytes
  too_few_columns,  ///< fewer than `number`: a warp of some block would have an idle lane
  tickets,          ///< more than `number` rows: tickets have 32 bits
  row_index,        ///< more than `number` rows: the index of a row has 32 bits
  grid,             ///< more than `number` rows: a grid has no more blocks
  clusters,         ///< the GPU has no clusters
  bulk_copies,      ///< the GPU has no bulk copies
  cluster_size,     ///< the GPU holds no cluster of `number` blocks
  // From here on, a row has more than `number` columns, because of the following limit.
  columns,
  threads_of_block = columns,
  one_pack_of_lanes,
  three_packs_of_lanes,
  registers_of_warp,
  registers_of_warp_for_two,
  registers_of_block,
  registers_of_block_for_two,
  registers_of_block_for_32,
  threads_of_block_for_32,
  registers_of_8_blocks,
  registers_of_16_blocks,
  registers_of_gpu,
  registers_of_gpu_for_two,
  shared_memory_as_float,
  shared_memory,
  shared_memory_for_two,
  shared_memory_of_cluster,
  shared_memory_of_cluster_for_two,
  blocks_of_cluster,
  index
};

struct Refusal {
  Why why = Why::none;
  std::int64_t number = 0;
  constexpr explicit operator bool() const { return why != Why::none; }
};

/// The needs of a launch besides the matrices.
struct Need {
  std::size_t workspace_bytes = 0;
  bool zeroed = false;  ///< the workspace is 0 before a launch, and each launch leaves it 0
  bool clusters = false;
};

constexpr Refusal at_most_columns(std::int64_t most, const Matrix& matrix, Why why) {
  return matrix.cols <= most ? Refusal{} : Refusal{why, most};
}
constexpr Refusal at_most_rows(std::int64_t most, const Matrix& matrix, Why why) {
  return matrix.rows <= most ? Refusal{} : Refusal{why, most};
}
constexpr Refusal in_whole_packs(const Matrix& matrix, std::int64_t pack_bytes = 16) {
  return matrix.in_packs(pack_bytes) ? Refusal{} : Refusal{Why::whole_packs, pack_bytes};
}
inline constexpr std::int64_t most_cols_of_index = 1 << 30;
constexpr Refusal columns_fit_32_bits(const Matrix& matrix) {
  return at_most_columns(most_cols_of_index, matrix, Why::index);
}

/// The launcher's refuses(), or no refusal if it has none.
template <class Launcher, class Op>
Refusal refusal_of(const Matrix& matrix, const Gpu& gpu) {
  if constexpr (requires { Launcher::template refuses<Op>(matrix, gpu); }) {
    return Launcher::template refuses<Op>(matrix, gpu);
  } else if constexpr (requires { Launcher::refuses(matrix, gpu); }) {
    return Launcher::refuses(matrix, gpu);
  } else {
    return {};
  }
}
template <class Launcher>
Need need_of(const Matrix& matrix) {
  if constexpr (requires { Launcher::needs(matrix); }) {
    return Launcher::needs(matrix);
  } else {
    return {};
  }
}
