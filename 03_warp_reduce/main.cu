#include "03_warp_reduce/warp_reduce.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// No shared memory, and nobody to wait for.
constexpr RowCosts warps_alone{.barriers = 0, .bank_conflicts = 0};

std::int64_t elements_in_pack(const Problem& problem) {
  return 16 / static_cast<std::int64_t>(size_of(problem.dtype));
}

std::string at_most(const Problem& problem, std::int64_t cols, const char* reason) {
  return problem.shape.cols <= cols ? ""
                                    : std::string(reason) + ": at most " + std::to_string(cols) + " columns";
}

std::string too_wide_for_a_warp(const Problem& problem, const Machine& /*machine*/) {
  return at_most(problem, max_warp_reduce_cols, "the row must fit the registers of a warp");
}

std::string too_wide_for_packs(const Problem& problem, const Machine& /*machine*/) {
  return at_most(problem, 32 * elements_in_pack(problem), "one pack of 16 bytes for each of 32 lanes");
}

std::string lanes_not_full(const Problem& problem, const Machine& /*machine*/) {
  const std::int64_t packs = problem.shape.cols / (32 * elements_in_pack(problem));
  const bool fills_lanes = problem.shape.cols % (32 * elements_in_pack(problem)) == 0;
  const bool has_tile =
      packs == 1 || packs == 2 || packs == 4 || packs == (problem.dtype == DType::f32 ? 8 : 3);
  if (fills_lanes && has_tile) return "";
  return "every lane must be full: 32 lanes times " +
         std::string(problem.dtype == DType::f32 ? "1, 2, 4 or 8 packs of 4" : "1, 2, 3 or 4 packs of 8") +
         " columns; padded_packs takes any";
}

}  // namespace

Stage stage() {
  return {.name = "03_warp_reduce",
          .idea = "the row lives in registers, lanes exchange by shuffles",
          .variants = {
              {.name = "scalar_loads",
               .idea = "32 lanes a row, one element per access",
               .prepare = launches_load_store<ScalarLoads>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = too_wide_for_a_warp},
              {.name = "packs",
               .idea = "32 lanes a row, 16 bytes per access, the row fills every lane",
               .prepare = launches_load_store<Packs<false>>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = lanes_not_full},
              {.name = "padded_packs",
               .idea = "the same for any width: the row is padded to the next tile",
               .prepare = launches_load_store<Packs<true>>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = too_wide_for_a_warp},
              {.name = "narrow_groups",
               .idea = "1 to 32 lanes a row, one pack each: several rows a warp",
               .prepare = launches_load_store<NarrowGroups<1>>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = too_wide_for_packs},
              {.name = "two_rows_per_access",
               .idea = "narrow groups that load two rows at once",
               .prepare = launches_load_store<NarrowGroups<2>>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = too_wide_for_packs},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
