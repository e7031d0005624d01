// Exercise 09.1: a group in every turn, a barrier before the packs of others.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "two_rows_softmax";
  exercise.shapes = {{1, 1000}, {3, 1000}, {7, 8}, {4, 4096}};
  exercise.inputs = {InputKind::normal, InputKind::very_negative};
  exercise.counted = {{6, 4096}};
  exercise.instructions = 80;
  exercise.rules = {
      {Counter::read_passes, 1, 1, "Each element of x is copied once."},
      {Counter::copied_passes, 1, 1,
       "Each element of x travels by an asynchronous copy: what is loaded into a register first lets the "
       "thread wait for it, "
       "and nothing is on its way while the block works."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::barriers, 4, 6,
       "Two reductions with two barriers each, one before packs of other threads are read, and one before "
       "the slot is "
       "copied over. More are not needed."},
  };
  exercise.task =
      "find the group that is missing in the last turn, and the barrier before the packs of other threads.";
  exercise.why =
      "Where every turn makes a group, if only an empty one, \"all groups but the latest\" are this row's "
      "and those before. "
      "And behind a barrier all threads have waited, each for what it has copied itself.";
  exercise.before = "the starter";
  exercise.compared = {Counter::barriers, Counter::shared_accesses, Counter::copied_passes};
  return check_exercise(exercise, argc, argv);
}
