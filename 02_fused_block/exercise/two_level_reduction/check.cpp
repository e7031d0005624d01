// Exercise 02.2: a block reduces in two levels.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "two_level_softmax";
  exercise.shapes = {{3, 1000}, {2, 7}, {2, 112}, {4, 4096}};
  exercise.inputs = {InputKind::normal, InputKind::very_negative, InputKind::neg_inf_prefix};
  exercise.counted = {{4, 4096}};
  exercise.instructions = 80;
  exercise.rules = {
      {Counter::read_passes, 3, 3.1,
       "The block reads its row for the maximum, for the sum and for the result."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::barriers, 2, 6,
       "Two barriers are enough for each of the two reductions, whatever the block size: one before the "
       "warps' results are "
       "read, and one before all read what was made of them.",
       "The warps must wait for each other at least once in each of the two reductions."},
  };
  exercise.more_rules = [](const Counts& counts) {
    const int warps = static_cast<int>(counts.block_size + 31) / 32;
    const std::string of_warps =
        "Each of the two reductions has " + std::to_string(warps) + " warps with 5 shuffles, ";
    // If all threads combine the warps' results, no thread waits for a second level, and it needs no shuffles.
    const bool has_second_level = counts[Counter::barriers] >= 4;
    return std::vector<Rule>{{Counter::shared_accesses, 4, 2.0 * warps * (warps + 1),
                              "Only the warps' results go through shared memory, " + std::to_string(warps) +
                                  " of them, and the one final result."},
                             {Counter::shuffles, 10.0 * warps + (has_second_level ? 2 : 0), 22.0 * warps,
                              of_warps + "and then one warp, or each, with 5 or 6 more that reduces their "
                                         "results. Do lanes ask each other "
                                         "one by one?",
                              of_warps + "and then one warp with shuffles that reduce their results. Is one "
                                         "thread adding them up one by one, "
                                         "while all others wait?"}};
  };
  exercise.task =
      "fill the gap in `block_all_reduce`: each warp reduces its lanes, then one warp reduces their results.";
  exercise.why =
      "Lanes of a warp exchange registers and need no barrier, so only the step from warp to block pays for "
      "one. The number "
      "of barriers no longer grows with the block, and a half-empty last warp is no problem.";
  exercise.remark = [](const Counts& counts) -> std::string {
    const int warps = static_cast<int>(counts.block_size + 31) / 32;
    const int shuffles = 10 * warps + 10;
    if (counts[Counter::shuffles] <= shuffles + 2) return "";  // one more to hand the result on
    return "One thing could be less: " + number(counts[Counter::shuffles]) + " shuffles per row, where " +
           std::to_string(shuffles) +
           " do if one warp alone reduces the warps' results. Where every warp does, each has the result "
           "itself, which " +
           (counts[Counter::barriers] >= 4
                ? std::string("can save the second barrier; here it is still there.")
                : std::string("saved the second barrier here: shuffles for a barrier, a fair exchange."));
  };
  exercise.before = "the tree of 02.1";
  exercise.compared = {Counter::barriers, Counter::shuffles, Counter::shared_accesses, Counter::read_passes};
  return check_exercise(exercise, argc, argv);
}
