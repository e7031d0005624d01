#include "08_unaligned_rows/flat_span.cuh"
#include "08_unaligned_rows/head_and_tail.cuh"
#include "08_unaligned_rows/row_in_flight.cuh"
#include "08_unaligned_rows/shifted.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

const auto too_wide_for_registers =
    at_most_columns(most_cols_in_registers, "the row must fit the registers of a block");
const auto too_wide_for_an_index = at_most_columns(1 << 30, "a column must fit 32 bits");

std::string too_wide_for_a_span(const Problem& problem, const Device& device) {
  const std::int64_t most_cols = most_cols_of_span_in(device.shared_bytes_per_block, problem.element_bytes());
  return at_most_columns(most_cols, "32 rows must fit the registers of a block")(problem, device);
}

/// Reads the packs that a row's elements lie in, whole: where x begins at a pack.
Traffic shifted_passes(const Problem& problem) {
  Traffic traffic = whole_passes(1, 1)(problem);
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const std::int64_t pack = 16 / size;
  std::int64_t elements = 0;
  for (std::int64_t row = 0; row < min(rows, pack); ++row) {  // row + pack begins as far past a pack
    const std::int64_t past = row * cols % pack;
    elements += round_up(past + cols, pack) * ((rows - 1 - row) / pack + 1);
  }
  // A pack that reaches out of the tensor is read element by element by each row that has some of it.
  const std::int64_t cut_pack = rows * cols / pack * pack;
  for (std::int64_t row = cut_pack / cols; row < rows; ++row) {
    elements -= pack - ((row + 1) * cols - max(row * cols, cut_pack));
  }
  traffic.bytes_read = static_cast<double>(elements * size);
  return traffic;
}

/// Reads again what shared memory does not hold: of an H200, as stage 04 has it.
Traffic row_in_flight_passes(const Problem& problem) {
  Traffic traffic = whole_passes(1, 1)(problem);
  const auto [rows, cols] = problem.shape;
  const std::int64_t size = problem.element_bytes();
  const std::int64_t line = 128 / size;
  const std::int64_t most_kept = most_kept_packs(cols * size, 227 << 10) * 16 / size;
  for (std::int64_t row = 0; row < min(rows, line); ++row) {  // row + line begins as far past a line
    const std::int64_t head = (line - row * cols % line) % line;
    const std::int64_t again = max(cols - head - most_kept, std::int64_t{0});
    traffic.bytes_read += static_cast<double>(again * size * ((rows - 1 - row) / line + 1));
  }
  return traffic;
}

}  // namespace

Stage stage() {
  return {.name = "08_unaligned_rows",
          .idea = "widths that no pack divides",
          .changes = Number::load_sectors,
          .variants = {
              {.name = "scalar",
               .idea = "single elements, the row in registers",
               .prepare = launches<Scalar>,
               .traffic = whole_passes(1, 1),
               .unsupported = too_wide_for_registers},
              {.name = "head_and_tail",
               .idea = "packs, and single elements before the first and after the last",
               .prepare = launches<HeadAndTail>,
               .traffic = whole_passes(1, 1),
               .unsupported = too_wide_for_registers},
              {.name = "shifted",
               .idea = "packs that reach into the neighbouring rows, masked",
               .prepare = launches<Shifted>,
               .traffic = shifted_passes,
               .unsupported = too_wide_for_registers},
              {.name = "flat_span",
               .idea = "narrow rows: many as one span, packs through shared memory",
               .prepare = launches<FlatSpan>,
               .traffic = whole_passes(1, 1),
               .unsupported = too_wide_for_a_span},
              {.name = "row_in_flight",
               .idea = "wide rows: all requested at once, into shared memory",
               .prepare = launches<RowInFlight>,
               .traffic = row_in_flight_passes,
               .unsupported = too_wide_for_an_index},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
