// Exercise 00.2: a barrier between the writes of all threads and the reads of one of them.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  Exercise exercise;
  exercise.kernel = "block_sum";
  exercise.launcher = Launcher::sum_rows;
  exercise.shapes = {{3, 1000}, {2, 7}, {4, 4096}};
  exercise.inputs = {InputKind::normal, InputKind::ascending};
  exercise.counted = {{4, 4096}};
  exercise.instructions = 80;
  exercise.rules = {
      {Counter::read_passes, 1, 1, "Each element of x is read once."},
      {Counter::shared_accesses, 5, 1e9,
       "The threads should hand over what they have through `values`, in shared memory."},
      {Counter::barriers, 1, 10, "One barrier is enough, and a tree needs one for each of its steps."},
  };
  exercise.task =
      "after all threads have written to `values`, wait for them, and let one thread add up what they wrote "
      "and write `sums[blockIdx.x]`.";
  exercise.why =
      "Shared memory is where the threads of a block meet, and the barrier makes sure that all have written "
      "before one reads. Without it the sum would be right or wrong by chance. That one thread adds up 128 "
      "values while 127 wait is not the best that a block can do: stage 02 has a tree, stage 03 does without "
      "memory.";
  exercise.remark = [](const Counts& counts) -> std::string {
    const std::uint64_t rows = static_cast<std::uint64_t>(counts.shape.rows);
    const std::uint64_t writes = counts.total.global_stores.requests / rows;
    if (writes <= 1) return "";
    return "One thing could be less: " + std::to_string(writes) +
           " warps each wrote the sum of a row. One thread is enough, in `if (threadIdx.x == 0)`; the others "
           "then need not read `values` either.";
  };
  exercise.before = "the starter";
  exercise.compared = {Counter::barriers, Counter::shared_accesses, Counter::read_passes};
  return check_exercise(exercise, argc, argv);
}
