// Exercise 12.1: cross-entropy and its gradient, by a warp that reads the row once.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "loss_and_gradient";
  exercise.launcher = Launcher::cross_entropy;
  exercise.shapes = {{5, 100}, {1, 1}, {3, 33}, {9, 1024}};
  exercise.inputs = {InputKind::normal, InputKind::lowest, InputKind::large_magnitude, InputKind::one_nan};
  exercise.counted = {{16, 1024}};
  exercise.instructions = 60;
  exercise.rules = {
      {Counter::read_passes, 1, 1.01,
       "The row waits in registers: x is read once, and x[label] is there, too."},
      {Counter::written_passes, 1, 1.01, "Each element of dx is written once, and no probability."},
      {Counter::shared_accesses, 0, 0, "Nothing has to be exchanged: no shared memory is needed."},
      {Counter::barriers, 0, 0, "The lanes of a warp need no __syncthreads()."},
      {Counter::shuffles, 10, 15,
       "Ten exchanges make the maximum and the sum; the lane that has x[label] can write the loss itself."},
      {Counter::exponentials, 1, 2.01,
       "One exponential for the sum, and one for dx. More than that: is one taken for each label?"},
  };
  exercise.task =
      "fill the gap in `make_loss_and_gradient`: the lane that has the label's element writes the loss; then "
      "each x becomes dx.";
  exercise.why =
      "The maximum and the sum of a row say all that the loss and its gradient need. So what were three "
      "kernels is one, x is read once, and probabilities are never in memory.";
  exercise.before = "three kernels";
  exercise.compared = {Counter::kernels, Counter::read_passes, Counter::written_passes};
  return check_exercise(exercise, argc, argv);
}
