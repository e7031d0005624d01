// Exercise 13.1: scale, mask and dropout around the softmax of a warp.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "masked_softmax";
  exercise.launcher = Launcher::causal_softmax;
  exercise.shapes = {{20, 12}, {1, 4}, {64, 64}, {7, 1024}};
  exercise.inputs = {InputKind::normal, InputKind::large_magnitude, InputKind::lowest};
  exercise.counted = {{128, 128}};
  exercise.instructions = 2000;
  exercise.rules = {
      {Counter::read_passes, 0.5, 0.53,
       "A query sees half of the columns on average. Of four neighbours that it does not see nothing need be "
       "read."},
      {Counter::written_passes, 2, 2.01, "The softmax and y are written once, and nothing else."},
      {Counter::shared_accesses, 0, 0, "Nothing has to be exchanged: no shared memory is needed."},
      {Counter::barriers, 0, 0, "The lanes of a warp need no __syncthreads()."},
  };
  exercise.task =
      "fill the gaps in `load_scores`, which masks, and in `drop`, which drops: both know the four elements "
      "they have.";
  exercise.why =
      "What comes before a softmax is a load, and what follows a store: the kernel between does not change. "
      "And "
      "random bits that can be drawn again need not be stored for the gradient.";
  exercise.before = "four kernels";
  exercise.compared = {Counter::kernels, Counter::read_passes, Counter::written_passes};
  return check_exercise(exercise, argc, argv);
}
