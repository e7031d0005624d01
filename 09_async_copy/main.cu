#include "09_async_copy/bulk_copy.cuh"
#include "09_async_copy/own_packs.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

Stage stage() {
  return {
      .name = "09_async_copy",
      .idea = "loads that need no registers",
      .variants = {
          variant<OwnPacks<>>("own_packs", "the row in shared memory; each thread rereads its own copies",
                              whole_passes(1, 1, {.barriers = 1, .bank_conflicts = {}})),
          variant<OwnPacks<48>>("misaligned", "own_packs with the row 48 bytes past a line of shared memory",
                                whole_passes(1, 1, {.barriers = 1, .bank_conflicts = {}})),
          variant<TwoRows>("two_rows", "persistent blocks: the next row is copied while one is in work",
                           whole_passes(1, 1, {.barriers = 2, .bank_conflicts = {}})),
          variant<BulkCopy>("bulk_copy", "one instruction of one thread copies a row",
                            whole_passes(1, 1, {.barriers = 2, .bank_conflicts = {}})),
      }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
