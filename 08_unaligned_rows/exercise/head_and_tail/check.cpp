// Exercise 08.1: packs between single elements.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "unaligned_softmax";
  exercise.shapes = {{5, 1001}, {9, 1}, {9, 2}, {7, 7}, {5, 33}, {4, 1000}, {5, 1026}};
  exercise.inputs = {InputKind::normal, InputKind::very_negative};
  exercise.counted = {{16, 1001}};
  exercise.instructions = 120;
  exercise.rules = {
      {Counter::load_bytes, 300, 512,
       "32 lanes with a pack each ask for 512 bytes in one request, and nearly all of a row are packs. Here "
       "lanes ask for less at a time."},
      {Counter::store_bytes, 300, 512,
       "The results should leave as they came: as packs, but for a few single elements."},
      {Counter::read_passes, 3, 3, "The row is read three times, each element once in each."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::barriers, 0, 0, "The lanes of a warp need no __syncthreads()."},
  };
  exercise.task =
      "in `cut_row`, say how many elements are before the first pack, how many packs there are, "
      "and how many elements are left.";
  exercise.why =
      "At most six of 1001 elements travel alone, and they take one request of the warp; all others are "
      "packs. Where the row begins does not matter any more.";
  exercise.before = "the starter";
  exercise.compared = {Counter::load_bytes, Counter::store_bytes, Counter::instructions,
                       Counter::read_passes};
  return check_exercise(exercise, argc, argv);
}
