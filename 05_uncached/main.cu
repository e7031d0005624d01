#include "05_uncached/uncached.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

constexpr RowCosts two_reductions{.barriers = 4, .bank_conflicts = 0};

}  // namespace

Stage stage() {
  return {
      .name = "05_uncached",
      .idea = "rows of any width are read again instead of kept",
      .variants = {
          variant<UncachedSoftmax<256, Direction::forward>>(
              "small_block", "256 threads per row: many rows in flight", whole_passes(3, 1, two_reductions)),
          variant<UncachedSoftmax<1024, Direction::forward>>(
              "large_block", "1024 threads per row: fewer rows in flight, more of them in the L2",
              whole_passes(3, 1, two_reductions)),
          variant<UncachedSoftmax<1024, Direction::backward>>(
              "reversed_second_pass", "1024 threads per row; the pass for the sum walks backwards",
              whole_passes(3, 1, two_reductions)),
          variant<CacheHints>("cache_hints",
                              "the sum walks backwards; the last read and the write are streaming",
                              whole_passes(3, 1, two_reductions)),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
