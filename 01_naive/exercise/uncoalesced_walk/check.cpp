// Exercise 01.3: neighbouring threads read neighbouring columns.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  const char* advice =
      "One request of 32 lanes that lie side by side touches 128 bytes, 4 sectors. What do neighbouring "
      "threads touch here "
      "in one iteration of the loop?";
  Exercise exercise;
  exercise.kernel = "shared_walk";
  exercise.launcher = Launcher::softmax_from_max_and_sum;
  exercise.shapes = {{3, 100}, {1, 1}, {2, 1000}, {16, 1024}};
  exercise.inputs = {InputKind::normal, InputKind::very_negative};
  exercise.counted = {{16, 1024}};
  exercise.instructions = 150;
  exercise.rules = {
      {Counter::read_passes, 0.9, 1.1,
       "Each element of x is needed once. Do several threads take the same column?"},
      {Counter::load_sectors, 1, 4.1, advice},
      {Counter::store_sectors, 1, 4.1, advice},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
  };
  exercise.task =
      "change the loop over `col` so that neighbouring threads touch neighbouring columns in each iteration.";
  exercise.why =
      "The lanes of a warp load at the same moment, and memory serves whole sectors of 32 bytes. If "
      "neighbouring lanes "
      "take neighbouring floats, every byte of a sector is used at once; if each lane walks through a "
      "piece of its own, "
      "32 sectors are fetched to use 4 bytes of each.";
  exercise.before = "the starter";
  exercise.compared = {Counter::load_sectors, Counter::store_sectors, Counter::read_passes};
  return check_exercise(exercise, argc, argv);
}
