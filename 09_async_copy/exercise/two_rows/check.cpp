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
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::barriers, 6, 6,
       "Two reductions with two barriers each, one before packs of other threads are read, and one before "
       "the slot is "
       "copied over. More are not needed."},
  };
  exercise.task =
      "find the group that is missing in the last turn, and the barrier before the packs of other threads.";
  exercise.why =
      "A group in every turn, if only an empty one, keeps the count right: all groups but the latest have "
      "arrived. And "
      "behind the barrier all threads have waited, each for what it has copied itself.";
  exercise.before = "the starter";
  exercise.compared = {Counter::barriers, Counter::shared_accesses};
  return check_exercise(exercise, argc, argv);
}
