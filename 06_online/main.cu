#include "06_online/online.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/direct_launch.cuh"

namespace {

constexpr RowCosts two_reductions{.barriers = 4, .bank_conflicts = 0};

/// How the pairs' two floats are read is up to ptxas: bank conflicts are not declared.
constexpr RowCosts one_merge{.barriers = 2, .bank_conflicts = {}};

template <Rescale rescale, Direction second_pass>
auto online() {
  return direct_launch(
      [](auto op, auto... arguments) { launch_online_softmax<op(), rescale, second_pass>(arguments...); });
}

template <Direction second_pass>
auto three_pass_tile() {
  return direct_launch([](auto op, auto load, auto store, Shape shape, cudaStream_t stream) {
    launch_uncached_softmax<op(), 1024, second_pass>(load, load, store, shape, stream);
  });
}

std::string why_not_fused(const Problem& problem) {
  if (problem.shape.cols <= max_fused_cols) return "";
  return "the row must fit the registers of a block: at most " + std::to_string(max_fused_cols) + " columns";
}

}  // namespace

Stage stage() {
  return {"06_online",
          "maximum and sum in one pass",
          {
              {"fused", "the row stays in the registers of a block",
               direct_launch(
                   [](auto op, auto... arguments) { launch_fused_register_softmax<op()>(arguments...); }),
               whole_passes(1, 1, one_merge), why_not_fused},
              {"three_pass_tile", "maximum, sum, result: stage 05's kernel",
               three_pass_tile<Direction::forward>(), whole_passes(3, 1, two_reductions)},
              {"three_pass_tile_reversed", "the same, the sum walks backwards",
               three_pass_tile<Direction::backward>(), whole_passes(3, 1, two_reductions)},
              {"online_per_element", "online, the sum rescaled for every element",
               online<Rescale::per_element, Direction::forward>(), whole_passes(2, 1, one_merge)},
              {"online", "online, the sum rescaled once per chunk",
               online<Rescale::per_chunk, Direction::forward>(), whole_passes(2, 1, one_merge)},
              {"online_reversed", "the same, the result walks backwards",
               online<Rescale::per_chunk, Direction::backward>(), whole_passes(2, 1, one_merge)},
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
