// Exercise 11.1: the gradient of a row, by a warp that reads y and dy once.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "warp_gradient";
  exercise.launcher = Launcher::softmax_backward;
  exercise.shapes = {{5, 100}, {1, 1}, {3, 33}, {9, 1024}};
  exercise.inputs = {InputKind::normal, InputKind::near_one_hot, InputKind::one_nan};
  exercise.counted = {{16, 1024}};
  exercise.instructions = 60;
  exercise.rules = {
      {Counter::read_passes, 2, 2, "Both rows wait in registers: y and dy are read once each."},
      {Counter::written_passes, 1, 1, "Each element of dx is written once."},
      {Counter::shared_accesses, 0, 0,
       "The lanes can exchange registers: no shared memory is needed. Were arrays indexed by a number that "
       "the compiler does not know?"},
      {Counter::barriers, 0, 0, "The lanes of a warp need no __syncthreads(): a shuffle is enough."},
      {Counter::shuffles, 5, 5,
       "One sum over 32 lanes takes five exchanges. More than that: is the sum of the warp taken for every "
       "element?"},
      {Counter::exponentials, 0, 0, "y is the softmax already: its gradient needs no exponential."},
  };
  exercise.task =
      "fill the gap in `make_gradient`: add up y dy over the lane's elements and over the warp, then make "
      "dx.";
  exercise.why =
      "A row is reduced to something small, and then every element becomes its result: as for softmax, but "
      "what the lanes merge is one number. Two rows stay in registers, so each is read once.";
  exercise.before = "a kernel that reads both rows twice";
  exercise.compared = {Counter::read_passes, Counter::shared_accesses, Counter::shuffles};
  return check_exercise(exercise, argc, argv);
}
