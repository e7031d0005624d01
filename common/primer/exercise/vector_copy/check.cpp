// Exercise 00.1: each element is copied once, by neighbouring threads.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  const char* advice =
      "Neighbouring threads should copy neighbouring elements: then the 32 lanes of a warp touch 128 bytes "
      "in "
      "one piece, 4 sectors of 32 bytes. Where each thread copies a piece of its own, a warp touches 32 "
      "sectors and uses 4 bytes of each.";
  Exercise exercise;
  exercise.kernel = "vector_copy";
  exercise.launcher = Launcher::copy_vector;
  exercise.shapes = {{1, 256}, {1, 1000}, {1, 1}, {1, 4096}};
  exercise.inputs = {InputKind::normal};
  // Few elements: a learner whose threads each copy all of them does not have to wait for the answer.
  exercise.counted = {{1, 4096}};
  exercise.instructions = 40;
  exercise.rules = {
      {Counter::read_passes, 1, 1, "Each element of x is read once."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::load_sectors, 1, 4.1, advice},
      {Counter::store_sectors, 1, 4.1, advice},
  };
  exercise.task = "in `vector_copy`, copy the one element that belongs to this thread, if there is one.";
  exercise.why =
      "Each thread finds its element from the numbers of its block and of itself, and the threads past the "
      "end "
      "do nothing. Neighbouring threads touch neighbouring bytes, so nothing is fetched that is not used. No "
      "softmax can be faster than this kernel: it reads everything once and writes everything once, two "
      "passes.";
  exercise.before = "the starter";
  exercise.compared = {Counter::read_passes, Counter::written_passes, Counter::load_sectors};
  return check_exercise(exercise, argc, argv);
}
