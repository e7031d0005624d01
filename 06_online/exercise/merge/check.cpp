// Exercise 06.1: the maximum and the sum in one pass.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "online_softmax";
  exercise.shapes = {{3, 1000}, {2, 7}, {2, 128}, {4, 4096}};
  exercise.inputs = {InputKind::normal,         InputKind::ascending,   InputKind::very_negative,
                     InputKind::neg_inf_prefix, InputKind::all_neg_inf, InputKind::one_nan,
                     InputKind::large_magnitude};
  exercise.counted = {{4, 4096}};
  exercise.instructions = 600;
  exercise.rules = {
      {Counter::read_passes, 2, 2.1,
       "The row is read once for the pair of maximum and sum, and once for the result."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::barriers, 1, 2, "The pair is merged over the block once: one barrier, or two."},
      {Counter::exponentials, 0, 4,  // those of a double are not counted

       "A merge has two exponentials, one for each part, and the result one more per element."},
      {Counter::shuffles, 80, 160,  // a double takes two

       "Two numbers for each of 5 exchanges, in 4 warps, and once more for the warps' pairs."},
  };
  exercise.task =
      "fill the gap in `merge`; it must also be right where one part, or both, met no element (-inf, 0) or "
      "only -inf.";
  exercise.why =
      "A sum that was made against a smaller maximum is off by one factor, the same for all its terms, so it "
      "can be put "
      "right at any time. The sum need not wait for the maximum of the whole row, and one of the three reads "
      "is gone.";
  exercise.before = "02.2, three reads";
  exercise.compared = {Counter::read_passes, Counter::barriers, Counter::exponentials};
  return check_exercise(exercise, argc, argv);
}
