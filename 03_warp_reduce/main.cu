#include "03_warp_reduce/warp_reduce.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

/// No shared memory, and nobody to wait for.
constexpr RowCosts warps_alone{.barriers = 0, .bank_conflicts = 0};

const auto too_wide_for_a_warp =
    at_most_columns(max_warp_reduce_cols, "the row must fit the registers of a warp");

int elements_in_pack(const Problem& problem) {
  return static_cast<int>(16 / problem.element_bytes());
}

/// For Variant::unsupported of what gives each lane of a warp so many packs at most.
auto too_wide_for(int packs, const std::string& name) {
  return [packs, name](const Problem& problem, const Device& device) {
    const int most = packs * 32 * elements_in_pack(problem);
    return at_most_columns(most, name + " of 16 bytes for each of 32 lanes")(problem, device);
  };
}
const auto too_wide_for_one_pack = too_wide_for(1, "one pack");
const auto too_wide_for_two_packs = too_wide_for(2, "two packs");
const auto too_wide_for_three_packs = too_wide_for(3, "three packs");

std::string lanes_not_full(const Problem& problem, const Device& /*device*/) {
  const int pack_size = elements_in_pack(problem);
  const auto packs = packs_per_lane(pack_size);
  for (const int full : packs) {
    if (problem.shape.cols == 32 * pack_size * full) return "";
  }
  const auto text = [](int number) { return std::to_string(number); };
  return "every lane must be full: 32 lanes times " + text(packs[0]) + ", " + text(packs[1]) + ", " +
         text(packs[2]) + " or " + text(packs[3]) + " packs of " + text(pack_size) +
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
               .prepare = launches_load_store<NarrowGroups<1, 1>>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = too_wide_for_one_pack},
              {.name = "two_packs_per_lane",
               .idea = "narrow groups of half as many lanes, two packs each",
               .prepare = launches_load_store<NarrowGroups<2, 1>>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = too_wide_for_two_packs},
              {.name = "two_rows_per_access",
               .idea = "narrow groups that load two rows at once",
               .prepare = launches_load_store<NarrowGroups<1, 2>>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = too_wide_for_one_pack},
              {.name = "two_rows_evict_last",
               .idea = "the same, what is read stays in the L2 longer than what is written",
               .prepare = launches_load_store<NarrowGroups<1, 2>, EvictLastLoad>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = too_wide_for_one_pack},
              {.name = "two_packs_two_rows",
               .idea = "both: two packs of each of two rows",
               .prepare = launches_load_store<NarrowGroups<2, 2>>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = too_wide_for_two_packs},
              {.name = "two_or_three_packs",
               .idea = "also three packs of each, so that fewer lanes have none; evict_last",
               .prepare = launches_load_store<TwoOrThreePacks, EvictLastLoad>,
               .traffic = whole_passes(1, 1, warps_alone),
               .unsupported = too_wide_for_three_packs},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
