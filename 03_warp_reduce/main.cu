#include "03_warp_reduce/warp_reduce.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/direct_launch.cuh"

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

std::string why_not_registers(const Problem& problem) {
  return at_most(problem, max_warp_reduce_cols, "the row must fit the registers of a warp");
}

std::string why_not_narrow(const Problem& problem) {
  return at_most(problem, 32 * elements_in_pack(problem), "one pack of 16 bytes for each of 32 lanes");
}

std::string why_not_exact(const Problem& problem) {
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
  return {"03_warp_reduce",
          "the row lives in registers, lanes exchange by shuffles",
          {
              {"scalar_loads", "32 lanes a row, one element per access",
               direct_launch([](auto op, auto... arguments) { launch_scalar_loads<op()>(arguments...); }),
               whole_passes(1, 1, warps_alone), why_not_registers},
              {"packs", "32 lanes a row, 16 bytes per access, the row fills every lane",
               direct_launch([](auto op, auto... arguments) { launch_packs<op(), false>(arguments...); }),
               whole_passes(1, 1, warps_alone), why_not_exact},
              {"padded_packs", "the same for any width: the row is padded to the next tile",
               direct_launch([](auto op, auto... arguments) { launch_packs<op(), true>(arguments...); }),
               whole_passes(1, 1, warps_alone), why_not_registers},
              {"narrow_groups", "1 to 32 lanes a row, one pack each: several rows a warp",
               direct_launch([](auto op, auto... arguments) { launch_narrow_groups<op(), 1>(arguments...); }),
               whole_passes(1, 1, warps_alone), why_not_narrow},
              {"two_rows_per_access", "narrow groups that load two rows at once",
               direct_launch([](auto op, auto... arguments) { launch_narrow_groups<op(), 2>(arguments...); }),
               whole_passes(1, 1, warps_alone), why_not_narrow},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
