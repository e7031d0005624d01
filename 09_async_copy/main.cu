#include "09_async_copy/bulk_copy.cuh"
#include "09_async_copy/landing.cuh"
#include "09_async_copy/own_packs.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// Rows of whole packs, `rows` of which fit a block's shared memory.
std::string does_not_fit(const Problem& problem, const Device& device, int rows, std::int64_t most_cols) {
  const std::string reason = not_whole_packs(problem);
  if (!reason.empty()) return reason;
  const auto shared_bytes = static_cast<std::int64_t>(device.shared_bytes_per_block) - most_static_bytes;
  const std::int64_t cols = shared_bytes / rows / 128 * 128 / problem.element_bytes();
  return at_most_columns(min(cols, most_cols), "a block's shared memory or registers must hold the row")(
      problem, device);
}

constexpr std::int64_t any_cols = std::int64_t{1} << 62;

std::string row_does_not_fit(const Problem& problem, const Device& device) {
  return does_not_fit(problem, device, 1, any_cols);
}

/// Of the variants that draw rows.
template <int rows, std::int64_t most_cols = any_cols>
std::string cannot_draw(const Problem& problem, const Device& device) {
  if (problem.shape.rows > most_rows_to_draw) return "rows are drawn by 32 bits: at most 2147483648 rows";
  return does_not_fit(problem, device, rows, most_cols);
}

std::string no_bulk_copy(const Problem& problem, const Device& device) {
  if (std::stoi(device.compute_capability) < 9) return "needs bulk copies (9.0)";
  return cannot_draw<ring_slots>(problem, device);
}

Workspace one_counter(const Problem& /*problem*/, const Device& /*device*/) {
  return {.bytes = sizeof(TicketCounter), .zeroed = true};
}

}  // namespace

Stage stage() {
  return {.name = "09_async_copy",
          .idea = "loads that take no registers and make nobody wait",
          .variants = {
              {.name = "own_packs",
               .idea = "the row in shared memory; each thread rereads what it copied itself",
               .prepare = launches<OwnPacks<>>,
               .traffic = whole_passes(1, 1, {.barriers = 2, .bank_conflicts = {}}),
               .unsupported = row_does_not_fit},
              {.name = "misaligned",
               .idea = "the same, the row 48 bytes past a line of shared memory",
               .prepare = launches<OwnPacks<48>>,
               .traffic = whole_passes(1, 1, {.barriers = 2, .bank_conflicts = {}}),
               .unsupported = row_does_not_fit},
              {.name = "refill",
               .idea = "blocks stay and draw rows; a pack written makes room for the next row's",
               .prepare = launches_with_workspace<Refill>,
               .traffic = whole_passes(1, 1, {.barriers = 1, .bank_conflicts = {}}),
               .unsupported = cannot_draw<1>,
               .workspace = one_counter},
              {.name = "landing",
               .idea = "this row in registers while the next one lands in shared memory",
               .prepare = launches_with_workspace<Landing>,
               .traffic = whole_passes(1, 1, {.barriers = 1, .bank_conflicts = {}}),
               .unsupported = cannot_draw<1, most_landing_cols>,
               .workspace = one_counter},
              {.name = "bulk_copy",
               .idea = "a row by one instruction of one thread, into a ring of three",
               .prepare = launches_with_workspace<BulkCopy>,
               .traffic = whole_passes(1, 1),
               .unsupported = no_bulk_copy,
               .workspace = one_counter},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
