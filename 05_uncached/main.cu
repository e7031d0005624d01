#include "05_uncached/uncached.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

constexpr RowCosts two_reductions{.barriers = 4, .bank_conflicts = 0};

}  // namespace

Stage stage() {
  return {.name = "05_uncached",
          .idea = "rows of any width: read again instead of keeping",
          .variants = {
              {.name = "small_block",
               .idea = "256 threads a row: many rows in flight",
               .prepare = launches_load_store<UncachedSoftmax<256, Direction::forward>>,
               .traffic = whole_passes(3, 1, two_reductions)},
              {.name = "large_block",
               .idea = "1024 threads a row: fewer rows in flight, more of them in the L2",
               .prepare = launches_load_store<UncachedSoftmax<1024, Direction::forward>>,
               .traffic = whole_passes(3, 1, two_reductions)},
              {.name = "reversed_second_pass",
               .idea = "large block, the sum walks backwards",
               .prepare = launches_load_store<UncachedSoftmax<1024, Direction::backward>>,
               .traffic = whole_passes(3, 1, two_reductions)},
              {.name = "cache_hints",
               .idea = "the same, last read and write marked as streaming",
               .prepare = launches<CacheHints>,
               .traffic = whole_passes(3, 1, two_reductions)},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
