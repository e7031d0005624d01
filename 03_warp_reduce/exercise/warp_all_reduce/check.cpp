// Exercise 03.1: a warp reduces without shared memory and without a barrier.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "warp_softmax";
  exercise.shapes = {{5, 100}, {1, 1}, {3, 33}, {9, 1024}};
  exercise.inputs = {InputKind::normal, InputKind::very_negative, InputKind::one_nan};
  exercise.counted = {{16, 1024}};
  exercise.instructions = 80;
  exercise.rules = {
      {Counter::read_passes, 1, 1, "The row waits in registers: x is read once."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::shared_accesses, 0, 0, "The lanes can exchange registers: no shared memory is needed."},
      {Counter::barriers, 0, 0, "The lanes of a warp need no __syncthreads(): a shuffle is enough."},
      {Counter::shuffles, 10, 12,
       "Five exchanges, at distances 16, 8, 4, 2 and 1, reach all 32 lanes, or six where one lane has the "
       "result and "
       "sends it to the others; there are two reductions. More than that: do you ask the other lanes one by "
       "one?"},
      {Counter::store_bytes, 128, 128, "One float for each lane at a time; packs are the next exercise."},
  };
  exercise.task =
      "fill the gap in `warp_all_reduce`: combine the values of all 32 lanes with __shfl_xor_sync.";
  exercise.why =
      "In each exchange a lane combines its value with that of a lane which has seen other elements, so the "
      "number of lanes "
      "behind a value doubles: five exchanges cover 32. With `xor` both partners do the same, so every lane "
      "has the result, "
      "and nobody waits for another warp.";
  exercise.before = "02.2, a block per row";
  exercise.compared = {Counter::read_passes, Counter::barriers, Counter::shared_accesses, Counter::shuffles};
  return check_exercise(exercise, argc, argv);
}
