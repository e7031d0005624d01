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
  };
  exercise.more_rules = [](const Counts& counts) {
    // Each warp merges its lanes, and then the warps' pairs: 10 merges for each thread, besides those of the elements. A
    // double takes two shuffles, and its exponentials are not counted.
    const double merges = 10.0 * counts.block_size;
    return std::vector<Rule>{
        {Counter::exponentials, 0, 3.5 + 2 * merges / static_cast<double>(counts.shape.cols),
         "A merge has two exponentials, one for each part, and the result one more per element."},
        {Counter::shuffles, 2 * merges / 32, 4 * merges / 32,
         "Two numbers for each of 5 exchanges, in every warp, and once more for the warps' pairs."}};
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
