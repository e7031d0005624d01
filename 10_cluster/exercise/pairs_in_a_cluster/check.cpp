// Exercise 10.1: blocks of a cluster that exchange their pairs.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "cluster_row_softmax";
  exercise.clusters = true;
  exercise.shapes = {{2, 10000}, {1, 7}, {5, 4096}};
  exercise.inputs = {InputKind::normal,         InputKind::ascending,   InputKind::very_negative,
                     InputKind::neg_inf_prefix, InputKind::all_neg_inf, InputKind::one_nan};
  exercise.counted = {{2, 16384}};
  exercise.instructions = 120;
  exercise.rules = {
      {Counter::read_passes, 2, 2,
       "The row is read once for the pairs and once for the result; the pairs go from SM to SM, not through "
       "global memory."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::barriers, 16, 16, "Two merges over the block with two barriers each, in four blocks."},
  };
  exercise.task =
      "fill the gap in `exchange`: thread `other` of a block sends to block `other` of the cluster, after "
      "all "
      "have started and before anybody reads.";
  exercise.why =
      "A block reaches straight into the shared memory of another, one trip from SM to SM. The barrier of "
      "the "
      "cluster says that all are there, and then that all have sent.";
  exercise.before = "06.1, a block per row";
  exercise.compared = {Counter::read_passes, Counter::barriers, Counter::exponentials};
  return check_exercise(exercise, argc, argv);
}
