#include "15_several_gpus/variants.h"
#include "common/harness/cli/run_stage.h"

Stage stage() {
  const auto gpus = std::make_shared<AllGpus>();
  return {.name = "15_several_gpus",
          .idea = "the columns of each row are split over several GPUs",
          .variants = split_variants(gpus),
          .operations = split_operations(),
          .on_all_gpus = true,
          .why_failed = [gpus] { return gpus->why(); }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
