// Exercise 01.2: the values between the steps stay in registers.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "subtract_exp_divide";
  exercise.launcher = Launcher::softmax_from_max_and_sum;
  exercise.shapes = {{3, 100}, {1, 1}, {16, 1024}};
  exercise.inputs = {InputKind::normal, InputKind::very_negative, InputKind::one_nan};
  exercise.counted = {{16, 1024}};
  exercise.instructions = 150;
  exercise.rules = {
      {Counter::load_sectors, 1, 4.1,
       "Neighbouring threads should read neighbouring columns: 128 bytes are 4 sectors."},
      {Counter::read_passes, 0.9, 1.1,
       "x is needed once. Is something written to memory only to be read again? Does another thread read it, "
       "too, or every block all rows?"},
      {Counter::written_passes, 1, 1, "y is written once, with the final value."},
  };
  exercise.task =
      "write the kernel `subtract_exp_divide` that does all three steps, and launch it in place of the "
      "three.";
  exercise.why =
      "The three steps of an element are done by one thread, so what one step hands to the next can stay in "
      "a register. "
      "Four of the six passes were nothing but handing over: kernels can do it only through memory.";
  exercise.before = "the starter";
  exercise.compared = {Counter::kernels, Counter::read_passes, Counter::written_passes};
  return check_exercise(exercise, argc, argv);
}
