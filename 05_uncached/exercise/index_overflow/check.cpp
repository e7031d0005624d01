// Exercise 05.2: 64-bit indices.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "wide_softmax";
  exercise.launcher = Launcher::softmax_of_rows;
  exercise.shapes = {{3, 1000}, {2, 7}, {2, 4096}};
  exercise.inputs = {InputKind::normal, InputKind::very_negative};
  // Times 1000 columns: beyond an int; times 4096: beyond an unsigned int. Then a row that is itself beyond
  // both.
  exercise.first_rows = {0, 3'000'000, 5'000'000'000};
  exercise.counted = {{4, 4096}};
  exercise.instructions = 80;
  exercise.rules = {
      {Counter::read_passes, 3, 3.1,
       "The block reads its row for the maximum, for the sum and for the result."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::barriers, 4, 4, "The two block reductions have two barriers each."},
  };
  exercise.task = "make the index right for every row of a matrix that has more than 2^31 elements.";
  exercise.why =
      "A product has the type of its factors, so both must have 64 bits before they are multiplied. In a "
      "matrix of 43000 x "
      "50257, the scores of a language model, an int turns negative at row 42731, and the kernel reads and "
      "writes somewhere "
      "else.";
  exercise.before = "the starter";
  exercise.compared = {Counter::read_passes, Counter::written_passes, Counter::instructions};
  return check_exercise(exercise, argc, argv);
}
