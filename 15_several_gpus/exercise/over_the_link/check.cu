// Exercise 15.1: the messages of GPUs about a row, and the data that each GPU holds.
#include "15_several_gpus/part.cuh"
#include "common/exercise/exercise.h"
#include "common/harness/column_split.h"

namespace {

constexpr std::int64_t rows = 4096;
constexpr std::int64_t vocabulary = 151936;

double gpus_without(std::int64_t cols, int gpus) {
  int without = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) without += columns_of(gpu, gpus, cols).count == 0 ? 1 : 0;
  return without;
}

template <class Op>
double kib_sent(int gpus) {
  return static_cast<double>(rows * (gpus - 1)) * sizeof(Letter<Op>) / 1024;
}

}  // namespace

int main(int argc, char** argv) {
  const Prediction prediction{
      {
          {"columns_of_the_last",
           [] { return static_cast<double>(columns_of(3, 4, 1000).count); },
           {{250, "Parts are whole groups of 16 columns: 250 is none."},
            {256, "The first three have 256 each. How many columns are left?"}},
           "How many do the others have, in whole groups of 16?"},
          {"gpus_without_columns",
           [] { return gpus_without(40, 4); },
           {{0, "Parts are whole groups of 16 columns: how many groups do 40 columns make?"}},
           "Give away groups of 16 columns from the first GPU on."},
          {"kib_to_one",
           [] { return kib_sent<Softmax>(2); },
           {{32, "The number of the launch travels with the pair."},
            {48, "12 bytes are not written in one piece."},
            {128, "To itself it sends nothing."}},
           "Rows, times the bytes of what holds two floats and a number, and is written in one piece."},
          {"kib_to_seven",
           [] { return kib_sent<Softmax>(8); },
           {{512, "How many others are there?"}, {64, "Each of the others gets a message."}},
           "It sends each of the others the same message."},
          {"kib_of_a_loss",
           [] { return kib_sent<CrossEntropy>(2); },
           {{96, "Softmax leaves 4 of 16 bytes empty."}, {128, "16 bytes hold three floats and the number."}},
           "How many floats does a message about a row have, and how many bytes are they with the number?"},
          {"kib_of_a_row",
           [] { return static_cast<double>(columns_of(0, 2, vocabulary).count) * 2 / 1024; },
           {{296.75, "GPU 0 has half of the columns."}},
           "Its columns, times 2 bytes."},
      },
      "What goes over the link is a few bytes for a row, however wide it is: ten thousand times less than "
      "the "
      "row. The time that it takes is the latency, and that can hide behind other rows."};
  return check_prediction(prediction, argc, argv);
}
