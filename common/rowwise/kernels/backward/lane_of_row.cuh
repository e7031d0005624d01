// From the stages backward and cross_entropy: a lane's share of a row that fits in the registers of a warp.
// It has packs and, if these do not cover the row, single elements.
#pragma once

#include "common/rowwise/kernels/forward/cut.cuh"
#include "common/rowwise/kernels/forward/warp_reduce.cuh"

namespace rowwise {

/// As few lanes as hold a row share it, as in forward/warp_reduce.cuh. Lanes past the last row have nothing,
/// but take part in shuffles. is_cut: the packs begin at a boundary in the row, and the lanes also have the
/// single elements before and after them.
template <RowTile tile, bool is_cut>
class LaneOfRow {
 public:
  static constexpr int N = tile.pack_size;
  static constexpr int most_singles = is_cut ? divide_up(2 * (N - 1), tile.group_width) : 0;
  static constexpr int room_for_singles = is_cut ? most_singles : 1;  // the length of an array

  /// Rows that are cut have the same offset from a pack in all matrices.
  template <class T>
  __device__ LaneOfRow(const T* matrix, std::int64_t rows, int cols)
      : row_(row_of_thread()), has_row_(row_ < rows), cols_(cols), end_of_packs_(cols) {
    if (is_cut) {
      const Cut<N> cut(matrix + first(), cols);
      first_of_packs_ = cut.head;
      end_of_packs_ = cols - cut.tail;
    }
  }

  static __device__ std::int64_t row_of_thread() {
    return item_of_block() * tile.rows_per_block() + threadIdx.x / tile.group_width;
  }
  __device__ std::int64_t row() const { return row_; }
  /// The index of the row's first element. Note N5: with an unsigned number of columns, nvcc needs fewer
  /// instructions.
  __device__ std::int64_t first() const { return row_ * static_cast<unsigned>(cols_); }
  __device__ bool has_row() const { return has_row_; }
  __device__ bool is_first() const { return has_row_ && lane() == 0; }
  __device__ bool exists(int pack) const { return has_row_ && col(pack) < end_of_packs_; }
  __device__ int col(int pack) const {
    return (is_cut ? first_of_packs_ : 0) + (pack * tile.group_width + lane()) * N;
  }
  __device__ bool has_single(int i) const { return has_row_ && col_of_single(i) < cols_; }
  __device__ int col_of_single(int i) const {
    const int single = i * tile.group_width + lane();
    return single < first_of_packs_ ? single : single - first_of_packs_ + end_of_packs_;
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x % tile.group_width); }

  std::int64_t row_;
  bool has_row_;
  int cols_;
  int first_of_packs_ = 0;
  int end_of_packs_;
};

}  // namespace rowwise
