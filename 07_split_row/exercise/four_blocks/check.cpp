// Exercise 07.1: blocks that exchange their pairs.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "shared_row_softmax";
  exercise.shapes = {{2, 10000}, {1, 7}, {5, 4096}};
  exercise.inputs = {InputKind::normal,         InputKind::ascending,   InputKind::very_negative,
                     InputKind::neg_inf_prefix, InputKind::all_neg_inf, InputKind::one_nan};
  exercise.counted = {{2, 16384}};
  exercise.instructions = 120;
  exercise.rules = {
      {Counter::read_passes, 2, 2.4,
       "The row is read once for the pairs and once for the result; a slot is 8 bytes, and few are waited "
       "for."},
      {Counter::written_passes, 1, 1.1, "Each element of y is written once, and each slot twice."},
      {Counter::barriers, 16, 16, "Two merges over the block with two barriers each, in four blocks."},
  };
  exercise.task =
      "fill the gap in `exchange`: thread `other` of a block sends to block `other` of the row, and waits "
      "for what "
      "that sends; the slots must be empty again for the next launch.";
  exercise.why =
      "The pair fits one 8-byte access, so it arrives in one piece and says by itself that it is there: no "
      "flag, "
      "no fence, no counter. And whoever waits for a slot is the only one who reads it, so it can empty it.";
  exercise.before = "06.1, a block per row";
  exercise.compared = {Counter::read_passes, Counter::barriers, Counter::exponentials};
  return check_exercise(exercise, argc, argv);
}
