// Exercise 03.2: a lane takes 16 bytes with one access.
#include "common/exercise/exercise.h"

int main(int argc, char** argv) {
  const char* advice = "32 lanes with one access of 16 bytes each ask for 512 bytes in one request.";
  Exercise exercise;
  exercise.kernel = "packed_softmax";
  exercise.shapes = {{5, 128}, {1, 4}, {3, 1000}, {9, 1024}};
  exercise.inputs = {InputKind::normal, InputKind::very_negative};
  exercise.counted = {{16, 1024}};
  exercise.instructions = 60;
  exercise.rules = {
      {Counter::load_bytes, 512, 512, std::string(advice) + " Here each lane asks for less at a time."},
      {Counter::store_bytes, 512, 512, std::string(advice) + " Here each lane writes less at a time."},
      {Counter::read_passes, 1, 1, "Each element of x is read once."},
      {Counter::written_passes, 1, 1, "Each element of y is written once."},
      {Counter::shuffles, 10, 10, "The two reductions of the warp need 5 shuffles each."},
      {Counter::barriers, 0, 0, "The lanes of a warp need no __syncthreads()."},
  };
  exercise.task = "read and write each pack with one access of 16 bytes, in `load_pack` and `store_pack`.";
  exercise.why =
      "The same bytes travel with a quarter of the requests, so each load that a warp issues sends four "
      "times as many bytes "
      "on their way. The sectors are the same, and so is the arithmetic: only loads and stores are fewer.";
  exercise.before = "the starter";
  exercise.compared = {Counter::load_bytes, Counter::store_bytes, Counter::instructions,
                       Counter::read_passes};
  return check_exercise(exercise, argc, argv);
}
