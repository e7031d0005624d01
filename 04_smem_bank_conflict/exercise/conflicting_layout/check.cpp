// Exercise 04.2: a layout in shared memory without conflicts.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "kept_row_softmax";
  exercise.shapes = {{3, 1000}, {2, 7}, {2, 128}, {4, 4096}};
  exercise.inputs = {InputKind::normal, InputKind::very_negative};
  exercise.counted = {{4, 896}, {4, 1024}, {4, 4096}};  // packs of 7, 8 and 32
  exercise.instructions = 120;
  exercise.rules = {
      {Counter::read_passes, 1, 1, "The row waits in shared memory: x is read once."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::shared_accesses, 100, 1e9, "The row should wait in shared memory, and it is not there."},
      {Counter::bank_conflicts, 0, 0,
       "In these lines lanes of a warp want different words of the same bank and wait for each other. Which "
       "words do neighbouring lanes touch at this width? (The pack's size, cols / 128, may be odd or even.)"},
      {Counter::load_sectors, 1, 4.1, "Neighbouring threads should still read neighbouring columns of x."},
      {Counter::barriers, 0, 4, "Each thread touches only its own elements: no barrier is needed for them."},
  };
  exercise.task = "change `slot` so that neighbouring lanes touch different banks.";
  exercise.why =
      "All lanes touch element i of their packs at the same time, so these elements, and not those of one "
      "thread, should lie "
      "side by side: 32 neighbouring words are 32 banks. An odd distance between lanes would do, too: "
      "padding "
      "makes one of an even distance, and an even one of an odd.";
  exercise.before = "the starter";
  exercise.compared = {Counter::bank_conflicts, Counter::shared_accesses, Counter::read_passes};
  return check_exercise(exercise, argc, argv);
}
