// Exercise 06.2: a guard against -inf, and one rescaling per chunk.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "chunked_online_softmax";
  exercise.shapes = {{3, 8192}, {2, 1000}, {2, 7}, {4, 4096}};
  exercise.inputs = {InputKind::normal,         InputKind::ascending,   InputKind::very_negative,
                     InputKind::neg_inf_prefix, InputKind::all_neg_inf, InputKind::one_nan,
                     InputKind::large_magnitude};
  exercise.counted = {{4, 8192}};
  exercise.counted_input = InputKind::ascending;  // random elements are seldom a new maximum
  exercise.instructions = 100;
  exercise.rules = {
      {Counter::read_passes, 2, 2.1,
       "The row is read once for the pair of maximum and sum, and once for the result."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::exponentials, 2, 2.6,
       "One per element for its own term, a quarter for rescaling the sum once per chunk, and one in the "
       "result. Is the sum rescaled for every element? (Counted on rows where every element is a new "
       "maximum.)"},
      {Counter::barriers, 2, 4, "The two block reductions have two barriers each."},
  };
  exercise.task = "in `add_chunk`, never subtract -inf, and rescale the sum once for the four elements.";
  exercise.why =
      "With the lowest float in place of -inf every masked element adds exp(-inf) = 0, and a NaN still "
      "reaches the sum. The "
      "terms of a chunk share one maximum, so the sum is rescaled once for all of them, and they do not wait "
      "for each other.";
  exercise.before = "the starter";
  exercise.compared = {Counter::exponentials, Counter::read_passes, Counter::instructions};
  return check_exercise(exercise, argc, argv);
}
