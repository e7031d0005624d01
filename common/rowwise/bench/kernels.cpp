#include "common/rowwise/bench/kernels.h"

#include <array>
#include <cstdio>
#include <type_traits>

namespace rowwise {

namespace {

/// Rows that begin at multiples of 16 bytes and are made of packs of pack_bytes. If packs are smaller than 16 bytes, a row has an
/// odd number of them.
struct Rows {
  int element_bytes;
  int pack_bytes;

  [[nodiscard]] Matrix matrix(std::int64_t cols) const {
    return {.rows = 1, .cols = cols, .element_bytes = element_bytes, .alignment = 16, .lie_alike = true};
  }
  /// The largest number of columns, at most `cols`, that makes such a row.
  [[nodiscard]] std::int64_t cols_up_to(std::int64_t cols) const {
    std::int64_t packs = cols * element_bytes / pack_bytes;
    if (pack_bytes < 16 && packs % 2 == 0) --packs;
    return packs * pack_bytes / element_bytes;
  }
};
constexpr std::array<Rows, 7> all_rows{{{4, 16}, {4, 8}, {4, 4}, {2, 16}, {2, 8}, {2, 4}, {2, 2}}};

/// A label is a column of 32 bits; the other operations take as many columns as memory holds.
template <class Kernel>
constexpr std::int64_t most_cols_of_operation =
    std::is_same_v<Kernel, Loss> || std::is_same_v<Kernel, Gradient> ? most_cols_of_index
                                                                     : std::int64_t{1} << 40;

/// The most columns of such rows that the kernel takes: "0" if it takes none, "any" if it takes as many as the operation.
template <class Kernel>
std::string most_cols(Kernel kernel, const Rows& rows) {
  const auto refuses = [&](std::int64_t cols) { return refusal(kernel, rows.matrix(cols), current_gpu()); };
  const Refusal of_widest = refuses(rows.cols_up_to(most_cols_of_operation<Kernel>));
  if (!of_widest) return "any";
  if (of_widest.why < Why::columns) return "0";
  const std::int64_t most = rows.cols_up_to(of_widest.number);
  return std::to_string(most > 0 && !refuses(most) ? most : 0);
}

}  // namespace

void print_kernels() {
  std::string line = "kind,kernel,workspace,clusters";
  for (const Rows& rows : all_rows) {
    line += ",elements of " + std::to_string(rows.element_bytes) + " in packs of " +
            std::to_string(rows.pack_bytes);
  }
  std::puts(line.c_str());
  for_each_kernel([&](auto kernel, const std::string& kind, const std::string& name, const char* /*idea*/) {
    const Need needed = need(kernel, all_rows[0].matrix(1 << 20));
    line = kind + "," + name + (needed.workspace_bytes > 0 ? ",yes" : ",no") +
           (needed.clusters ? ",yes" : ",no");
    for (const Rows& rows : all_rows) line.append(",").append(most_cols(kernel, rows));
    std::puts(line.c_str());
  });
}

}  // namespace rowwise
