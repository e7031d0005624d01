// Exercise 02.1: a barrier between write and read, a maximum that starts at -inf.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "tree_softmax";
  exercise.shapes = {{3, 1000}, {2, 7}, {2, 256}, {4, 4096}};
  exercise.inputs = {InputKind::normal,         InputKind::very_negative, InputKind::lowest,
                     InputKind::neg_inf_prefix, InputKind::all_neg_inf,   InputKind::one_nan};
  exercise.counted = {{4, 4096}};
  exercise.instructions = 200;
  exercise.rules = {
      {Counter::read_passes, 3, 3.1,
       "The block reads its row for the maximum, for the sum and for the result."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
  };
  exercise.more_rules = [](const Counts& counts) {
    int steps = 0;
    while (1U << steps < counts.block_size) ++steps;
    const std::string number_of_steps = std::to_string(steps);
    return std::vector<Rule>{{Counter::barriers, 2.0 * steps, 2.0 * (steps + 2),
                              "Each of the two reductions has " + number_of_steps +
                                  " steps: a barrier before each step, one after the last, and perhaps one "
                                  "more before the values are used "
                                  "again. More are not needed, and each makes all threads wait.",
                              "Keep the tree: " + number_of_steps +
                                  " steps for each of the two reductions, with one barrier each."}};
  };
  exercise.task =
      "find the place where a thread may read what another has not yet written, and the value that is wrong "
      "for a row of "
      "negative numbers.";
  exercise.why =
      "Between the write of one thread and the read of another all threads pass a barrier now, so the order "
      "in which warps "
      "run no longer matters. And the maximum starts at a value that is never above the row's: with 0 a row "
      "of -200 gives "
      "0 / 0.";
  exercise.before = "the starter";
  exercise.compared = {Counter::barriers, Counter::read_passes};
  return check_exercise(exercise, argc, argv);
}
